"""Types that all readers take from JSON alike, as each strict reader wants them told."""

from typing import Annotated, Any

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from medallion_assets.sources.formats.exact_texts import string_columns

SIMPLE: dict[type[DataType], tuple[pa.DataType, Any]] = {
    StringType: (pa.string(), str),
    LongType: (pa.int64(), Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]),
    IntegerType: (pa.int32(), Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]),
    DoubleType: (pa.float64(), float),
    BooleanType: (pa.bool_(), bool),
}
"""Types all readers take from the same JSON and no other; dates and decimals are written in many ways."""


def arrow_schema(schema: StructType) -> pa.Schema | None:
    """Return the schema for the strict reader, None where a type of it is not among ``SIMPLE``."""
    if not schema.fields:
        return None
    fields = [(field.name, _type(field.dataType)) for field in schema.fields]
    return None if any(kind is None for _, kind in fields) else pa.schema(fields)


def _type(kind: DataType) -> pa.DataType | None:
    if isinstance(kind, StructType):
        inner = arrow_schema(kind)
        return None if inner is None else pa.struct(list(inner))
    if isinstance(kind, ArrayType):
        element = _type(kind.elementType)
        return None if element is None else pa.list_(element)
    return SIMPLE[type(kind)][0] if type(kind) in SIMPLE else None


def line_decoder(schema: StructType, texts: bool) -> msgspec.json.Decoder[Any] | None:
    """Return what takes a line of this schema, None where a name cannot be told to it.

    Args:
        schema: The columns; their types are among ``SIMPLE``.
        texts: Columns of strings take any value, as it stands.
    """
    shapes = {field.name: _shape(field.dataType) | None for field in schema.fields}
    if texts:
        shapes |= dict.fromkeys(string_columns(schema), msgspec.Raw)
    try:
        return msgspec.json.Decoder(_object(shapes))
    except ValueError:
        # A name with a quote or a backslash in it.
        return None


def _object(shapes: dict[str, Any]) -> Any:
    names = {f"f{number}": name for number, name in enumerate(shapes)}
    return msgspec.defstruct(
        "Object",
        [(name, shape, None) for name, shape in zip(names, shapes.values(), strict=True)],
        rename=names,
        forbid_unknown_fields=True,
        omit_defaults=True,
    )


def _shape(kind: DataType) -> Any:
    if isinstance(kind, StructType):
        return _object({field.name: _shape(field.dataType) | None for field in kind.fields})
    return list[_shape(kind.elementType) | None] if isinstance(kind, ArrayType) else SIMPLE[type(kind)][1]  # type: ignore[misc]
