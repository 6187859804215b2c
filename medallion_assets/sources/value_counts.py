"""Count the values of each field in a landing file, without Spark and without the table's schema.

One side of the conservation of values (``value_books``), which compares it with the committed values.
A value is a JSON member that is not null, a CSV cell that is not empty, a Parquet cell that is not NULL.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from medallion_assets.session.cluster import on_executors
from medallion_assets.sources.counting import plain_pieces
from medallion_assets.sources.formats.csv_blocks import STRICT
from medallion_assets.sources.formats.csv_records import Dialect, column_names, has_header
from medallion_assets.sources.formats.csv_rows import csv_cells
from medallion_assets.sources.formats.json_counts import json_values
from medallion_assets.sources.formats.messages import message_blocks
from medallion_assets.sources.formats.orc import orc_values
from medallion_assets.sources.formats.parsed_files import file_groups
from medallion_assets.sources.formats.text_files import are_for_executors
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import UTF_8, wrapping
from medallion_assets.sources.options import Source

BLOCK = 16 << 20
"""Bytes of a CSV file counted at once."""

NOT_COUNTED = {
    "avro": "an Avro file says nothing of its NULLs, and decoding it costs as much as loading it",
    "xml": "attributes and nested elements of XML have no one column each",
    "binaryFile": "a binary file is one value",
}
MOST_BESIDE = 16
"""Columns that a CSV file may have besides those of its header; a file with more is counted by its cells."""


@dataclass
class ValueCounts:
    """The values of a file, by field name.

    Attributes:
        values: Values in each field, including empty texts.
        empty: Of them, texts without a character: NULL in a column that is no STRING.
        null_texts: Of them, texts that the option ``nullValue`` declares to be NULL.
        repeated: Fields that a record has twice, of which a column takes one.
        uncounted: Fields whose values the file's own statistics do not tell.
        reason: Why the file's values are not counted; empty where they are.
    """

    values: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)
    null_texts: Counter[str] = field(default_factory=Counter)
    repeated: set[str] = field(default_factory=set)
    uncounted: set[str] = field(default_factory=set)
    reason: str = ""

    def of_column(self, name: str, is_text: bool) -> int:
        """Return the values a column of this name must have taken; ``is_text`` of a STRING column."""
        return self.values[name] - self.null_texts[name] - (0 if is_text else self.empty[name])


def count_values(file: Entry, source: Source) -> ValueCounts:
    """Return how many values the file has in each field; records that no reader can cut count none.

    Raises:
        OSError: The file cannot be read any more.
    """
    if source.format in NOT_COUNTED:
        return ValueCounts(reason=NOT_COUNTED[source.format])
    if source.format == "text":
        blocks = message_blocks(file.location, file.path) if source.kafka else ()
        # A refused message is one value in the quarantine, though it be a tombstone.
        without = sum(m.values[n] is None and n not in m.refused for m in blocks for n in range(len(m)))
        return ValueCounts(Counter({"value": file.records - without}))
    if source.format == "json":
        values, repeated = json_values(plain_pieces(file, source))
        return ValueCounts(values, repeated=repeated)
    if source.format == "csv":
        return _of_csv(file, source)
    return _of_parquet(file.location) if source.format == "parquet" else _of_orc(file.location)


def _of_csv(file: Entry, source: Source) -> ValueCounts:
    counts, null = ValueCounts(), source.option("nullValue", default="")
    names, dialect = column_names(file.header, source), Dialect.of(source)
    usual = dialect.is_ascii and dialect.escape == dialect.quote and not dialect.comment
    usual = usual and wrapping(file.location, source).encoding in UTF_8
    if usual and file.layout == STRICT:
        try:
            return _uncut(file, source, names, dialect, null)
        except (pa.ArrowException, StopIteration):
            # Lines of blanks, or one column only: what is a record there is for the careful reader to say.
            pass
    for _, cells in csv_cells(file, source):
        for name, column in cells.items():
            _count_cells(counts, name, column, null)
    return counts


def _uncut(file: Entry, source: Source, names: list[str], dialect: Dialect, null: str) -> ValueCounts:
    """Return the counts of a file of strict RFC 4180, without the records that the load cuts it into.

    Pyarrow finds the header, the width and the records by itself: where the load cut one in two or took two
    for one, the counts differ.

    Raises:
        ArrowException: A line has another number of cells than the first.
    """
    how = pa.csv.ParseOptions(
        delimiter=dialect.sep, quote_char=dialect.quote, newlines_in_values=True, ignore_empty_lines=True
    )
    counts, header = ValueCounts(), has_header(source)
    # By pyarrow's own names for columns: the header may have been read as fewer than there are.
    kinds = {f"f{place}": pa.string() for place in range(len(names) + MOST_BESIDE)}
    texts = pa.csv.ConvertOptions(
        check_utf8=False, column_types=kinds, null_values=[""], strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )  # fmt: skip
    read = pa.csv.ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=BLOCK)
    with wrapping(file.location, source).opened(file.location) as whole:
        rows_of = pa.csv.open_csv(whole, read, how, texts)
        width = len(rows_of.schema)
        if width < 2:
            raise pa.ArrowInvalid("a line of blanks may be a record or none")
        names = [*names, *(f"_c{place}" for place in range(len(names), width))][:width]
        for rows in rows_of:
            for name, column in zip(names, rows.slice(int(header)).columns, strict=True):
                _count_cells(counts, name, column, null)
            header = False
    return counts


def _count_cells(counts: ValueCounts, name: str, cells: pa.Array, null: str) -> None:
    counts.values[name] += len(cells) - cells.null_count
    counts.empty[name] += pc.sum(pc.equal(cells, "")).as_py() or 0
    if null:
        counts.null_texts[name] += pc.sum(pc.equal(cells, null)).as_py() or 0


def _of_parquet(path: Path) -> ValueCounts:
    """Return the counts of a Parquet file's own statistics; a column without them is not counted."""
    counts, footer = ValueCounts(), pq.read_metadata(path)
    fields = footer.schema.to_arrow_schema()
    names, flat = fields.names, {f.name for f in fields if not pa.types.is_nested(f.type)}
    unknown: set[str] = set()
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for index in range(group.num_columns):
            chunk = group.column(index)
            # A part of a struct may have the path of another column: the field b of a column a, and a.b.
            if footer.schema.column(index).name != chunk.path_in_schema:
                continue
            known = chunk.statistics is not None and chunk.statistics.has_null_count
            if known:
                counts.values[chunk.path_in_schema] += group.num_rows - chunk.statistics.null_count
            else:
                unknown.add(chunk.path_in_schema)
    for name in (*unknown, *(counts.values.keys() - flat)):
        del counts.values[name]
    counts.uncounted = unknown | (set(names) - flat)
    return counts


def _of_orc(path: Path) -> ValueCounts:
    values, uncounted = orc_values(path)
    return ValueCounts(values, uncounted=uncounted)


def count_in_background(
    files: Sequence[Entry], source: Source, spark: SparkSession | None = None
) -> "dict[str, Future[ValueCounts]]":
    """Return each file's values as they will be known: they are counted while Spark loads the files.

    Executors count what they parse, where there is a session; this process counts all else.
    """
    thread = ThreadPoolExecutor(1)
    if spark and source.format in ("csv", "json") and are_for_executors(files):
        counts: dict[str, Future[ValueCounts]] = {file.path: Future() for file in files}
        thread.submit(_count_on_executors, spark, files, source, counts)
    else:
        counts = {file.path: thread.submit(count_values, file, source) for file in files}
    thread.shutdown(wait=False)
    return counts


def _count_on_executors(
    spark: SparkSession, files: Sequence[Entry], source: Source, counts: "dict[str, Future[ValueCounts]]"
) -> None:
    def count(group: list[Entry]) -> list[ValueCounts]:
        return [count_values(file, source) for file in group]

    groups = list(file_groups(files))
    try:
        found = on_executors(spark, groups, count)
    except Exception:
        # A file that changed, or lost executors: here each file fails by itself.
        found = []
    known = {
        f.path: n
        for group, each in zip(groups, found, strict=False)
        for f, n in zip(group, each, strict=True)
    }
    for file in files:
        try:
            counts[file.path].set_result(known.get(file.path) or count_values(file, source))
        except Exception as error:
            counts[file.path].set_exception(error)
