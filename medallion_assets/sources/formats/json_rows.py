"""JSON records, one to a line of ``plain_pieces``, as rows; XML elements come as JSON, and are read alike.

``json_blocks`` takes what surely fits; ``CarefulReader`` decides the rest by the rules alone: a row, what no
column took, or why it is none. Spark parses the values of columns whose type or time format only Spark knows.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, types
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.sources.formats.json_blocks import TypedReader
from medallion_assets.sources.formats.json_scan import MALFORMED, NotJson, Value, scan, skip_blank
from medallion_assets.sources.formats.json_values import as_read, stored_type, take_object
from medallion_assets.sources.formats.messages import Messages
from medallion_assets.sources.formats.parsed_files import (
    JUDGED,
    Parsed,
    ParsedFiles,
    line_tasks,
    parse_files,
    with_positions,
    written_as,
)
from medallion_assets.sources.formats.parsed_frames import (
    FROM,
    TEXTS,
    finished,
    origin,
    parsed_by_spark,
    stored_columns,
)
from medallion_assets.sources.formats.xml import elements
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import FILE_PATH, NO_FIT, CutRecord

NOT_UTF8 = "not valid UTF-8"
SEVERAL = "several values on one line"
NO_OBJECT = "not a JSON object"
REPEATED = f"{NO_FIT}: a key is there twice"


@dataclass
class Judged:
    """A record as it was decided.

    Attributes:
        values: The columns' values, none for a record that is no row.
        rescued: The rescued data, NULL where nothing was left over.
        raw, reason, encoded: Of a record that is no row its text, why, and its bytes as base64 where the text
            is not exact.
    """

    values: dict[str, Any] = field(default_factory=dict)
    rescued: str | None = None
    raw: str | None = None
    reason: str | None = None
    encoded: str | None = None


@dataclass(frozen=True)
class CarefulReader:
    """Decides records of a schema.

    Attributes:
        schema: The columns there are.
        rescues: Fields that no column knows are kept, as rescued data.
        rescues_values: Values that do not fit their column are too; else they refuse their record.
        keeps_text: Rows keep their record's text too, for columns that Spark parses after.
        encoding, errors: How the file's bytes are written, for records whose text is not exact.
        refusal: Why no sound record can be a row.
    """

    schema: types.StructType
    rescues: bool
    rescues_values: bool
    keeps_text: bool = False
    encoding: str = "utf-8"
    errors: str = "surrogateescape"
    refusal: str = ""

    def judge(self, line: bytes, file: str) -> Judged:
        """Return what a record is, which came from a file."""
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return refused_bytes(line, NOT_UTF8, self.encoding, self.errors)
        value = object_of(text)
        if isinstance(value, str):
            return Judged(raw=text, reason=value)
        if self.refusal:
            return Judged(raw=text, reason=self.refusal)
        taken = take_object(text, value, self.schema)
        if taken.misfit and not self.rescues_values:
            return Judged(raw=text, reason=NO_FIT)
        if taken.repeated and not self.rescues:
            return Judged(raw=text, reason=REPEATED)
        rescued = rescued_data(taken.left, file) if self.rescues else None
        return Judged(taken.values, rescued, text if self.keeps_text else None)

    def table(self, judged: Sequence[Judged], places: Sequence[str | None]) -> pa.Table:
        """Return decided records, and where each is in its file, as the schema's columns and ``JUDGED``."""
        stored = list(stored_type(self.schema))
        columns = [pa.array([j.values.get(f.name) for j in judged], f.type) for f in stored]
        texts = [[j.rescued for j in judged], [j.raw for j in judged], [j.reason for j in judged]]
        texts += [list(places), [j.encoded for j in judged]]
        columns += [pa.array(column, pa.string()) for column in texts]
        return pa.table(columns, pa.schema([*stored, *JUDGED]))


def object_of(text: str) -> Value | str:
    """Return the only object of a text, or why there is none."""
    try:
        value = scan(text)
    except NotJson:
        return MALFORMED
    rest = skip_blank(text, value.end)
    if rest < len(text):
        return SEVERAL if _more_values(text, rest) else MALFORMED
    return value if value.kind == "object" else NO_OBJECT


def _more_values(text: str, at: int) -> bool:
    while at < len(text):
        try:
            at = skip_blank(text, scan(text, at + (text[at] == ",")).end)
        except NotJson:
            return False
    return True


def refused_bytes(line: bytes, reason: str, encoding: str, errors: str) -> Judged:
    """Return a record that is no text: as readable as can be, and its bytes as they are in its file."""
    exact = line
    if encoding != "utf-8":
        exact = line.decode("utf-8", errors).encode(encoding, errors)
    readable = line.decode("utf-8", "replace")
    return Judged(raw=readable, reason=reason, encoded=base64.b64encode(exact).decode())


def rescued_data(left: Sequence[str], file: str) -> str | None:
    """Return ``"name":value`` parts as one JSON object with the file's path at its end, None for no part."""
    if not left:
        return None
    return f"{{{','.join(left)},{FILE_PATH}{json.dumps(file, ensure_ascii=False)}}}"


JUDGED_AT_ONCE = 8192
"""Records that are Python objects at a time, which take several times the memory of their text."""

UNITS = {"lines": "line", "recoded": "line"}
"""What a record is called in its position, by the file's layout; elsewhere ``record``."""


def parse_json_files(
    files: Sequence[Entry], schema: types.StructType, source: Source, folder: Path
) -> ParsedFiles:
    """Write the files' records to Parquet files in a folder, typed by the schema."""
    read = as_read(schema, source)
    typed = TypedReader(read)
    careful = careful_reader(read, source)

    def parse(file: Entry, block: bytes, first: int, cut: Sequence[CutRecord]) -> Parsed:
        lines = typed.split(block) if file.refusal else typed.read(block)
        unit = UNITS.get(file.layout, "record")
        parsed = Parsed([file], lines.rows, size=len(block))
        if source.select:
            numbered = zip(lines.rows, lines.numbers, strict=True)
            parsed.rows = [with_positions(rows, unit, first, numbers) for rows, numbers in numbered]
        if isinstance(cut, Messages):
            parsed.rows = list(map(cut.beside, lines.rows, lines.numbers))
        if lines.others:
            reader = _of_file(careful, file, source)
            tables = []
            for start in range(0, len(lines.others), JUDGED_AT_ONCE):
                some = lines.others[start : start + JUDGED_AT_ONCE]
                judged = [
                    _judge_cut(reader, cut[number], line, file.path) if cut else reader.judge(line, file.path)
                    for number, line in some
                ]
                numbers = [number for number, _ in some]
                if isinstance(cut, Messages):
                    tables.append(cut.beside(reader.table(judged, cut.places(numbers)), numbers))
                else:
                    tables.append(reader.table(judged, [f"{unit} {first + number}" for number in numbers]))
            parsed.judged.append(pa.concat_tables(tables))
        return parsed

    return parse_files(line_tasks(files, source, parse), folder)


def _judge_cut(reader: CarefulReader, record: CutRecord, line: bytes, file: str) -> Judged:
    """Return what a record is that was cut out of its file; one that is none keeps its text there."""
    judged = Judged(reason=record.reason) if record.reason else reader.judge(line, file)
    if not judged.reason:
        return judged
    text = record.text.encode("utf-8", reader.errors)
    refused = refused_bytes(text, judged.reason, reader.encoding, reader.errors)
    return refused if refused.raw != record.text else replace(refused, encoded=None)


def careful_reader(read: types.StructType, source: Source) -> CarefulReader:
    """Return what decides the source's records; ``read`` is its schema as by ``as_read``."""
    return CarefulReader(read, bool(source.rescued), source.rescues_values, bool(parsed_by_spark(read)))


def _of_file(careful: CarefulReader, file: Entry, source: Source) -> CarefulReader:
    encoding, errors = written_as(file, source)
    return replace(careful, encoding=encoding, errors=errors, refusal=file.refusal)


def _judge_text(reader: CarefulReader, text: str, file: str, source: Source) -> Judged:
    if source.format != "xml":
        return reader.judge(text.encode(), file)
    found = list(elements(BytesIO(text.encode()), source))
    if len(found) != 1:
        return Judged(
            raw=text, reason=f"{len(found)} elements {source.option('rowTag', default='')} in one record"
        )
    return _judge_cut(reader, replace(found[0], text=text), found[0].line.encode(), file)


def judged_texts(lines: DataFrame, source: Source, schema: types.StructType) -> DataFrame:
    """Return records that a frame holds as text, in the columns of ``reading``.

    Args:
        lines: ``value`` STRING: a record; ``_source_file`` STRING, ``_source_modified_at`` TIMESTAMP.
        source: What the records come from.
        schema: The columns wanted.
    """
    read = as_read(schema, source)
    careful = careful_reader(read, source)

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts, files = batch["value"].to_pylist(), batch["_source_file"].to_pylist()
            records = zip(texts, files, strict=True)
            judged = [_judge_text(careful, text or "", file, source) for text, file in records]
            table = careful.table(judged, [None] * len(judged))
            for name in FROM.names:
                table = table.append_column(name, batch[name])
            yield from table.combine_chunks().to_batches()

    columns = types.StructType([*stored_columns(read).fields, *TEXTS.fields, *FROM.fields])
    records = lines.select("value", *FROM.names).mapInArrow(judge, columns)
    unknown = [field for field in origin(source) if field.name not in FROM.names]
    return finished(
        records.withColumns({f.name: F.lit(None).cast(f.dataType) for f in unknown}), source, schema
    )
