"""Parquet copies of Parquet, ORC and Avro files that Spark cannot read, or would read with other values.

In a copy the columns are ``c0``, ``c1`` ..., since Spark refuses names that differ in case only; their names
are in its metadata. A value that a column cannot hold exactly is NULL, and is in ``MISFITS`` as JSON.
"""

import base64
import json
import uuid
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medallion_assets.delta.names import RESERVED, folded
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.avro import ROWS_AT_ONCE, avro_batches, avro_blocks
from medallion_assets.sources.formats.orc import orc_batches, orc_footer
from medallion_assets.sources.formats.trial_reads import try_reading

MISFITS = f"{RESERVED}misfits"
"""Column of a copy: by a column's name, the JSON text of the value that the column cannot hold."""

NAMES = b"medallion.names"
NOT_SPARKS = ("BYTE_STREAM_SPLIT", "BROTLI")
"""Encodings and compressions of Parquet that Spark's reader has not."""

MOST_DIGITS = 38
NEVER = pa.string()
"""What a type becomes that no column can hold: its values as JSON."""


def write_copy(schema: pa.Schema, batches: Iterator[pa.RecordBatch], copy: Path) -> None:
    """Write record batches of a schema as a Parquet file that Spark reads exactly."""
    kinds = [storable(field.type) for field in schema]
    names = json.dumps([[field.name, pa.types.is_null(field.type)] for field in schema])
    fields = [pa.field(f"c{place}", kind) for place, kind in enumerate(kinds)]
    stored = pa.schema([*fields, pa.field(MISFITS, pa.map_(pa.string(), pa.string()))], {NAMES: names})
    with pq.ParquetWriter(copy, stored) as writer:
        for batch in batches:
            writer.write_batch(_stored(batch, schema.names, stored))


def names_of(copy: Path) -> list[tuple[str, bool]]:
    """Return the name of each column of a copy, and whether its file gives it no type (Arrow's null)."""
    return list(map(tuple, json.loads(pq.read_schema(copy).metadata[NAMES])))


def parquet_batches(path: Path) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return a Parquet file's schema and rows.

    Raises:
        UnreadableFile: A column has nanoseconds beside times that 64 bits of nanoseconds cannot hold.
    """
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    old = [c.path for c in _physical(file.metadata) if c.physical_type == "INT96" and "." not in c.path]
    if not old:
        return file.schema_arrow, file.iter_batches(ROWS_AT_ONCE)
    fine = pq.ParquetFile(path).iter_batches(ROWS_AT_ONCE, columns=old)
    return file.schema_arrow, map(_with_nanoseconds, file.iter_batches(ROWS_AT_ONCE), fine)


def is_read_exactly(schema: pa.Schema) -> bool:
    """Return true where Spark reads columns of these names and Arrow types with the values they have."""
    lower = [folded(name) for name in schema.names]
    odd = not lower or "" in lower or "_metadata" in lower or len(set(lower)) < len(lower)
    return not odd and all(_is_sparks(field.type) for field in schema)


def storable(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type of a copy's column: one that Parquet, Spark and Delta hold exactly."""
    if isinstance(kind, pa.UuidType):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return storable(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return storable(kind.value_type)
    return NEVER if _is_unholdable(kind) else _nested(kind, storable) or _plain(kind)


def exactly(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """Return values in another type, with the places of those it cannot hold, which are NULL."""
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(kind) and values.type.unit == "ns":
        cut = values.cast(kind, safe=False)
        same = pc.equal(cut.cast(values.type), values)
        wrong = pc.indices_nonzero(pc.invert(pc.fill_null(same, True)))
        return pc.if_else(same, cut, None), wrong.to_pylist()
    try:
        return _cast(values, kind), []
    except (pa.ArrowInvalid, ValueError, OverflowError):
        if len(values) == 1:
            return pa.nulls(1, kind), [0]
    middle = len(values) // 2
    # A slice of lists keeps the elements of all; what is taken does not.
    left, wrong = exactly(values.take(pa.array(range(middle))), kind)
    right, others = exactly(values.take(pa.array(range(middle, len(values)))), kind)
    return pa.concat_arrays([left, right]), [*wrong, *(middle + place for place in others)]


def as_json(value: object) -> str:
    """Return a value as JSON: bytes as base64, and what JSON has no type for as its text."""

    def text(part: object) -> str:
        if isinstance(part, bytes):
            return base64.b64encode(part).decode()
        return part.isoformat() if isinstance(part, (datetime, date, time)) else str(part)

    return json.dumps(value, ensure_ascii=False, default=text)


def _stored(batch: pa.RecordBatch, names: list[str], stored: pa.Schema) -> pa.RecordBatch:
    misfits: list[list[tuple[str, str]]] = [[] for _ in range(batch.num_rows)]
    columns = []
    for name, values, field in zip(names, batch.columns, stored, strict=False):
        column, wrong = exactly(values, field.type)
        columns.append(column)
        for place in wrong:
            misfits[place].append((name, as_json(values[place].as_py())))
    columns.append(pa.array(misfits, stored.field(MISFITS).type))
    return pa.RecordBatch.from_arrays(columns, schema=stored)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(values.type, pa.UuidType):
        return pa.array([None if v is None else str(uuid.UUID(bytes=v)) for v in values.storage.to_pylist()])
    if isinstance(values.type, pa.BaseExtensionType):
        return _cast(values.storage, kind)
    if kind == NEVER and _is_unholdable(values.type):
        return pa.array([None if v is None else as_json(v) for v in values.to_pylist()], kind)
    if "list_view" in str(values.type):
        # pyarrow 26 casts these to lists without their last offset.
        return pa.array(values.to_pylist(), kind)
    return values if values.type == kind else values.cast(kind)


def _physical(meta: pq.FileMetaData) -> list[Any]:
    return [meta.schema.column(place) for place in range(len(meta.schema))]


def _with_nanoseconds(batch: pa.RecordBatch, fine: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with those of its columns in nanoseconds that have any."""
    for name, values in zip(fine.schema.names, fine.columns, strict=True):
        micros, place = batch.column(name), batch.schema.get_field_index(name)
        # Beyond the years 1677 to 2262 nanoseconds wrap, and so does this product.
        if not pc.multiply(micros.cast(pa.int64()), 1000).equals(values.cast(pa.int64())):
            if values.cast(micros.type, safe=False) != micros:
                raise UnreadableFile(f"column {name} has nanoseconds and times outside of 1677 to 2262")
            batch = batch.set_column(place, name, values)
    return batch


def _is_sparks(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_sparks(kind.value_type)
    if _is_unholdable(kind):
        return False
    if _parts(kind):
        return all(map(_is_sparks, _parts(kind)))
    if pa.types.is_timestamp(kind):
        return bool(kind.unit != "ns")
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= MOST_DIGITS)
    unread = (pa.types.is_null, pa.types.is_time, pa.types.is_float16)
    is_extension = isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.JsonType)
    return not is_extension and not any(is_kind(kind) for is_kind in unread)


def _is_unholdable(kind: pa.DataType) -> bool:
    """Return true for a type that no column can have, at any depth: unions, and structs no table takes."""
    if pa.types.is_union(kind) or pa.types.is_interval(kind):
        return True
    if pa.types.is_struct(kind):
        names = {folded(field.name) for field in kind}
        if not names or "" in names or len(names) < kind.num_fields:
            return True
    return any(map(_is_unholdable, _parts(kind)))


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(place).type for place in range(kind.num_fields)]


def _nested(kind: pa.DataType, change: Any) -> pa.DataType | None:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(change(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(change(kind.key_type), change(kind.item_type))
    return pa.list_(change(kind.value_type)) if kind.num_fields else None


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= MOST_DIGITS else pa.string()
    if pa.types.is_null(kind) or pa.types.is_time(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_duration(kind):
        return pa.int64()
    return pa.float32() if pa.types.is_float16(kind) else kind


def footer(path: Path, source_format: str) -> tuple[int, str, str]:
    """Return a Parquet, ORC or Avro file's rows, layout (as in ``Contents``) and schema as text.

    Files of equal layout and text share a reader. The layout is ``rows`` where Spark reads a copy.

    Raises:
        UnreadableFile: The file is empty, truncated, of another kind, or of a schema no table can have.
    """
    try_reading(path, source_format, "footer")
    try:
        rows, exact, schema = {"parquet": _parquet, "orc": _orc, "avro": avro_blocks}[source_format](path)
    except Exception as broken:
        # The readers raise whatever they trip over in a damaged file.
        raise _unreadable(broken, f"not a whole {source_format} file: ") from broken
    # The types alone: what writers note beside them differs from file to file.
    bare = pa.schema([pa.field(f.name, f.type, f.nullable) for f in schema])
    return rows, "native" if exact else "rows", str(bare)


def copy_exactly(path: Path, source_format: str, copy: Path) -> None:
    """Write a Parquet copy of a file that Spark reads with the values the file has.

    Raises:
        UnreadableFile: Its rows cannot be read.
    """
    batches = {"parquet": parquet_batches, "orc": orc_batches, "avro": avro_batches}[source_format]
    try:
        try_reading(path, source_format, "rows")
        write_copy(*batches(path), copy)
    except Exception as broken:
        if isinstance(broken, OSError) and broken.errno:
            raise
        # Its counts were whole; inside, a reader raises whatever it trips over.
        raise UnreadableFile(f"{path} cannot be read: {_unreadable(broken)}") from broken


def _unreadable(broken: Exception, start: str = "") -> UnreadableFile:
    if isinstance(broken, UnreadableFile):
        return broken
    reason = isinstance(broken, (pa.ArrowException, ValueError, EOFError, OSError)) and str(broken)
    return UnreadableFile(f"{start}{reason or f'its bytes are damaged ({type(broken).__name__}: {broken})'}")


def _parquet(path: Path) -> tuple[int, bool, pa.Schema]:
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    # Others than Spark write nanoseconds as INT96.
    by_spark = b"org.apache.spark.version" in (file.metadata.metadata or {})
    odd = {"INTERVAL", *NOT_SPARKS} if by_spark else {"INTERVAL", "INT96", *NOT_SPARKS}
    found = {kind for c in _physical(file.metadata) for kind in (c.physical_type, c.converted_type)}
    first = file.metadata.row_group(0) if file.metadata.num_row_groups else None
    for column in map(first.column, range(first.num_columns)) if first else ():
        found |= {*column.encodings, column.compression}
    return file.metadata.num_rows, is_read_exactly(file.schema_arrow) and not odd & found, file.schema_arrow


def _orc(path: Path) -> tuple[int, bool, pa.Schema]:
    rows, exact, schema = orc_footer(path)
    # Its times, which pyarrow reads as nanoseconds, have been looked at.
    timed = (pa.field(f.name, pa.int64()) if "timestamp" in str(f.type) else f for f in schema)
    return rows, exact and is_read_exactly(pa.schema(timed)), schema
