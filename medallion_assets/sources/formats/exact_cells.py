"""The value a text denotes in a column's type, exactly, or none.

No cast of a text rounds, truncates or adds: what does not denote a value of the type is left to rescue or
quarantine. ``columns.typed_cells`` gives whole columns the same values, by Arrow's casts.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
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

from medallion_assets.sources.formats.exact_texts import NotExact, iso_text

WHOLE: dict[type[DataType], int] = {ByteType: 7, ShortType: 15, IntegerType: 31, LongType: 63}
"""Bits of the whole types."""

TRUE, FALSE = {"true", "t", "yes", "y", "1"}, {"false", "f", "no", "n", "0"}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
NOT_FINITE = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
MOMENT = re.compile(
    DATE + r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)? ?(Z|UTC|GMT|[+-]\d{1,2}(?::?\d\d)?|"
    r"[A-Za-z_]+/[A-Za-z_/+-]+\d*)?)?",
    re.ASCII,
)


@dataclass(frozen=True)
class CellOptions:
    """How texts of dates and times are written.

    Attributes:
        null: The text that stands for NULL.
        date_format, timestamp_format: Patterns of Spark; ISO 8601 where empty.
    """

    null: str = ""
    date_format: str = ""
    timestamp_format: str = ""


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type of a column."""
    return to_arrow_type(kind, timezone="UTC")


def exact_value(text: str, kind: DataType, options: CellOptions = CellOptions()) -> Any:
    """Return the Python value a text denotes in a type.

    Whole numbers, decimals and doubles have to be the number the text says: a double whose text has up to
    17 digits must give those digits back. Dates and times exist in the calendar and are no finer than a
    microsecond; a date may have a time of midnight. Booleans are the words Spark takes. Arrays, maps and
    structs are JSON whose members are exact themselves.

    Raises:
        NotExact: It denotes none.
    """
    if not isinstance(kind, (StringType, BinaryType)):
        text = text.strip(" \t\r\n")
    if isinstance(kind, (StructType, ArrayType, MapType)):
        return _nested(text, kind, options)
    read = READERS.get(type(kind))
    if read is None:
        raise NotExact(f"text is not read as {kind.simpleString()}")
    return read(text, kind, options)


def _whole(text: str, kind: DataType, _: CellOptions) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", text):
        raise NotExact(text)
    number, bits = int(text), WHOLE[type(kind)]
    if not -(1 << bits) <= number < 1 << bits:
        raise NotExact(text)
    return number


def _number(text: str) -> Decimal:
    if not NUMBER.fullmatch(text):
        raise NotExact(text)
    return Decimal(text)


def _decimal(text: str, kind: DataType, _: CellOptions) -> Decimal:
    assert isinstance(kind, DecimalType)
    sign, digits, exponent = _number(text).as_tuple()
    assert isinstance(exponent, int)
    while digits and digits[-1] == 0 and len(digits) > 1 and exponent < 0:
        digits, exponent = digits[:-1], exponent + 1
    whole = max(len(digits) + exponent, 0)
    if any(digits) and (whole > kind.precision - kind.scale or -exponent > kind.scale):
        raise NotExact(text)
    return Decimal((sign, digits, exponent)) if any(digits) else Decimal(0)


def _double(text: str, kind: DataType, _: CellOptions) -> float:
    if NOT_FINITE.fullmatch(text):
        return float(text)
    number = _number(text)
    single = isinstance(kind, FloatType)
    with np.errstate(over="ignore"):
        value = float(np.float32(text)) if single else float(text)
    if math.isinf(value):
        raise NotExact(text)
    # Zeros at the end of a fraction say nothing; those of a whole number are digits like the others.
    kept = str(number).partition("E")[0].lstrip("-0.")
    digits = len((kept.rstrip("0") if "." in str(number) else kept).replace(".", "")) or 1
    printed = Decimal(f"{value:.{digits - 1}e}")
    if Decimal(value) != number and (digits > (9 if single else 17) or printed != number):
        raise NotExact(text)
    return value


def _boolean(text: str, _: DataType, __: CellOptions) -> bool:
    word = text.lower()
    if word not in TRUE | FALSE:
        raise NotExact(text)
    return word in TRUE


def _date(text: str, _: DataType, options: CellOptions) -> date:
    moment = _moment(iso_text(text, options.date_format))
    if moment.time() != datetime.min.time() or moment.tzinfo:
        raise NotExact(text)
    return moment.date()


def _timestamp(text: str, kind: DataType, options: CellOptions) -> datetime:
    moment = _moment(iso_text(text, options.timestamp_format))
    if isinstance(kind, TimestampNTZType):
        if moment.tzinfo:
            raise NotExact(text)
        return moment
    if not moment.tzinfo:
        moment = moment.replace(tzinfo=timezone.utc)
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError as error:
        raise NotExact(text) from error


def _moment(text: str) -> datetime:
    found = MOMENT.fullmatch(text)
    if not found:
        raise NotExact(text)
    fraction, zone = (found[7] or "").ljust(9, "0"), found[8]
    parts = [int(part or 0) for part in found.groups()[:6]]
    try:
        moment = datetime(*parts, int(fraction[:6]))  # type: ignore[call-arg, arg-type]
        if fraction[6:] != "000":
            raise NotExact(text)
        return _in_zone(moment, zone) if zone else moment
    except ValueError as error:
        raise NotExact(text) from error


def _in_zone(moment: datetime, zone: str) -> datetime:
    """Return a moment in its zone; a local time that a change of clocks skips or repeats is not exact."""
    if zone[0] in "+-":
        hours, minutes = re.fullmatch(r"(\d{1,2}):?(\d\d)?", zone[1:]).groups()  # type: ignore[union-attr]
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if offset > timedelta(hours=18) or int(minutes or 0) > 59:
            raise NotExact(zone)
        return moment.replace(tzinfo=timezone(-offset if zone[0] == "-" else offset))
    if zone in ("Z", "UTC", "GMT"):
        return moment.replace(tzinfo=timezone.utc)
    try:
        first, second = (moment.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1))
    except Exception as error:
        raise NotExact(zone) from error
    if first.utcoffset() != second.utcoffset():
        raise NotExact(moment.isoformat())
    return first


def _nested(text: str, kind: DataType, options: CellOptions) -> Any:
    try:
        value = json.loads(text, parse_float=Decimal, parse_int=Decimal, object_pairs_hook=_once)
        return _member(value, kind, options)
    except (ValueError, RecursionError) as error:
        raise NotExact(text) from error


def _member(value: Any, kind: DataType, options: CellOptions) -> Any:
    if value is None:
        return None
    if isinstance(kind, ArrayType) and isinstance(value, list):
        return [_member(item, kind.elementType, options) for item in value]
    if isinstance(kind, MapType) and isinstance(value, dict):
        keys = (exact_value(key, kind.keyType, options) for key in value)
        return list(zip(keys, (_member(v, kind.valueType, options) for v in value.values()), strict=True))
    if isinstance(kind, StructType) and isinstance(value, dict) and set(value) <= set(kind.names):
        return {f.name: _member(value.get(f.name), f.dataType, options) for f in kind.fields}
    takes = bool if isinstance(kind, BooleanType) else str if isinstance(kind, TEXTUAL) else Decimal
    if not isinstance(value, takes):
        raise NotExact(str(value))
    return value if takes is bool else exact_value(str(value), kind, options)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise NotExact("a key is repeated")
    return dict(pairs)


Reader = Callable[[str, Any, CellOptions], Any]
READERS: dict[type[DataType], Reader] = {
    **dict.fromkeys(WHOLE, _whole), DecimalType: _decimal, DoubleType: _double, FloatType: _double,
    BooleanType: _boolean, DateType: _date, TimestampType: _timestamp, TimestampNTZType: _timestamp,
    StringType: lambda text, _, __: text, BinaryType: lambda text, _, __: text.encode(),
}  # fmt: skip
TEXTUAL = (StringType, BinaryType, DateType, TimestampType, TimestampNTZType)
