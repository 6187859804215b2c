"""Messages of a Kafka topic in a landing file: written once, then read as lines with their provenance.

The file is Parquet, a row for each message: what the broker gave, bytes as they are.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import types

from medallion_assets.sources.counted_lines import BLANK, Contents, tag_of
from medallion_assets.sources.formats.json_scan import MALFORMED, NotJson, scan
from medallion_assets.sources.kafka import landed_of
from medallion_assets.sources.quarantine import CutRecord

MESSAGES = "messages"
"""The layout of such a file in the ledger."""

NO_MESSAGE = "an empty value"
NO_HEADERS = "its headers cannot be read: a key of them is not UTF-8"
NO_TIME = "its time is not in the years 1 to 9999: {} ms since 1970"
FIRST_TIME, LAST_TIME = -62_135_596_800_000, 253_402_300_799_999
"""Times of Python and of SQL, in milliseconds since 1970."""

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
STORED = pa.schema([
    ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")), ("key", pa.binary()),
    ("headers", HEADERS), ("value", pa.binary()),
])  # fmt: skip
_HEADER = types.StructType().add("key", types.StringType()).add("value", types.BinaryType())
COLUMNS = (
    types.StructType()
    .add("_topic", types.StringType())
    .add("_partition", types.IntegerType())
    .add("_offset", types.LongType())
    .add("_timestamp", types.TimestampType())
    .add("_key", types.BinaryType())
    .add("_headers", types.ArrayType(_HEADER))
    .add("_tombstone", types.BooleanType())
)
"""Columns of a row that say which message it was."""

BLOCK = 16 << 20
"""Bytes of values in a row group, which are parsed at once."""

NO_LINE = b"?"
"""In the place of a value that is no record: a blank line would be none."""


def encoded(rows: Sequence[tuple[Any, ...]], size: int) -> bytes:
    """Return messages, in the columns of ``STORED``, as a Parquet file.

    Args:
        rows: The messages.
        size: About the bytes of their values.
    """
    sink = pa.BufferOutputStream()
    many = max(1, len(rows) * BLOCK // max(1, size))
    with pq.ParquetWriter(sink, STORED, compression="zstd", use_dictionary=False) as writer:
        for start in range(0, len(rows), many):
            columns = zip(*rows[start : start + many], strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, STORED, strict=True)]
            writer.write_table(pa.table(arrays, schema=STORED))
    return bytes(sink.getvalue().to_pybytes())


def message_contents(path: Path) -> Contents:
    """Return how many messages a file has, by its footer alone."""
    return Contents(tag_of(path), pq.ParquetFile(path).metadata.num_rows, MESSAGES)


class Messages(Sequence[CutRecord]):
    """Messages of a row group, each a record; text columns and their provenance by their number."""

    def __init__(self, table: pa.Table, path: str) -> None:
        """Take the rows, and the file's name for topic and partition."""
        self.table, self.landed = table, landed_of(path)
        self.values: list[bytes | None] = table["value"].to_pylist()

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self.values)

    def __getitem__(self, number: Any) -> CutRecord:  # type: ignore[override]
        """Return a message's value as it is, and why it is no record where its line does not say so."""
        value = self.values[number] or b""
        text = value.decode("utf-8", "surrogateescape")
        return CutRecord(text, text, self.refused.get(number) or _line_of(self.values[number])[1])

    @cached_property
    def refused(self) -> dict[int, str]:
        """Why messages have provenance that no row can hold, by their number."""
        times = self.table["timestamp"].cast(pa.int64())
        is_odd = pc.or_kleene(pc.less(times, FIRST_TIME), pc.greater(times, LAST_TIME))
        odd = pc.indices_nonzero(is_odd).to_pylist()
        without = pc.indices_nonzero(pc.is_null(self.table["headers"])).to_pylist()
        return {number: NO_TIME.format(times[number]) for number in odd} | dict.fromkeys(without, NO_HEADERS)

    @property
    def lines(self) -> bytes:
        """The values as JSON, one to a line; a message without a value is an object without a field."""
        return b"\n".join(_line_of(value)[0] for value in self.values)

    @cached_property
    def block(self) -> bytes:
        """The lines to parse: those of refused messages are no records."""
        refused, values = self.refused, enumerate(self.values)
        return b"\n".join(NO_LINE if number in refused else _line_of(value)[0] for number, value in values)

    def places(self, numbers: Sequence[int]) -> list[str]:
        """Return where messages are in their partition."""
        offsets = self.table["offset"]
        return [f"offset {offsets[number].as_py()}" for number in numbers]

    def beside(self, rows: pa.Table, numbers: Sequence[int]) -> pa.Table:
        """Return rows with the provenance of the messages of these numbers."""
        taken = self.table.take(pa.array(numbers, pa.int64()))
        topic, _, place = (self.landed[0], self.landed[1], self.landed[2]) if self.landed else ("", "", None)
        size = len(taken)
        columns = [
            pa.array([topic] * size, pa.string()),
            pa.array([place.partition if place else None] * size, pa.int32()),
            taken["offset"],
            _times(taken["timestamp"]).cast(pa.timestamp("us", "UTC")),
            taken["key"],
            taken["headers"],
            pc.is_null(taken["value"]),
        ]
        for name, column in zip(COLUMNS.names, columns, strict=True):
            rows = rows.append_column(name, column)
        return rows


def _times(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times that a row can hold, NULL for the others."""
    number = times.cast(pa.int64())
    fits = pc.and_kleene(pc.greater_equal(number, FIRST_TIME), pc.less_equal(number, LAST_TIME))
    return pc.if_else(fits, times, pa.scalar(None, times.type))


def _line_of(value: bytes | None) -> tuple[bytes, str]:
    """Return a value as one line, and why it is no record where the line cannot say so."""
    if value is None:
        return b"{}", ""
    if not value.strip(BLANK):
        return NO_LINE, NO_MESSAGE
    if b"\n" not in value and b"\r" not in value:
        return value, ""
    try:
        # Between values a line end is a blank; within a string it is not JSON.
        scan(value.decode("utf-8", "surrogateescape"))
    except NotJson:
        return NO_LINE, MALFORMED
    return value.replace(b"\r", b" ").replace(b"\n", b" "), ""


def message_blocks(path: Path, name: str) -> Iterator[Messages]:
    """Return the messages of a file, a row group at a time."""
    file = pq.ParquetFile(path)
    for number in range(file.num_row_groups):
        yield Messages(file.read_row_group(number), name)


def provenance(file: Any, offsets: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return offset, timestamp, key, headers and whether it is a tombstone, of messages of a file."""
    table = pq.read_table(file, filters=pc.field("offset").isin(list(offsets)))
    place = table.schema.get_field_index("timestamp")
    table = table.set_column(place, "timestamp", _times(table["timestamp"]))
    columns = [table[name].to_pylist() for name in ("offset", "timestamp", "key", "headers", "value")]
    return [(*row[:4], row[4] is None) for row in zip(*columns, strict=True)]
