"""A schema as each reader of JSON needs it: for Arrow's files, for Arrow's parser, for msgspec's decoder."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from medallion_assets.sources.formats.json_values import BITS, JsonText, reads, types_in
from medallion_assets.sources.options import Source

ZONE = r"(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)"
TIMES: dict[type[DataType], str] = {
    DateType: r"^\d{4}-\d{2}-\d{2}$",
    TimestampType: rf"^\d{{4}}-\d{{2}}-\d{{2}}(?:[ T]\d{{2}}:\d{{2}}(?::\d{{2}}(?:\.\d{{1,6}})?{ZONE}?)?)?$",
    TimestampNTZType: r"^\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?$",
}
"""Texts that Arrow casts to just what Spark reads of them; other forms are left to ``text_times``."""

FORMATS = {"dateFormat", "timestampFormat", "timestampNTZFormat", "locale"}
"""Reader options whose patterns only Java knows."""


@dataclass(frozen=True)
class Shape:
    """Types of one Spark type.

    Attributes:
        stored: Arrow's type of the values.
        parsed: The type Arrow's JSON parser is asked for, None where it cannot parse the type exactly.
        decoded: msgspec's type, which takes what the parser takes, and little else.
    """

    stored: pa.DataType
    parsed: pa.DataType | None
    decoded: Any


SIMPLE: dict[type[DataType], Shape] = {
    StringType: Shape(pa.string(), pa.string(), str),
    JsonText: Shape(pa.string(), None, None),
    ByteType: Shape(pa.int8(), pa.int8(), int),
    ShortType: Shape(pa.int16(), pa.int16(), int),
    IntegerType: Shape(pa.int32(), pa.int32(), int),
    LongType: Shape(pa.int64(), pa.int64(), int),
    FloatType: Shape(pa.float32(), pa.float64(), float),
    DoubleType: Shape(pa.float64(), pa.float64(), float),
    BooleanType: Shape(pa.bool_(), pa.bool_(), bool),
    DateType: Shape(pa.date32(), pa.string(), date),
    TimestampType: Shape(pa.timestamp("us", "UTC"), pa.string(), str),
    TimestampNTZType: Shape(pa.timestamp("us"), pa.string(), str),
    BinaryType: Shape(pa.binary(), None, None),
}


def shape_of(kind: DataType) -> Shape:
    """Return the types of a Spark type that ``typed_value`` reads."""
    if isinstance(kind, DecimalType):
        stored = pa.decimal128(kind.precision, kind.scale)
        return Shape(stored, stored, Decimal)
    if isinstance(kind, StructType):
        return _struct(kind)
    if isinstance(kind, ArrayType):
        inner = shape_of(kind.elementType)
        parsed = None if inner.parsed is None else pa.list_(inner.parsed)
        return Shape(
            pa.list_(inner.stored), parsed, None if inner.parsed is None else _list_of(inner.decoded)
        )
    if isinstance(kind, MapType):
        return Shape(pa.map_(pa.string(), shape_of(kind.valueType).stored), None, None)
    found = SIMPLE[type(kind)]
    if type(kind) in BITS:
        half = 1 << (BITS[type(kind)] - 1)
        return Shape(found.stored, found.parsed, Annotated[int, msgspec.Meta(ge=-half, le=half - 1)])
    if type(kind) in TIMES and not isinstance(kind, DateType):
        pattern = msgspec.Meta(pattern=TIMES[type(kind)])
        return Shape(found.stored, found.parsed, Annotated[str, pattern])
    return found


def _list_of(element: Any) -> Any:
    return list[element | None]


def _struct(kind: StructType) -> Shape:
    inner = {field.name: shape_of(field.dataType) for field in kind.fields}
    stored = pa.struct([(name, shape.stored) for name, shape in inner.items()])
    if not inner or any(shape.parsed is None for shape in inner.values()):
        return Shape(stored, None, None)
    parsed = pa.struct([(name, shape.parsed) for name, shape in inner.items()])
    return Shape(stored, parsed, decoded_object({name: shape.decoded for name, shape in inner.items()}))


def decoded_object(fields: dict[str, Any]) -> Any:
    """Return msgspec's type for an object of just these fields, any of which may be missing or NULL.

    Raises:
        ValueError: msgspec does not take a name with a quote or a backslash in it.
    """
    names = {f"f{number}": name for number, name in enumerate(fields)}
    return msgspec.defstruct(
        "Object",
        [(name, _or_null(kind), None) for name, kind in zip(names, fields.values(), strict=True)],
        rename=names,
        forbid_unknown_fields=True,
        omit_defaults=True,
    )


def _or_null(kind: Any) -> Any:
    return kind if kind is msgspec.Raw else kind | None


def as_read(schema: StructType, source: Source) -> StructType:
    """Return the schema with ``JsonText`` for columns that Spark parses from their text.

    These are columns of types and of time formats that only Spark knows.
    """
    formats = bool(FORMATS & set(source.reader_options))
    fields = [
        StructField(f.name, JsonText() if _by_spark(f.dataType, formats) else f.dataType)
        for f in schema.fields
    ]
    return StructType(fields)


def _by_spark(kind: DataType, formats: bool) -> bool:
    return not reads(kind) or (formats and any(type(inner) in TIMES for inner in types_in(kind)))
