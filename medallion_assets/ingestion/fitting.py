"""Which JSON lines need no second look: one object each, whose every field fits the schema.

Spark's JSON reader drops a line's second value and unknown fields in silence, and what is parsed line by
line to find them costs four times as much. A strict reader outside Spark takes a file that has neither as
it is, and gives it typed; of any other, it takes the lines that have neither.
"""

from dataclasses import dataclass
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

from medallion_assets.ingestion.counted_lines import BLANK
from medallion_assets.ingestion.strict_lines import rows_of, strictly_read

SIMPLE: dict[type[DataType], tuple[pa.DataType, Any]] = {
    StringType: (pa.string(), str),
    LongType: (pa.int64(), Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]),
    IntegerType: (pa.int32(), Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]),
    DoubleType: (pa.float64(), float),
    BooleanType: (pa.bool_(), bool),
}
"""Types all readers take from the same JSON and no other; dates and decimals are written in many ways."""


@dataclass(frozen=True)
class Lines:
    """A file's non-blank lines: those that fit the schema, typed, and the others as they stand."""

    fitting: pa.Table
    others: tuple[bytes, ...] = ()


class Fitting:
    """What takes lines of a schema, and no others."""

    def __init__(self, schema: StructType) -> None:
        """Takes the columns there are; ``able`` is False where a type of theirs is not among ``SIMPLE``."""
        self.columns = arrow_schema(schema)
        self.able = self.columns is not None
        self.schema = schema

    def lines(self, data: bytes, records: int) -> Lines | None:
        """Gives the lines of a file, None where its records are not one to a line, ``records`` in all."""
        whole = strictly_read(data, records, self.columns) if records else None
        return Lines(whole) if whole is not None else self._parted(data, records)

    def _parted(self, data: bytes, records: int) -> Lines | None:
        if data.count(b"\r") != data.count(b"\r\n"):
            # A lone carriage return ends a line too.
            return None
        lines = [line for line in data.split(b"\n") if line.strip(BLANK)]
        decoder = _decoder(self.schema)
        if decoder is None or len(lines) != records:
            return None
        good, others = _told_apart(lines, decoder)
        typed = self._typed(b"\n".join(good), len(good))
        return None if typed is None else Lines(typed, tuple(others))

    def _typed(self, data: bytes, records: int) -> pa.Table | None:
        if not records:
            return self.columns.empty_table()  # type: ignore[union-attr]
        return rows_of(data, records, self.columns)


def arrow_schema(schema: StructType) -> pa.Schema | None:
    """Gives the schema for the strict reader, None where a type of it is not among ``SIMPLE``."""
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


def _decoder(schema: StructType) -> msgspec.json.Decoder[Any] | None:
    try:
        return msgspec.json.Decoder(_shape(schema))
    except ValueError:
        # A name with a quote or a backslash in it.
        return None


def _shape(kind: DataType) -> Any:
    if isinstance(kind, StructType):
        names = {f"f{number}": field.name for number, field in enumerate(kind.fields)}
        shapes = zip(names, (_shape(field.dataType) | None for field in kind.fields), strict=True)
        return msgspec.defstruct(
            "Object",
            [(name, shape, None) for name, shape in shapes],
            rename=names,
            forbid_unknown_fields=True,
        )
    return list[_shape(kind.elementType) | None] if isinstance(kind, ArrayType) else SIMPLE[type(kind)][1]  # type: ignore[misc]


def _told_apart(lines: list[bytes], decoder: msgspec.json.Decoder[Any]) -> tuple[list[bytes], list[bytes]]:
    """Gives the lines that fit, and the others; a key that stands twice is left to the strict reader."""
    good: list[bytes] = []
    others: list[bytes] = []
    for line in lines:
        try:
            decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            others.append(line.rstrip(b"\r"))
        else:
            # White space before an object is sound, and rare.
            good.append(line)
    return good, others
