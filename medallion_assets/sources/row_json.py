"""Rows as JSON text, and back: exactly, whatever keys their maps have.

JSON's keys are strings. Spark writes other keys in forms of its own (a date as its number of days, bytes as
``[B@78539e08``), and reads no map whose keys are no STRING.
"""

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from medallion_assets.sources.quarantine import AS_JSON, FROM_JSON

WRAP = "v"
Change = Callable[[Column, DataType], Column]
"""What becomes of a value of a type."""


def json_of(value: Column, kind: DataType) -> Column:
    """Return a struct, array or map as JSON text that ``read_json_of`` reads.

    The key of a map is written as the same value elsewhere is: a date as ``2026-01-31``, bytes as base64, a
    struct or an array as its JSON.
    """
    return F.to_json(_with_text_keys(value, kind), AS_JSON)


def row_json(
    values: Mapping[str, Column], schema: StructType, options: Mapping[str, str] = AS_JSON
) -> Column:
    """Return columns as the JSON text of one row, in their order; the schema has their types."""
    kinds = {f.name.lower(): f.dataType for f in schema.fields} | {f.name: f.dataType for f in schema.fields}
    typed = {name: kinds[name if name in kinds else name.lower()] for name in values}
    members = (_with_text_keys(value, typed[name]).alias(name) for name, value in values.items())
    return F.to_json(F.struct(*members), dict(options))


def read_row(
    text: Column, schema: StructType, misfit: str = "", options: Mapping[str, str] = FROM_JSON
) -> Column:
    """Return the row that a JSON text is, as a struct of the schema.

    A map with a key that is not of the map's key type, or that occurs twice, is NULL.

    Args:
        text: The JSON.
        schema: Of the row.
        misfit: A STRING field more, which has the text where it does not fit the schema; empty for none.
        options: Spark's, of how values are written; keys are as ``row_json`` writes them.
    """
    wanted, given = _text_keyed(schema), dict(options)
    if misfit:
        wanted, given = wanted.add(misfit, StringType()), {**given, "columnNameOfCorruptRecord": misfit}
    read = F.from_json(text, wanted, given)
    if not _has_other_keys(schema):
        return read

    def typed(both: Column) -> Column:
        row, fields = both["read"], []
        for field in schema.fields:
            fields.append(_read_keys(row[field.name], field.dataType).alias(field.name))
        if misfit:
            unread = F.when(_has_unread(row, schema), both["text"])
            fields.append(unread.otherwise(row[misfit]).alias(misfit))
        return F.when(row.isNotNull(), F.struct(*fields))

    # In a lambda, or Spark would parse the text again for each field. The text goes in with it: a column's
    # name inside a lambda may mean another column of the same select list.
    return F.transform(F.array(F.struct(read.alias("read"), text.alias("text"))), typed)[0]


def _has_other_keys(kind: DataType) -> bool:
    """Return true where a type is or has a map whose keys are no STRING."""
    if isinstance(kind, StructType):
        return any(_has_other_keys(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_other_keys(kind.elementType)
    if isinstance(kind, MapType):
        return not isinstance(kind.keyType, StringType) or _has_other_keys(kind.valueType)
    return False


def _text_keyed(kind: StructType) -> StructType:
    """Return the schema with STRING for the keys of all maps."""
    return StructType([StructField(f.name, _text_keyed_type(f.dataType)) for f in kind.fields])


def _text_keyed_type(kind: DataType) -> DataType:
    if not _has_other_keys(kind):
        return kind
    if isinstance(kind, StructType):
        return _text_keyed(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_text_keyed_type(kind.elementType))
    assert isinstance(kind, MapType)
    return MapType(StringType(), _text_keyed_type(kind.valueType))


def with_parts(value: Column, kind: DataType, part: Change, key: Change) -> Column:
    """Return a struct, an array or a map of other parts, NULL where it is NULL.

    Args:
        value: The struct, array or map.
        kind: Its type.
        part: Given a field, an element or a map's value with its type, returns what is there instead.
        key: The same for the keys of a map.
    """
    if isinstance(kind, StructType):
        members = (part(value[f.name], f.dataType).alias(f.name) for f in kind.fields)
        return F.when(value.isNotNull(), F.struct(*members))
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda each: part(each, kind.elementType))
    assert isinstance(kind, MapType)
    of_values = F.transform_values(value, lambda _, each: part(each, kind.valueType))
    return F.transform_keys(of_values, lambda name, _: key(name, kind.keyType))


def _with_text_keys(value: Column, kind: DataType) -> Column:
    return with_parts(value, kind, _with_text_keys, _key_text) if _has_other_keys(kind) else value


def _read_keys(value: Column, kind: DataType) -> Column:
    """Return a value of ``_text_keyed_type`` in its own type."""
    if not _has_other_keys(kind):
        return value
    read = with_parts(value, kind, _read_keys, _key)
    return F.when(~_has_unread_key(value, kind), read) if isinstance(kind, MapType) else read


def _has_unread(value: Column, kind: DataType) -> Column:
    """Return true where a value of ``_text_keyed_type`` has a map that ``_read_keys`` makes NULL."""
    found = F.lit(False)
    if not _has_other_keys(kind):
        return found
    if isinstance(kind, StructType):
        for field in kind.fields:
            found = found | _has_unread(value[field.name], field.dataType)
    elif isinstance(kind, ArrayType):
        found = F.exists(value, lambda each: _has_unread(each, kind.elementType))
    elif isinstance(kind, MapType):
        below = F.exists(F.map_values(value), lambda each: _has_unread(each, kind.valueType))
        found = _has_unread_key(value, kind) | below
    return F.coalesce(found, F.lit(False))


def _has_unread_key(value: Column, kind: MapType) -> Column:
    keys = F.transform(F.map_keys(value), lambda key: _key(key, kind.keyType))
    return F.exists(keys, F.isnull) | (F.size(F.array_distinct(keys)) < F.size(keys))


def _key_text(key: Column, kind: DataType) -> Column:
    if isinstance(kind, StringType):
        return key
    if isinstance(kind, (NumericType, BooleanType)):
        return key.cast("string")
    if isinstance(kind, (StructType, ArrayType)):
        return json_of(key, kind)
    # Times and bytes are strings in JSON, of which this is the content.
    return F.from_json(F.to_json(F.struct(key.alias(WRAP)), AS_JSON), f"{WRAP} STRING")[WRAP]


def _key(text: Column, kind: DataType) -> Column:
    """Return the key that ``_key_text`` wrote; NULL where it is none."""
    if isinstance(kind, StringType):
        return text
    if isinstance(kind, (NumericType, BooleanType)):
        # A number that is written otherwise, such as 01, would be another text afterwards.
        return F.when(text.try_cast(kind).cast("string") == text, text.try_cast(kind))
    if isinstance(kind, (StructType, ArrayType)):
        return F.from_json(text, kind, FROM_JSON)
    wrapped = F.to_json(F.struct(text.alias(WRAP)))
    return F.from_json(wrapped, StructType([StructField(WRAP, kind)]), FROM_JSON)[WRAP]
