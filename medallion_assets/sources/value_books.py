"""Conservation of values: for each landing file and column, values read = committed + rescued + quarantined.

The values of the file are counted outside Spark (``value_counts``), the committed values in the Parquet files
that the batch's commits added, by the landing file of each row. No Spark job runs. A difference is a value
that was lost or added, although every row is there.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medallion_assets.sources.formats.json_counts import keys_of, members, repeated_keys
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.quarantine import PARSE, SCHEMA, own_members
from medallion_assets.sources.refused_values import RefusedRecord
from medallion_assets.sources.value_counts import ValueCounts
from medallion_assets.storage import for_reader

NO_STATISTICS = "the file's statistics do not say how many values it has, or it is nested there"
NESTED = "nested: its statistics do not tell a lost element from one that was never there"
BY_QUERY = "computed or left out by the query"
PARTITION = "a partition column of the table: its values are in folder names"
REPEATED = "a record has the field twice, and a column takes one"
Counts = dict[str, Counter[str]]
"""Counts by landing file, then by column or field."""


@dataclass(frozen=True)
class ValueBooks:
    """One landing file's values.

    Attributes:
        read: Values the file holds in fields that are accounted for.
        unaccounted: By column, values that were read and are missing; negative where there are more than
            were read. Empty where the values balance.
        uncounted: By column, why it is not counted.
        unkept: By field, values that the declaration drops: the field has no column, and the source has no
            rescued data column.
    """

    read: int = 0
    unaccounted: dict[str, int] = field(default_factory=dict)
    uncounted: dict[str, str] = field(default_factory=dict)
    unkept: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class QueryColumns:
    """What a bronze table's query does with the columns of its records.

    Attributes:
        read: The columns of the records, without those that come from folder names.
        kept: The columns among them that the query returns unchanged; None where the table has no query.
        rescued: The rescued data column of the source, empty for none.
    """

    read: frozenset[str]
    kept: frozenset[str] | None
    rescued: str

    @property
    def keeps_rescued(self) -> bool:
        """Whether fields without a column reach the table in the rescued data column."""
        return bool(self.rescued) and (self.kept is None or self.rescued in self.kept)

    def changes(self, name: str) -> bool:
        """Return whether the query computes this column itself or leaves it out."""
        return self.kept is not None and name in self.read and name not in self.kept


@dataclass(frozen=True)
class FileColumns:
    """Names of a bronze table's columns for file, rescued data and corrupt record; empty for none."""

    file: str
    rescued: str = ""
    corrupt: str = ""


@dataclass
class CommittedValues:
    """Values that a batch's commits hold, by landing file and column or field.

    Attributes:
        columns: The table's columns that can be counted, and whether each is a STRING.
        uncounted: The other columns, and why.
        committed, rescued: Values in the table's columns, and in its rescued data.
        quarantined: Values of raw records in quarantine, and in the rescued data of rows there.
        refused: Values in the columns of rows in quarantine, the engine's and the query's own with them.
        corrupt: By landing file, rows that hold a malformed record as text.
        repeated: Fields that a rescued record has twice.
    """

    columns: dict[str, bool] = field(default_factory=dict)
    uncounted: dict[str, str] = field(default_factory=dict)
    committed: Counts = field(default_factory=lambda: defaultdict(Counter))
    rescued: Counts = field(default_factory=lambda: defaultdict(Counter))
    quarantined: Counts = field(default_factory=lambda: defaultdict(Counter))
    refused: Counts = field(default_factory=lambda: defaultdict(Counter))
    corrupt: Counter[str] = field(default_factory=Counter)
    repeated: set[str] = field(default_factory=set)

    def add_rows(self, parts: Sequence[Path], names: Mapping[str, str], columns: FileColumns) -> None:
        """Count the values of data files.

        Args:
            parts: Parquet files that the batch's commit added to the table.
            names: The table's columns and their names inside Parquet.
            columns: Which of them say where a row is from and what did not fit.
        """
        for part in parts:
            file = pq.ParquetFile(for_reader(part))
            there = set(file.schema_arrow.names)
            flat = {n: p for n, p in names.items() if p in there and n in self.columns}
            for name in (names.keys() & self.columns.keys()) - flat.keys():
                del self.columns[name]
                self.uncounted[name] = PARTITION
            for number in range(file.num_row_groups):
                self._add_group(file, number, flat, names[columns.file])
            if names.get(columns.rescued) in there:
                for path, text in _texts(file, names[columns.rescued], names[columns.file]):
                    self.rescued[path].update(self._rescued_members(text))
            if names.get(columns.corrupt) in there:
                rows = _texts(file, names[columns.corrupt], names[columns.file])
                self.corrupt.update(path for path, _ in rows)

    def add_refused(
        self, parts: Sequence[Path], rescued: str, values: Callable[[RefusedRecord], Counter[str]]
    ) -> None:
        """Count the values of raw records and of rows that a batch's commits added to the quarantine.

        Args:
            parts: Parquet files that the commits added.
            rescued: The rescued data column that rows have; a raw record may have a field of this name.
            values: Counts those of a raw record.
        """
        columns = ("row", "source_file", "reason_class", "rules", "raw_base64")
        for text, path, kind, rules, encoded in _rows(parts, *columns):
            if kind in (PARSE, SCHEMA):
                record = RefusedRecord(path, text or "", (rules or [""])[0], not encoded)
                self.quarantined[path].update(values(record))
                continue
            found = members(text or "")
            nested = _text_of(text, rescued) if rescued and found.pop(rescued, 0) else ""
            self.refused[path].update(found)
            self.quarantined[path].update(self._rescued_members(nested))

    def _add_group(
        self, file: pq.ParquetFile, number: int, flat: Mapping[str, str], file_column: str
    ) -> None:
        group = file.metadata.row_group(number)
        chunks = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
        only = _only_value(chunks[file_column])
        counted = {n for n, p in flat.items() if getattr(chunks[p].statistics, "has_null_count", False)}
        unknown = {n: p for n, p in flat.items() if only is None or n not in counted}
        for name in flat.keys() - unknown.keys():
            statistics = chunks[flat[name]].statistics
            self.committed[only or ""][name] += group.num_rows - statistics.null_count
        if unknown:
            self._add_columns(
                file.read_row_group(number, [file_column, *unknown.values()]), unknown, file_column
            )

    def _add_columns(self, rows: pa.Table, names: Mapping[str, str], file_column: str) -> None:
        # Pyarrow's grouping takes a name that begins with . or [ for a path into another column.
        place = {physical: f"c{number}" for number, physical in enumerate(rows.column_names)}
        by = place[file_column]
        counted = [(place[physical], "count") for physical in names.values() if physical != file_column]
        for row in rows.rename_columns([*place.values()]).group_by(by).aggregate(counted).to_pylist():
            for name, physical in names.items():
                self.committed[row[by]][name] += row.get(f"{place[physical]}_count", 0)

    def _rescued_members(self, text: str) -> Counter[str]:
        found = own_members(keys_of(text))
        self.repeated |= repeated_keys(key for key, _ in found)
        return Counter(key for key, is_value in found if is_value)


def books_of(
    file: Entry, counts: ValueCounts, there: CommittedValues, query: QueryColumns, dropped: int
) -> ValueBooks:
    """Return the books of one landing file.

    Args:
        file: The file.
        counts: The values it holds.
        there: The values that the batch's commits hold.
        query: What the table's query does with columns.
        dropped: Records of the file that a rule lets go: each may take a value of every column with it.
    """
    if counts.reason:
        return ValueBooks(uncounted={"*": counts.reason})
    books, dropped = ValueBooks(sum(counts.values.values())), dropped + there.corrupt[file.path]
    committed = {n: k for n, k in there.committed[file.path].items() if n in query.read}
    # A folder's value that was rescued is in no record.
    folders = f"/{file.path}".lower()
    rescued = {n for n in there.rescued[file.path] if n in counts.values or f"/{n}=".lower() not in folders}
    for name in sorted({*counts.values, *committed, *rescued}):
        if reason := _why_uncounted(name, counts, there, query):
            books.uncounted[name] = reason
            continue
        # A field may have the name of a column the engine adds: no column takes it. Rescued data keeps a
        # cell as it is, an empty text or one that means NULL too.
        taken = name in there.columns and name in query.read
        read = counts.of_column(name, there.columns[name]) if taken else counts.values[name]
        elsewhere = there.rescued[file.path][name] + there.quarantined[file.path][name]
        refused = there.refused[file.path][name] if name in query.read else 0
        left = read - committed.get(name, 0) - refused - elsewhere
        if left > dropped and not taken and not query.keeps_rescued:
            books.unkept[name] = left
        elif not 0 <= left <= dropped:
            books.unaccounted[name] = left
    return books


def _why_uncounted(name: str, counts: ValueCounts, there: CommittedValues, query: QueryColumns) -> str:
    if query.changes(name):
        return BY_QUERY
    if name in there.uncounted:
        return there.uncounted[name]
    if name in counts.uncounted:
        return NO_STATISTICS
    if name in counts.repeated or name in there.repeated:
        return REPEATED
    if name in query.read and query.rescued and not query.keeps_rescued:
        # The values that did not fit the column went with the rescued data column.
        return BY_QUERY
    return ""


def columns_of(fields: Sequence[Mapping[str, Any]]) -> CommittedValues:
    """Return empty counts for a table's columns, with those left out that cannot be counted.

    Args:
        fields: The table's schema, as the Delta log writes its fields.
    """
    there = CommittedValues()
    for column in fields:
        # A VARIANT is a struct in Parquet.
        if isinstance(column["type"], str) and column["type"] != "variant":
            there.columns[column["name"]] = column["type"] == "string"
        else:
            there.uncounted[column["name"]] = NESTED
    return there


FEW = 4096
"""Rows held as Python values at a time: their texts may be long."""


def _rows(parts: Sequence[Path], *columns: str) -> Iterator[tuple[Any, ...]]:
    """Return these columns of each row of data files, a batch of rows in memory at a time."""
    for part in parts:
        for batch in pq.ParquetFile(for_reader(part)).iter_batches(FEW, columns=columns):
            yield from zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def _texts(file: pq.ParquetFile, column: str, file_column: str) -> Iterator[tuple[str, str]]:
    """Return the landing file and text of each row that has a text in the column."""
    for batch in file.iter_batches(FEW, columns=[file_column, column]):
        kept = batch.filter(pc.is_valid(batch.column(column)))
        yield from zip(*(kept.column(name).to_pylist() for name in (file_column, column)), strict=True)


def _only_value(chunk: Any) -> str | None:
    """Return the one value that a column chunk has in all its rows, None where it may have several."""
    found = chunk.statistics
    if found is None or not found.has_min_max or found.null_count or found.min != found.max:
        return None
    return str(found.min)


def _text_of(record: str, column: str) -> str:
    value = json.loads(record).get(column)
    return value if isinstance(value, str) else ""
