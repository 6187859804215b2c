"""ORC files as Arrow: those that Spark would read with other values, and how many values each column holds.

Pyarrow reads a file's rows, its times as nanoseconds, which end at the year 2262; pyorc reads those beyond
it, and the statistics in a file's footer. Both are over ORC's C++ library, whose writers (pandas, Polars and
pyarrow use it) differ from Spark's reader twice. They write the part of a second before 1970 as a negative
number, on which Spark's reader fails; and they count the days before 15 October 1582 by today's calendar,
which Spark's reader takes for the Julian one and moves by up to ten days.
"""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyorc
from pyorc.converters import ORCConverter

from medallion_assets.sources.errors import UnreadableFile

TIMES = (pyorc.TypeKind.TIMESTAMP, pyorc.TypeKind.TIMESTAMP_INSTANT)
DAY = 86_400
GREGORIAN = (date(1582, 10, 15) - date(1970, 1, 1)).days
"""The first day on which the two calendars agree, in days since 1970."""

OUT_OF_RANGE = "out of range"
"""Part of pyarrow's message for a time that 64 bits of nanoseconds cannot hold."""


class _Column(NamedTuple):
    """What a file's footer says of a column, or of a part of one.

    Attributes:
        number: Its place among all columns and their parts; the whole row has 0.
        kind: Its type.
        values: How many of its values are not NULL; None where the footer does not say.
        first_day: Day of its earliest date or time, since 1970; None for other types, and where not said.
        is_by_cpp: True where ORC's C++ library wrote the file.
    """

    number: int
    kind: pyorc.TypeKind
    values: int | None
    first_day: int | None
    is_by_cpp: bool

    def is_before(self, day: int) -> bool:
        """Return true for a column of dates or times that has one before a day, or may have one."""
        dated = self.kind == pyorc.TypeKind.DATE or self.kind in TIMES
        return dated and self.values != 0 and (self.first_day is None or self.first_day < day)

    def is_misread(self) -> bool:
        """Return true where Spark's reader fails on a value, or may take it for another one."""
        # Statistics cut towards zero: half a second before 1970 has the day 0.
        return self.is_by_cpp and self.is_before(1 if self.kind in TIMES else GREGORIAN)


def orc_footer(path: Path) -> tuple[int, bool, pa.Schema]:
    """Return an ORC file's rows, whether Spark reads its times and names exactly, and its schema.

    Raises:
        UnreadableFile: Spark does not read it exactly, and it has days of a calendar that is not known.
    """
    file, columns = pyarrow.orc.ORCFile(path), list(_columns(path))
    # Of some other names Spark's reader makes columns of NULL.
    exact = all(re.fullmatch(r"[\w.]+", name) for name in file.schema.names)
    exact = exact and not any(column.is_misread() for column in columns)
    exact = exact and not _has_nanoseconds(path, file)
    if not exact and any(column.is_before(GREGORIAN) for column in columns if not column.is_by_cpp):
        raise UnreadableFile(
            "it has days before 15 October 1582, which only Spark can tell of a file of this writer, beside "
            "nanoseconds or a column's name that Spark does not read; write it as Parquet"
        )
    return file.nrows, exact, file.schema


def orc_batches(path: Path) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return an ORC file's schema and rows; its TIMESTAMP is an instant, as Spark reads it.

    Times are nanoseconds, or microseconds in a batch whose years nanoseconds cannot hold.

    Raises:
        UnreadableFile: While the rows are read: a column has nanoseconds in such years.
    """
    file = pyarrow.orc.ORCFile(path)
    schema = pa.schema([field.with_type(_as_instant(field.type, "ns")) for field in file.schema])

    def stripes() -> Iterator[pa.RecordBatch]:
        for number in range(file.nstripes):
            try:
                columns = file.read_stripe(number).columns
            except pa.ArrowInvalid as error:
                if OUT_OF_RANGE not in str(error):
                    raise
                columns = [_column(path, file, number, place) for place in range(len(schema))]
            instants = [_as_instants(column) for column in columns]
            yield pa.RecordBatch.from_arrays(instants, names=schema.names)

    return schema, stripes()


def orc_values(path: Path) -> tuple[Counter[str], set[str]]:
    """Return how many values of each column are not NULL, and columns of which the footer does not say."""
    with path.open("rb") as file:
        schema: Any = pyorc.Reader(file).schema
        numbers = {name: part.column_id for name, part in schema.fields.items()}
    found = {column.number: column.values for column in _columns(path)}
    counted = {name: found[number] for name, number in numbers.items()}
    known = Counter({name: values for name, values in counted.items() if values is not None})
    return known, counted.keys() - known.keys()


def _columns(path: Path) -> Iterator[_Column]:
    with path.open("rb") as file:
        reader = pyorc.Reader(file, converters=EXACT)
        by_cpp = reader.writer_id == "ORC_CPP_WRITER"
        for number in count():
            try:
                said = reader[number].statistics
            except IndexError:
                return
            except UnicodeDecodeError:
                # The least or greatest text is no UTF-8: only texts have such.
                yield _Column(number, pyorc.TypeKind.STRING, None, None, by_cpp)
                continue
            first = said.get("minimum")
            if said["kind"] in TIMES and first is not None:
                first = first[0] // DAY
            day = first if said["kind"] in (pyorc.TypeKind.DATE, *TIMES) else None
            yield _Column(number, said["kind"], said.get("number_of_values"), day, by_cpp)


def _has_nanoseconds(path: Path, file: pyarrow.orc.ORCFile) -> bool:
    """Return true where times have what a microsecond does not hold, or stand within other types."""
    timed = [place for place, field in enumerate(file.schema) if "timestamp" in str(field.type)]
    if any(not pa.types.is_timestamp(file.schema.field(place).type) for place in timed):
        return True
    for stripe in range(file.nstripes):
        for place in timed:
            try:
                values = _as_instants(_column(path, file, stripe, place))
            except UnreadableFile:
                return True
            whole = values.cast(pa.timestamp("us", "UTC"), safe=False).cast(values.type)
            if not pc.all(pc.equal(whole, values), min_count=0).as_py():
                return True
    return False


def _column(path: Path, file: pyarrow.orc.ORCFile, stripe: int, place: int) -> pa.Array:
    """Return a column's values in one stripe, with microseconds where nanoseconds cannot hold its times."""
    field = file.schema.field(place)
    try:
        found = file.read_stripe(stripe, columns=[place])
        # By its name, which another column's part may have: the field b of a column a, and a column a.b.
        if found.schema.names == [field.name]:
            return found.column(0)
    except pa.ArrowInvalid as error:
        if OUT_OF_RANGE not in str(error):
            raise
    kind = _as_instant(field.type, "us")
    with path.open("rb") as opened:
        reader = pyorc.Reader(opened, column_indices=[place], converters=EXACT)
        try:
            return pa.array([_shaped(row[0], kind) for row in reader.read_stripe(stripe)], kind)
        except ValueError as finer:
            raise UnreadableFile(
                f"column {field.name} has nanoseconds beside times outside of 1677 to 2262"
            ) from finer


class _Days(ORCConverter):
    """Reads dates as days since 1970."""

    @staticmethod
    def from_orc(days: int) -> int:
        return days


class _Moments(ORCConverter):
    """Reads times as seconds since 1970 and nanoseconds."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: Any) -> tuple[int, int]:
        return seconds, nanoseconds


EXACT: Any = {pyorc.TypeKind.DATE: _Days, **dict.fromkeys(TIMES, _Moments)}
"""Python's own dates and times end at the year 9999 and know no nanoseconds."""


def _shaped(value: Any, kind: pa.DataType) -> Any:
    """Return a value as Arrow takes it: times in microseconds, structs by name, maps as pairs.

    Raises:
        ValueError: A time has nanoseconds.
    """
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        micros, finer = divmod(value[1], 1000)
        if finer:
            raise ValueError("a time has nanoseconds")
        return value[0] * 1_000_000 + micros
    if pa.types.is_struct(kind):
        return {field.name: _shaped(part, field.type) for field, part in zip(kind, value, strict=True)}
    if pa.types.is_map(kind):
        return [(_shaped(k, kind.key_type), _shaped(v, kind.item_type)) for k, v in value.items()]
    return [_shaped(part, kind.value_type) for part in value] if pa.types.is_list(kind) else value


def _as_instants(values: pa.Array) -> pa.Array:
    unit = "us" if "timestamp[us" in str(values.type) else "ns"
    return values.cast(_as_instant(values.type, unit))


def _as_instant(kind: pa.DataType, unit: str) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_instant(field.type, unit)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_as_instant(kind.key_type, unit), _as_instant(kind.item_type, unit))
    return pa.list_(_as_instant(kind.value_type, unit)) if pa.types.is_list(kind) else kind
