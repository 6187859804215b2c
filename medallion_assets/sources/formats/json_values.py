"""What a JSON value is in a column of some type: exactly that value, or none.

A column takes a value only where nothing of it is lost: a decimal is not rounded, a whole number has no
fraction, a double written with as many digits as its text has is that text. Anything else is left over, and
whoever asked keeps its text.
"""

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import Any

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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from medallion_assets.sources.formats.exact_texts import (
    LARGEST,
    MICROS,
    Misfit,
    date_days,
    decimal_number,
    floating_number,
    timestamp_micros,
    whole_number,
)
from medallion_assets.sources.formats.json_scan import Value

BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


class JsonText(StringType):
    """The type of a column that takes a value's JSON text, for Spark to parse."""


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


def take_object(text: str, value: Value, schema: StructType) -> Taken:
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


def _last(text: str, value: Value, kind: DataType) -> Any:
    try:
        return typed_value(text, value, kind)[0]
    except Misfit:
        return None


def _take_field(text: str, member: tuple[str, int, Value], kind: DataType, taken: Taken) -> None:
    key, start, value = member
    if isinstance(kind, StructType) and value.kind == "object":
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
    except Misfit:
        taken.misfit, whole = True, False
    if not whole:
        taken.left.append(text[start : value.end])


def _key_end(text: str, start: int, value: Value) -> int:
    return text.rindex('"', start, text.rindex(":", start, value.start)) + 1


def typed_value(text: str, value: Value, kind: DataType) -> tuple[Any, bool]:
    """Return a value as Arrow takes it, and false where structs inside had fields that no column knows.

    Raises:
        Misfit: It is not one of the type's.
    """
    if value.kind == "null":
        return None, True
    if isinstance(kind, StructType):
        _expect(value, "object")
        inner = take_object(text, value, kind)
        if inner.misfit or inner.repeated:
            raise Misfit
        return inner.values, not inner.left
    if isinstance(kind, ArrayType):
        _expect(value, "array")
        items = [typed_value(text, item, kind.elementType) for item in value.content]
        return [item for item, _ in items], all(whole for _, whole in items)
    if isinstance(kind, MapType):
        return _map(text, value, kind)
    reader = READERS.get(type(kind))
    if reader is None:
        raise Misfit
    return reader(text, value, kind), True


def reads(kind: DataType) -> bool:
    """Return true where ``typed_value`` knows a type, all the way down."""
    if isinstance(kind, StructType):
        return all(reads(inner.dataType) for inner in kind.fields)
    if isinstance(kind, ArrayType):
        return reads(kind.elementType)
    if isinstance(kind, MapType):
        return type(kind.keyType) is StringType and reads(kind.valueType)
    return type(kind) in READERS


def types_in(kind: DataType) -> Iterator[DataType]:
    """Return a type and all types inside of it."""
    yield kind
    inner = [f.dataType for f in kind.fields] if isinstance(kind, StructType) else []
    inner += [kind.elementType] if isinstance(kind, ArrayType) else []
    inner += [kind.keyType, kind.valueType] if isinstance(kind, MapType) else []
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
        raise Misfit


def _map(text: str, value: Value, kind: MapType) -> tuple[Any, bool]:
    _expect(value, "object")
    keys = [key for key, _, _ in value.content]
    if len(set(keys)) < len(keys) or not all(map(is_text, keys)):
        raise Misfit
    items = [typed_value(text, item, kind.valueType) for _, _, item in value.content]
    return list(zip(keys, (item for item, _ in items), strict=True)), all(whole for _, whole in items)


def _string(text: str, value: Value, _: DataType) -> str:
    if value.kind != "string":
        # Its text as it is in the file: written again, 1.10 would become 1.1.
        return text[value.start : value.end]
    content = str(value.content)
    if not is_text(content):
        raise Misfit
    return content


def _json_text(text: str, value: Value, _: DataType) -> str:
    return text[value.start : value.end]


def _boolean(_: str, value: Value, __: DataType) -> bool:
    _expect(value, "true", "false")
    return value.kind == "true"


def _whole(text: str, value: Value, kind: DataType) -> int:
    _expect(value, "number")
    return whole_number(text[value.start : value.end], BITS[type(kind)])


def _floating(text: str, value: Value, kind: DataType) -> float:
    _expect(value, "number")
    return floating_number(text[value.start : value.end], isinstance(kind, FloatType))


def _decimal(text: str, value: Value, kind: DataType) -> Decimal:
    _expect(value, "number", "string")
    assert isinstance(kind, DecimalType)
    written = text[value.start : value.end] if value.kind == "number" else str(value.content)
    return decimal_number(written, kind.precision, kind.scale)


def _date(_: str, value: Value, __: DataType) -> int:
    _expect(value, "string")
    days = date_days(value.content)
    if days is None:
        raise Misfit
    return days


def _timestamp(text: str, value: Value, kind: DataType, zoned: bool) -> int:
    if zoned and value.kind == "number":
        # Spark takes whole seconds since 1970.
        seconds = _whole(text, value, LongType())
        if not -LARGEST <= seconds * MICROS < LARGEST:
            raise Misfit
        return seconds * MICROS
    _expect(value, "string")
    micros = timestamp_micros(value.content, zoned)
    if micros is None:
        raise Misfit
    return micros


def _binary(_: str, value: Value, __: DataType) -> bytes:
    _expect(value, "string")
    try:
        found = base64.b64decode(value.content, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit from None
    if base64.b64encode(found).decode() != value.content:
        raise Misfit
    return found


READERS: dict[type[DataType], Callable[[str, Value, DataType], Any]] = {
    StringType: _string,
    JsonText: _json_text,
    BooleanType: _boolean,
    **dict.fromkeys(BITS, _whole),
    FloatType: _floating,
    DoubleType: _floating,
    DecimalType: _decimal,
    DateType: _date,
    TimestampType: partial(_timestamp, zoned=True),
    TimestampNTZType: partial(_timestamp, zoned=False),
    BinaryType: _binary,
}
"""By type, what takes a value of it that is no NULL."""
