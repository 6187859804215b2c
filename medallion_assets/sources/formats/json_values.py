"""What a JSON value is in a column of some type, exactly, or none.

A column takes a value only where nothing of it is lost (``exact_values``). Anything else is left over, and
whoever asked keeps its text.
"""

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import types

from medallion_assets.sources.formats.exact_values import (
    BITS,
    LARGEST,
    MICROS,
    WHITE,
    NotExact,
    TextOptions,
    arrow_type,
    exact_value,
)
from medallion_assets.sources.formats.json_scan import NotJson, Value, scan
from medallion_assets.sources.formats.xml import OneOrMany, WithText, in_xml
from medallion_assets.sources.options import Source

STRINGS = TextOptions(partial_days=True)
TIMES = (types.DateType, types.TimestampType, types.TimestampNTZType)
FORMATS: dict[str, Any] = {
    "dateFormat": types.DateType, "timestampFormat": types.TimestampType,
    "timestampNTZFormat": types.TimestampNTZType, "locale": TIMES,
}  # fmt: skip
"""Reader options whose patterns only Java knows."""


class JsonText(types.StringType):
    """The type of a column that takes a value's JSON text, for Spark to parse."""

    def __init__(self, of_any_number: bool = False) -> None:
        """With ``of_any_number``, one value alone is written as an array of one."""
        super().__init__()
        self.of_any_number = of_any_number


@dataclass
class Taken:
    """What columns took of an object.

    Attributes:
        values: The columns' values, NULL where there is none.
        left: Fields that no column took, as JSON text ``"name":value``.
        misfit: A column could not take its value.
        repeated: A known key came several times.
    """

    values: dict[str, Any] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    misfit: bool = False
    repeated: bool = False


def take_object(text: str, value: Value, schema: types.StructType) -> Taken:
    """Return what the schema's columns take of an object, and what they leave.

    A field whose name differs in case only is unknown. A known key that comes several times gives its last
    value to the column and leaves all of them.
    """
    taken = Taken(dict.fromkeys(schema.names))
    kinds = {column.name: column.dataType for column in schema.fields}
    known: dict[str, int] = {}
    for key, _, _ in value.content:
        known[key] = known.get(key, 0) + (key in kinds)
    for key, start, inner in value.content:
        if key in kinds and known[key] == 1:
            _take_field(text, (key, start, inner), kinds[key], taken)
            continue
        if key in kinds:
            taken.repeated = True
            taken.values[key] = _last(text, inner, kinds[key])
        taken.left.append(text[start : inner.end])
    return taken


def _last(text: str, value: Value, kind: types.DataType) -> Any:
    try:
        return typed_value(text, value, kind)[0]
    except NotExact:
        return None


def _take_field(text: str, member: tuple[str, int, Value], kind: types.DataType, taken: Taken) -> None:
    key, start, value = member
    if isinstance(kind, types.StructType) and value.kind == "object":
        inner = take_object(text, value, kind)
        taken.values[key] = inner.values
        taken.misfit = taken.misfit or inner.misfit
        taken.repeated = taken.repeated or inner.repeated
        if inner.left:
            name = text[start : _key_end(text, start, value)]
            taken.left.append(f"{name}:{{{','.join(inner.left)}}}")
        return
    try:
        taken.values[key], whole = typed_value(text, value, kind)
    except NotExact:
        taken.misfit, whole = True, False
    if not whole:
        taken.left.append(text[start : value.end])


def _key_end(text: str, start: int, value: Value) -> int:
    return text.rindex('"', start, text.rindex(":", start, value.start)) + 1


def typed_value(text: str, value: Value, kind: types.DataType) -> tuple[Any, bool]:
    """Return a value as Arrow takes it, and false where structs inside had fields that no column knows.

    Raises:
        NotExact: It is not one of the type's.
    """
    if isinstance(kind, OneOrMany) and value.kind != "array":
        item, whole = typed_value(text, value, kind.elementType)
        return [item], whole
    if value.kind == "null":
        return None, True
    if isinstance(kind, WithText) and value.kind != "object" and kind.own in kind.names:
        item, whole = typed_value(text, value, kind[kind.own].dataType)
        return {**dict.fromkeys(kind.names), kind.own: item}, whole
    if isinstance(kind, types.StructType):
        _expect(value, "object")
        inner = take_object(text, value, kind)
        if inner.misfit or inner.repeated:
            raise NotExact
        return inner.values, not inner.left
    if isinstance(kind, types.ArrayType):
        _expect(value, "array")
        items = [typed_value(text, item, kind.elementType) for item in value.content]
        return [item for item, _ in items], all(whole for _, whole in items)
    if isinstance(kind, types.MapType):
        return _map(text, value, kind)
    reader = READERS.get(type(kind))
    if reader is None:
        raise NotExact
    return reader(text, value, kind), True


def exact_json(text: str, kind: types.DataType) -> Any:
    """Return the value that a JSON text by itself is in a type, as Arrow takes it.

    Raises:
        NotExact: It is none, or has fields that the type has not.
    """
    try:
        value = scan(text)
    except NotJson as broken:
        raise NotExact(text) from broken
    found, whole = typed_value(text, value, kind)
    if not whole or text[value.end :].strip(WHITE):
        raise NotExact(text)
    return found


def reads(kind: types.DataType) -> bool:
    """Return true where ``typed_value`` knows a type, all the way down."""
    if isinstance(kind, types.StructType):
        return all(reads(inner.dataType) for inner in kind.fields)
    if isinstance(kind, types.ArrayType):
        return reads(kind.elementType)
    if isinstance(kind, types.MapType):
        return type(kind.keyType) is types.StringType and reads(kind.valueType)
    return type(kind) in READERS


def types_in(kind: types.DataType) -> Iterator[types.DataType]:
    """Return a type and all types inside of it."""
    yield kind
    inner = [f.dataType for f in kind.fields] if isinstance(kind, types.StructType) else []
    inner += [kind.elementType] if isinstance(kind, types.ArrayType) else []
    inner += [kind.keyType, kind.valueType] if isinstance(kind, types.MapType) else []
    yield from chain.from_iterable(map(types_in, inner))


def is_text(content: str) -> bool:
    """Return true where a string can be stored: UTF-8 has no lone surrogates, which JSON can escape."""
    try:
        content.encode()
    except UnicodeEncodeError:
        return False
    return True


def _expect(value: Value, *kinds: str) -> None:
    if value.kind not in kinds:
        raise NotExact


def _map(text: str, value: Value, kind: types.MapType) -> tuple[Any, bool]:
    _expect(value, "object")
    keys = [key for key, _, _ in value.content]
    if len(set(keys)) < len(keys) or not all(map(is_text, keys)):
        raise NotExact
    items = [typed_value(text, item, kind.valueType) for _, _, item in value.content]
    return list(zip(keys, (item for item, _ in items), strict=True)), all(whole for _, whole in items)


def _string(text: str, value: Value, _: types.DataType) -> str:
    if value.kind != "string":
        # Its text as it is in the file: written again, 1.10 would become 1.1.
        return text[value.start : value.end]
    content = str(value.content)
    if not is_text(content):
        raise NotExact
    return content


def _json_text(text: str, value: Value, kind: types.DataType) -> str:
    alone = isinstance(kind, JsonText) and kind.of_any_number and value.kind != "array"
    return f"[{text[value.start : value.end]}]" if alone else text[value.start : value.end]


def _boolean(_: str, value: Value, __: types.DataType) -> bool:
    _expect(value, "true", "false")
    return value.kind == "true"


def _number(text: str, value: Value, kind: types.DataType) -> Any:
    _expect(value, "number")
    return exact_value(text[value.start : value.end], kind)


def _decimal(text: str, value: Value, kind: types.DataType) -> Any:
    _expect(value, "number", "string")
    written = text[value.start : value.end] if value.kind == "number" else str(value.content)
    if written != written.strip(WHITE):
        raise NotExact(written)
    return exact_value(written, kind)


def _time(text: str, value: Value, kind: types.DataType) -> Any:
    if value.kind == "number" and isinstance(kind, types.TimestampType):
        # Spark takes whole seconds since 1970.
        seconds = exact_value(text[value.start : value.end], types.LongType())
        if not -LARGEST <= seconds * MICROS < LARGEST:
            raise NotExact
        return seconds * MICROS
    _expect(value, "string")
    return exact_value(str(value.content), kind, STRINGS)


def _binary(_: str, value: Value, __: types.DataType) -> bytes:
    _expect(value, "string")
    try:
        found = base64.b64decode(value.content, validate=True)
    except (binascii.Error, ValueError):
        raise NotExact from None
    if base64.b64encode(found).decode() != value.content:
        raise NotExact
    return found


READERS: dict[type[types.DataType], Callable[[str, Value, types.DataType], Any]] = {
    types.StringType: _string, JsonText: _json_text, types.BooleanType: _boolean,
    **dict.fromkeys(BITS, _number), types.FloatType: _number, types.DoubleType: _number,
    types.DecimalType: _decimal, **dict.fromkeys(TIMES, _time), types.BinaryType: _binary,
}  # fmt: skip
"""By type, what takes a value of it that is no NULL."""


def stored_type(kind: types.DataType) -> pa.DataType:
    """Return Arrow's type of a column that ``typed_value`` reads."""
    if isinstance(kind, types.StructType):
        return pa.struct([(field.name, stored_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, types.ArrayType):
        return pa.list_(stored_type(kind.elementType))
    if isinstance(kind, types.MapType):
        return pa.map_(pa.string(), stored_type(kind.valueType))
    return pa.string() if isinstance(kind, JsonText) else arrow_type(kind)


def as_read(schema: types.StructType, source: Source) -> types.StructType:
    """Return the schema with ``JsonText`` for columns that Spark parses from their text.

    These are columns of types and of time formats that only Spark knows.
    """
    if source.format not in ("json", "xml"):
        return schema
    given = {kind for name, kind in FORMATS.items() if name in source.reader_options}
    fields = [types.StructField(f.name, _as_read(f.dataType, source, tuple(given))) for f in schema.fields]
    return types.StructType(fields)


def _as_read(kind: types.DataType, source: Source, formatted: tuple[type, ...]) -> types.DataType:
    of_xml = source.format == "xml"
    # An option changes how columns of its own type are read.
    if not reads(kind) or any(isinstance(inner, formatted) for inner in types_in(kind)):
        return JsonText(of_xml and isinstance(kind, types.ArrayType))
    return in_xml(kind, source) if of_xml else kind
