"""Schema evolution: which columns of new files are added, which widen a column, which are rescued.

Widening follows Auto Loader's table; its casts lose no value.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StructField,
    StructType,
    TimestampNTZType,
)

from medallion_assets.delta.names import folded

OURS = re.compile(
    r"_(source_file|source_modified_at|ingested_at|batch_id|raw|reason|metadata|rescued_data|corrupt_record"
    r"|change_type|commit_version|commit_timestamp|position|partial_.*|check_.*|_medallion_.*)",
    re.IGNORECASE,
)
"""Names reserved by the engine or by Delta: a field with such a name is rescued, never a column."""

LONGEST_NAME = 255
WHOLE: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 20}
"""Decimal digits of each integer type, as in Auto Loader."""

LADDER: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)


@dataclass(frozen=True)
class SchemaDiff:
    """The changes of a schema for a batch.

    Attributes:
        schema: The columns after it.
        added, widened: Columns by their dotted names, with their types as DDL.
        retyped: Columns that came with a type the schema does not take; their values are rescued.
        left_out: Fields that cannot be columns: reserved or invalid names, names that differ in case only, or
            too many columns.
        missing: Columns of the schema that no record of the batch had.
        brought_by: For each added column, a file that brought it.
    """

    schema: StructType
    added: dict[str, str] = field(default_factory=dict)
    widened: dict[str, str] = field(default_factory=dict)
    retyped: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    brought_by: dict[str, str] = field(default_factory=dict)

    def drift(self) -> dict[str, Any]:
        """Return what changed, without the schema; empty where nothing did."""
        found = {"added": self.added, "widened": self.widened, "retyped": self.retyped,
                 "left_out": list(self.left_out), "missing": list(self.missing),
                 "brought_by": self.brought_by}  # fmt: skip
        return {word: what for word, what in found.items() if what}


def grown(base: StructType, seen: StructType, widening: bool = False, max_columns: int = 1000) -> SchemaDiff:
    """Return the schema with what ``seen`` brings, new columns at its end."""
    growth = SchemaDiff(StructType())
    left_out: list[str] = []
    fields = list(_merged(base, seen, "", widening, growth))
    known = {folded(f.name) for f in base.fields}
    for new in seen.fields:
        if new.name in base.names:
            continue
        if not is_column(new.name) or folded(new.name) in known or len(fields) >= max_columns:
            left_out.append(new.name)
            continue
        known.add(folded(new.name))
        fields.append(new)
        growth.added[new.name] = new.dataType.simpleString()
    missing = tuple(name for name in base.names if name not in seen.names)
    return SchemaDiff(
        StructType(fields), growth.added, growth.widened, growth.retyped, tuple(left_out), missing
    )


def is_column(name: str) -> bool:
    """Return true where a field of this name can be a column.

    None has a backtick: Delta 4.4 cannot write its changes (``packedData.`a`b```), so that the first
    DELETE, UPDATE or MERGE of the table would fail, and every one after it.
    """
    printable = bool(name) and len(name) <= LONGEST_NAME and name.isprintable() and name.strip() == name
    return printable and "`" not in name and not OURS.fullmatch(name)


def widens(narrow: DataType, wide: DataType) -> bool:
    """Return true where every value of ``narrow`` is one of ``wide``: Auto Loader's type widening."""
    if type(narrow) in LADDER and type(wide) in LADDER:
        return LADDER.index(type(narrow)) < LADDER.index(type(wide))
    if isinstance(wide, DoubleType):
        return isinstance(narrow, (ByteType, ShortType, IntegerType, FloatType))
    if isinstance(wide, DecimalType):
        digits = _digits(narrow)
        return digits is not None and wide.precision - wide.scale >= digits[0] and wide.scale >= digits[1]
    return isinstance(narrow, DateType) and isinstance(wide, TimestampNTZType)


def _digits(narrow: DataType) -> tuple[int, int] | None:
    if isinstance(narrow, DecimalType):
        return narrow.precision - narrow.scale, narrow.scale
    return (WHOLE[type(narrow)], 0) if type(narrow) in WHOLE else None


def _merged(
    base: StructType, seen: StructType, at: str, widening: bool, growth: SchemaDiff
) -> Iterator[StructField]:
    by_name = {f.name: f for f in seen.fields}
    for old in base.fields:
        new = by_name.get(old.name)
        kind = (
            old.dataType
            if new is None
            else _type(old.dataType, new.dataType, at + old.name, widening, growth)
        )
        yield StructField(old.name, kind, old.nullable)


def _type(old: DataType, new: DataType, at: str, widening: bool, growth: SchemaDiff) -> DataType:
    if old == new or isinstance(new, NullType):
        return old
    if isinstance(old, NullType):
        return new
    if isinstance(old, StructType) and isinstance(new, StructType):
        return _struct(old, new, at + ".", widening, growth)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return ArrayType(_type(old.elementType, new.elementType, at + ".element", widening, growth))
    if widens(old, new) and widening:
        growth.widened[at] = new.simpleString()
        return new
    if not widens(new, old) and old.simpleString() != "string":
        growth.retyped[at] = new.simpleString()
    return old


def _struct(old: StructType, new: StructType, at: str, widening: bool, growth: SchemaDiff) -> StructType:
    fields = list(_merged(old, new, at, widening, growth))
    known = {folded(f.name) for f in fields}
    for extra in new.fields:
        if extra.name not in old.names and folded(extra.name) not in known and is_column(extra.name):
            fields.append(extra)
            known.add(folded(extra.name))
            growth.added[at + extra.name] = extra.dataType.simpleString()
    return StructType(fields)
