"""The rescued data column: what no column took, as JSON, with the file it came from.

Rules as in Auto Loader: a field the schema does not know, one whose value does not fit its column's
type, and one whose name differs in case only. A key that stands twice gives all its values. NULL where
nothing was left over. Nested fields are rescued alone; an array or map with a misfit is rescued whole.
"""

import json
from collections.abc import Iterator
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
)

from medallion_assets.delta.names import among, literal

FIELDS = "map<string,variant>"
FILE_PATH = '"_file_path":'


def rescued_from_json(fields: str, typed: Column, schema: StructType, file: Column) -> Column:
    """Return the rescued data of a JSON object.

    Args:
        fields: The column of the record's fields as ``FIELDS``; NULL gives NULL.
        typed: What ``from_json`` made of it, a struct of ``schema``.
        schema: The columns there are.
        file: The path of the record's file.
    """
    unknown = F.expr(f"filter(map_entries({fields}), e -> NOT {among('e.key', schema.names)})")
    # Quadratic in the keys, and so only for a record that does repeat one.
    known = f"filter(map_keys({fields}), k -> {among('k', schema.names)})"
    several = f"filter(map_entries({fields}), e -> size(filter({known}, k -> k = e.key)) > 1)"
    none = f"filter(map_entries({fields}), e -> false)"
    repeated = f"IF(size(array_distinct({known})) < size({known}), {several}, {none})"
    others = F.transform(F.concat(unknown, F.expr(repeated)), _entry)
    return written(F.concat(others, _misfits(F.col(fields), typed, schema)), file)


def something_left_over(schema: StructType, unfit: str) -> Column:
    """Say of a parsed line whether anything may be left to rescue, far cheaper than finding out what.

    Reads ``value``, the line, and ``_row``, what ``from_json`` made of it with ``unfit`` as its corrupt
    record column. Arrays and maps of structs are not looked into: with one of those it always may.
    """
    quotes = [f.name for f in schema.fields if "'" in f.name and isinstance(f.dataType, StructType)]
    if quotes or any(_hides_fields(field.dataType) for field in schema.fields):
        # A quote would end the path to a nested field.
        return F.lit(True)
    doubles = [f.name for f in schema.fields if isinstance(f.dataType, (DoubleType, FloatType))]
    huge = [F.abs(F.col("_row")[name]).eqNullSafe(float("inf")) for name in doubles]
    unparsed = F.col("_row").isNull() | F.col("_row")[unfit].isNotNull()
    return reduce(Column.__or__, [*huge, *map(F.expr, _unknown_keys("value", schema))], unparsed)


def _unknown_keys(text: str, schema: StructType) -> Iterator[str]:
    # Bound to a name, so that the keys are parsed out once for both questions.
    odd = f"exists(ks, k -> NOT ({among('k', schema.names)})) OR size(array_distinct(ks)) < size(ks)"
    yield f"exists(array(json_object_keys({text})), ks -> {odd}) <=> true"
    for field in schema.fields:
        if isinstance(field.dataType, StructType):
            path = literal(f"$['{field.name}']")
            yield from _unknown_keys(f"get_json_object({text}, {path})", field.dataType)


def _hides_fields(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_hides_fields(f.dataType) for f in kind.fields)
    if isinstance(kind, ArrayType):
        return not isinstance(kind.elementType, AtomicType)
    return isinstance(kind, MapType)


def rescued_from_cells(unknown: Column, misfits: list[Column], file: Column) -> Column:
    """Return the rescued data of a CSV record.

    Args:
        unknown: Cells no column takes, ARRAY<STRUCT<key STRING, value STRING>>.
        misfits: For each typed column ``"name":"text"``, NULL where the cell fits.
        file: The path of the record's file.
    """
    found = F.transform(unknown, lambda e: F.concat(as_json(e["key"]), F.lit(":"), as_json(e["value"])))
    return written(F.concat(found, F.array_compact(F.array(*misfits))) if misfits else found, file)


def written(parts: Column, file: Column) -> Column:
    """Return ``"name":value`` parts as one JSON object with ``_file_path`` at its end, NULL for no part."""
    whole = F.concat(F.lit("{"), F.concat_ws(",", parts), F.lit("," + FILE_PATH), as_json(file), F.lit("}"))
    return F.when(F.size(parts) > 0, whole)


def as_json(text: Column) -> Column:
    """Return a string as a JSON string."""
    return F.to_json(text.cast("variant"))


def _left_over(fields: Column, typed: Column, schema: StructType) -> Column:
    known = [F.lit(name) for name in schema.names]
    others = F.filter(F.map_entries(fields), lambda e: ~e["key"].isin(*known) if known else F.lit(True))
    return F.concat(F.transform(others, _entry), _misfits(fields, typed, schema))


def _misfits(fields: Column, typed: Column, schema: StructType) -> Column:
    found = [_named(f.name, _misfit(F.try_element_at(fields, F.lit(f.name)), typed[f.name], f.dataType))
             for f in schema.fields if not isinstance(f.dataType, StringType)]  # fmt: skip
    return F.array_compact(F.array(*found)) if found else F.array().cast("array<string>")


def _entry(entry: Column) -> Column:
    return F.concat(as_json(entry["key"]), F.lit(":"), F.coalesce(F.to_json(entry["value"]), F.lit("null")))


def _named(name: str, fragment: Column) -> Column:
    return F.concat(F.lit(json.dumps(name) + ":"), fragment)


def _misfit(raw: Column, typed: Column, kind: DataType) -> Column:
    """Return the JSON text of what did not fit, NULL where all did."""
    lost = typed.isNull()
    if isinstance(kind, (DoubleType, FloatType)):
        # JSON has no infinity: this one was a number too large for the column.
        lost = lost | F.abs(typed).eqNullSafe(float("inf"))
    whole = F.when(lost & raw.isNotNull() & ~F.is_variant_null(raw), F.to_json(raw))
    if isinstance(kind, StructType):
        parts = _left_over(F.try_variant_get(raw, "$", FIELDS), typed, kind)
        inner = F.when(F.size(parts) > 0, F.concat(F.lit("{"), F.concat_ws(",", parts), F.lit("}")))
        return F.coalesce(whole, inner)
    if isinstance(kind, ArrayType) and not isinstance(kind.elementType, StringType):
        values = F.try_variant_get(raw, "$", "array<variant>")
        return F.coalesce(whole, F.when(_any(values, typed, kind.elementType), F.to_json(raw)))
    if isinstance(kind, MapType) and not isinstance(kind.valueType, StringType):
        values = F.map_values(F.try_variant_get(raw, "$", FIELDS))
        return F.coalesce(whole, F.when(_any(values, F.map_values(typed), kind.valueType), F.to_json(raw)))
    return whole


def _any(values: Column, typed: Column, kind: DataType) -> Column:
    pairs = F.arrays_zip(values.alias("raw"), typed.alias("typed"))
    return F.exists(pairs, lambda p: _misfit(p["raw"], p["typed"], kind).isNotNull())
