"""Avro files as Arrow: Spark reads Avro through a jar of its own, which not every Spark release has.

The jar for Spark 4.2 is not on Maven Central; fastavro and pyarrow are on every machine this runs on. Values
are read without their logical types, which Arrow then gives them: Python's dates end at the year 9999 and
know no nanoseconds. Types follow Spark's own Avro reader; a union of several types is a struct of
``member0``, ``member1`` ..., of which one is not NULL.
"""

import io
import zlib
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import expand_schema

from medallion_assets.sources.errors import UnreadableFile

ROWS_AT_ONCE = 50_000
PRIMITIVE = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(),
}  # fmt: skip
LOGICAL = {
    ("int", "date"): pa.date32(), ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"), ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}  # fmt: skip
"""By underlying and logical type; of others a value is what the underlying type says, as Avro asks for."""

PYTHON = {bool: ("boolean",), int: ("int", "long"), float: ("float", "double"), bytes: ("bytes",),
          str: ("string",), list: ("array",), dict: ("map",)}  # fmt: skip
"""The branch of a union that a value came through; of a named type the reader says its name."""

MOST_DIGITS = 76
"""Digits of Arrow's longest decimal."""

EXACT = Context(prec=10_000)


def _zstandard(file: Any) -> io.BytesIO:
    """Return a block that is compressed with Zstandard."""
    return io.BytesIO(pa.input_stream(pa.py_buffer(_bytes(file)), compression="zstd").read())


def _snappy(file: Any) -> io.BytesIO:
    """Return a block that is compressed with Snappy, and followed by its checksum.

    Raises:
        ValueError: It has another checksum.
    """
    data = _bytes(file)
    block = pa.Codec("snappy").decompress(data[:-4], _number(io.BytesIO(data)), asbytes=True)
    if zlib.crc32(block) != int.from_bytes(data[-4:], "big"):
        raise ValueError("a block has another checksum than its bytes")
    return io.BytesIO(block)


def _bytes(file: Any) -> bytes:
    zigzag = _number(file)
    return file.read((zigzag >> 1) ^ -(zigzag & 1))  # type: ignore[no-any-return]


def _number(file: Any) -> int:
    """Return a number of seven bits a byte, the lowest first."""
    found, shift, more = 0, 0, True
    while more:
        byte = int(file.read(1)[0])
        found, shift, more = found | (byte & 127) << shift, shift + 7, byte > 127
    return found


# fastavro asks for a library of its own for each of the two; without them it refuses such files.
fastavro.read.BLOCK_READERS |= {"snappy": _snappy, "zstandard": _zstandard}


def avro_blocks(path: Path) -> tuple[int, bool, pa.Schema]:
    """Return an Avro file's number of records, that Spark reads none as it is, and its schema.

    Raises:
        UnreadableFile: Its schema is one that no table can have.
    """
    with path.open("rb") as file:
        blocks = fastavro.block_reader(file)
        schema = arrow_schema(blocks.writer_schema)
        return sum(block.num_records for block in blocks), False, schema


def avro_batches(path: Path) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return an Avro file's schema and rows."""
    with path.open("rb") as file:
        written = fastavro.reader(file).writer_schema
    record: Any = expand_schema(written)
    schema = arrow_schema(written)
    # A decimal may have more digits than its type says.
    kinds = [_type(field["type"], MOST_DIGITS) for field in record["fields"]]
    convert = [_converter(field["type"]) for field in record["fields"]]
    names = [field["name"] for field in record["fields"]]

    def batches() -> Iterator[pa.RecordBatch]:
        records = _records(path, written)
        while chunk := list(islice(records, ROWS_AT_ONCE)):
            columns = [
                [change(row[name]) for row in chunk] for name, change in zip(names, convert, strict=True)
            ]
            arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names)

    return schema, batches()


def arrow_schema(written: Any) -> pa.Schema:
    """Return the columns of an Avro schema.

    Raises:
        UnreadableFile: It is no record or has no fields, or a type is recursive or unknown.
    """
    record = expand_schema(written)
    if not isinstance(record, dict) or record["type"] != "record":
        raise UnreadableFile(f"its Avro schema is no record, but {written}: no table has such rows")
    if not record["fields"]:
        raise UnreadableFile("its Avro records have no fields: no table has such rows")
    return pa.schema([pa.field(field["name"], _type(field["type"])) for field in record["fields"]])


def _records(path: Path, written: Any) -> Iterator[Any]:
    plain = fastavro.parse_schema(_without_logical_types(written))
    with path.open("rb") as file:
        blocks: Iterator[Any] = fastavro.block_reader(file)
        for block in blocks:
            for _ in range(block.num_records):
                yield fastavro.schemaless_reader(block.bytes_, plain, None, return_named_type=True)


def _without_logical_types(avro: Any) -> Any:
    if isinstance(avro, list):
        return [_without_logical_types(branch) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    inner = {key: _without_logical_types(avro[key]) for key in ("type", "items", "values") if key in avro}
    if "fields" in avro:
        kept = ("name", "type")
        inner["fields"] = [
            {k: _without_logical_types(f[k]) if k == "type" else f[k] for k in kept} for f in avro["fields"]
        ]
    others = {k: v for k, v in avro.items() if k not in (*inner, "logicalType", "precision", "scale")}
    return {**others, **inner}


def _type(avro: Any, digits: int = 0) -> pa.DataType:
    """Return the Arrow type of an Avro type in which each named type is written out.

    Args:
        avro: The type.
        digits: What decimals have at least.
    """
    if isinstance(avro, list):
        real = _real(avro)
        whole = [branch for branch in real if _word(branch) in ("int", "long")]
        if len(whole) > 1 and any(isinstance(branch, dict) for branch in whole):
            raise UnreadableFile(
                "it has a union of int and long of which one is a date or time, and a value does not say "
                "which of them it is; write them as fields of their own"
            )
        members = [pa.field(f"member{place}", _type(branch, digits)) for place, branch in enumerate(real)]
        return pa.struct(members) if len(real) > 1 else members[0].type if real else pa.null()
    if isinstance(avro, str):
        if avro not in PRIMITIVE:
            raise UnreadableFile(f"its Avro type {avro} holds itself: no column of a table can")
        return PRIMITIVE[avro]
    kind = avro["type"]
    if not isinstance(kind, str):
        return _type(kind, digits)
    if _is_decimal(avro):
        return pa.decimal256(max(avro["precision"], digits), avro.get("scale", 0))
    if kind == "record":
        return pa.struct([pa.field(field["name"], _type(field["type"], digits)) for field in avro["fields"]])
    if kind == "array":
        return pa.list_(_type(avro["items"], digits))
    if kind == "map":
        return pa.map_(pa.string(), _type(avro["values"], digits))
    if kind == "fixed":
        return pa.binary(avro["size"])
    return LOGICAL.get((kind, avro.get("logicalType")), _type(kind))


def _real(branches: list[Any]) -> list[Any]:
    """Return the branches of a union that are types of their own, as Spark's Avro reader joins them."""
    real = [branch for branch in branches if branch != "null"]
    for pair, wide in (({"int", "long"}, "long"), ({"float", "double"}, "double")):
        if len(real) == len(pair) and all(isinstance(b, str) for b in real) and set(real) == pair:
            return [wide]
    return real


def _is_decimal(avro: dict[str, Any]) -> bool:
    precision, scale = avro.get("precision", 0), avro.get("scale", 0)
    named = avro.get("logicalType") == "decimal" and avro["type"] in ("bytes", "fixed")
    # Avro: an invalid logical type is ignored. Of more digits the bytes are kept, for want of a type.
    whole = named and isinstance(precision, int) and isinstance(scale, int)
    return whole and 0 <= scale <= precision and 0 < precision <= MOST_DIGITS


def _converter(avro: Any) -> Callable[[Any], Any]:
    """Return what makes of a value as read one that Arrow takes for the type."""
    if isinstance(avro, list):
        return _of_union(avro)
    if not isinstance(avro, dict):
        return _same
    kind = avro["type"]
    if not isinstance(kind, str):
        return _converter(kind)
    if _is_decimal(avro):
        return lambda raw: Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(
            -avro.get("scale", 0), EXACT
        )
    if kind == "record":
        inner = {field["name"]: _converter(field["type"]) for field in avro["fields"]}
        return lambda row: {name: change(row[name]) for name, change in inner.items()}
    if kind == "array":
        item = _converter(avro["items"])
        return lambda items: [item(each) for each in items]
    if kind == "map":
        value = _converter(avro["values"])
        return lambda pairs: [(key, value(each)) for key, each in pairs.items()]
    return _same


def _of_union(branches: list[Any]) -> Callable[[Any], Any]:
    real = _real(branches)
    changes = [_converter(branch) for branch in real]
    if len(real) == 1:
        change = changes[0]
        return lambda value: None if value is None else change(_unnamed(value))
    words = [_word(branch) for branch in real]

    def chosen(value: Any) -> Any:
        if value is None:
            return None
        known = (value[0],) if isinstance(value, tuple) else PYTHON[type(value)]
        place = max(place for place, word in enumerate(words) if word in known)
        return {f"member{place}": changes[place](_unnamed(value))}

    return chosen


def _word(branch: Any) -> str:
    """Return what the reader calls a branch: a named type's full name, else the type."""
    if not isinstance(branch, dict):
        return str(branch)
    return str(branch["name"] if "name" in branch else branch["type"])


def _unnamed(value: Any) -> Any:
    return value[1] if isinstance(value, tuple) else value


def _same(value: Any) -> Any:
    return value
