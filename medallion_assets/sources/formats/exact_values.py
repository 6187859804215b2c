"""The value a text denotes in a column's type, exactly, or none: CSV cells, and numbers and strings of JSON.

No text is rounded, truncated or added to. The grammar of dates and times is that of Spark's casts
(``SparkDateTimeUtils.parseTimestampString``, session in UTC), less what Spark takes and changes: fractions
finer than a microsecond, the time of a text under DATE, times without a day, which Spark gives today's, and
local times that a change of clocks skips or repeats.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_type

from medallion_assets.sources.errors import SourceError

BITS: dict[type[types.DataType], int] = {
    types.ByteType: 8, types.ShortType: 16, types.IntegerType: 32, types.LongType: 64,
}  # fmt: skip
TRUE, FALSE = {"true", "t", "yes", "y", "1"}, {"false", "f", "no", "n", "0"}
WHITE = " \t\r\n"
WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
NOT_FINITE = re.compile(r"nan|[+-]?inf(inity)?", re.IGNORECASE)
SURE_DIGITS = 15
"""A decimal number of as many digits comes back from a double as it went in."""

MOST_DIGITS = 800
"""The longest exact form of a double has 767 digits."""

MOMENT = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,30}))?(?: ?(\S{1,40}))?)?)?)?)?)?",
    re.ASCII,
)
OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(?:(\d\d?)(?::([0-5]?\d))?|(\d\d)([0-5]\d))", re.ASCII)
LAST_OFFSET = 18 * 60
"""Minutes: the largest offset that Java's zones have."""

MICROS, DAY_SECONDS = 1_000_000, 86_400
LARGEST = 2**63
FIRST_SECOND, LAST_SECOND = -(2**35), 2**37
"""Seconds around 1970 that Python's dates hold, and between which every zone's first rule and last lie."""

ERA_DAYS = 146_097
"""Days after which the calendar and its days of the week are the same again: 400 years."""

DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
PATTERN_PARTS = {
    "y": r"\d{4}", "u": r"\d{4}", "M": r"\d{1,2}", "d": r"\d{1,2}", "H": r"\d{1,2}", "h": r"\d{1,2}",
    "m": r"\d{1,2}", "s": r"\d{1,2}", "S": r"\d{1,9}", "a": "[aApP][mM]",
    **dict.fromkeys("XxZ", r"Z|[+-]\d\d(?::?\d\d)?"), "V": "[A-Za-z_/+-]+", "z": "[A-Za-z_/+-]+",
}  # fmt: skip
"""What the letters of a date or timestamp pattern stand for; two and more mean at least two digits."""


class NotExact(ValueError):
    """The text denotes no value of the type."""


@dataclass(frozen=True)
class TextOptions:
    """How texts are written.

    Attributes:
        null: The text that means NULL.
        date_format, timestamp_format: Patterns of Spark; ISO 8601 where empty.
        partial_days: A year, or a year and a month, is a text of its first day, as Spark reads JSON strings;
            in a CSV cell ``2020`` is a number.
    """

    null: str = ""
    date_format: str = ""
    timestamp_format: str = ""
    partial_days: bool = False


def arrow_type(kind: types.DataType) -> pa.DataType:
    """Return the Arrow type of a column."""
    return to_arrow_type(kind, timezone="UTC")


def exact_value(text: str, kind: types.DataType, options: TextOptions = TextOptions()) -> Any:
    """Return the value of a text in a type without parts, as Arrow takes it.

    Whole numbers, decimals and doubles are the number that the text says: a double must give the text's
    digits back. Dates are days and timestamps microseconds since 1970-01-01 UTC; a date may have a time of
    midnight. Booleans are the words that Spark takes.

    Raises:
        NotExact: It denotes none.
    """
    read = READERS.get(type(kind))
    if read is None:
        raise NotExact(f"text is not read as {kind.simpleString()}")
    return read(text if type(kind) in AS_WRITTEN else text.strip(WHITE), kind, options)


def _whole(text: str, kind: types.DataType, _: TextOptions) -> int:
    half = 1 << (BITS[type(kind)] - 1)
    if not WHOLE.fullmatch(text) or not -half <= int(text) < half:
        raise NotExact(text)
    return int(text)


def _decimal(text: str, kind: types.DecimalType, _: TextOptions) -> Decimal:
    if not NUMBER.fullmatch(text):
        raise NotExact(text)
    exactly = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
    try:
        return exactly.quantize(Decimal(text), Decimal(1).scaleb(-kind.scale))
    except (Inexact, InvalidOperation):
        raise NotExact(text) from None


def _floating(text: str, kind: types.DataType, _: TextOptions) -> float:
    if NOT_FINITE.fullmatch(text):
        return float(text)
    if not NUMBER.fullmatch(text):
        raise NotExact(text)
    found, single = float(text), isinstance(kind, types.FloatType)
    if single:
        with np.errstate(over="ignore", under="ignore"):
            found = float(np.float32(found))
    mantissa = text.lower().partition("e")[0].lstrip("+-")
    # Zeros at the end of a fraction say nothing; those of a whole number are digits like the others.
    written = (mantissa.rstrip("0") if "." in mantissa else mantissa).replace(".", "").lstrip("0")
    sure = not single and len(written) <= SURE_DIGITS and 1e-290 < abs(found) < 1e300
    if sure or not written:
        return found
    if found == 0 or math.isinf(found) or len(written) > MOST_DIGITS:
        raise NotExact(text)
    if Context(prec=len(written)).create_decimal(Decimal(found)) != Decimal(text):
        raise NotExact(text)
    return found


def is_rounded(number: str) -> bool:
    """Return true where a text is a number that a double does not hold as it is written."""
    try:
        if repr(float(number)) == number:
            return False
        _floating(number, types.DoubleType(), TextOptions())
    except NotExact:
        return True
    except ValueError:
        # Part of a string; a number would be one from its first mark to its last.
        return False
    return False


def _boolean(text: str, _: types.DataType, __: TextOptions) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise NotExact(text)
    return text.lower() in TRUE


def _date(text: str, _: types.DataType, options: TextOptions) -> int:
    days, micros, zone = _moment(iso_text(text, options.date_format), options.partial_days)
    if micros or zone:
        raise NotExact(text)
    return days


def _timestamp(text: str, kind: types.DataType, options: TextOptions) -> int:
    days, micros, zone = _moment(iso_text(text, options.timestamp_format), options.partial_days)
    if zone and isinstance(kind, types.TimestampNTZType):
        raise NotExact(text)
    found = days * DAY_SECONDS * MICROS + micros
    if zone:
        found -= _offset(zone, found // MICROS) * MICROS
    if not -LARGEST <= found < LARGEST:
        raise NotExact(text)
    return found


def _moment(text: str, partial_days: bool) -> tuple[int, int, str]:
    """Return a text's days since 1970-01-01, its microseconds since midnight, and its zone."""
    found = MOMENT.fullmatch(text)
    if not found or not (found[3] or partial_days):
        raise NotExact(text)
    year, month, day = (int(part or 1) for part in found.group(1, 2, 3))
    hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
    micros = (found[7] or "").ljust(6, "0")
    exists = 1 <= month <= 12 and 1 <= day <= DAYS[month - 1] and hour < 24 and minute < 60 and second < 60
    leaps = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not exists or (month == 2 and day == 29 and not leaps) or micros[6:].strip("0"):
        raise NotExact(text)
    seconds = hour * 3600 + minute * 60 + second
    return _days(year, month, day), seconds * MICROS + int(micros[:6]), found[8] or ""


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01, of years that Python's dates do not have too."""
    # The Gregorian calendar repeats every 400 years; a year here begins in March.
    era, of_era = divmod(year - (month <= 2), 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * ERA_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _offset(zone: str, seconds: int) -> int:
    """Return a zone's seconds east of UTC at a local time."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    found = OFFSET.fullmatch(zone)
    if found:
        hours, minutes, more_hours, more_minutes = map(int, found.groups(default="0")[1:])
        east = (hours + more_hours) * 60 + minutes + more_minutes
        if east > LAST_OFFSET:
            raise NotExact(zone)
        return (east if found[1] == "+" else -east) * 60
    if "/" not in zone or zone not in _zones():
        raise NotExact(zone)
    seconds, era = max(seconds, FIRST_SECOND), ERA_DAYS * DAY_SECONDS
    if seconds > LAST_SECOND:
        seconds = (seconds - LAST_SECOND) % era + LAST_SECOND - era
    local = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    offsets = {local.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for fold in (0, 1)}
    if len(offsets) > 1:
        raise NotExact(f"{local} is no one moment in {zone}")
    return int(offsets.pop().total_seconds())  # type: ignore[union-attr]


@lru_cache(1)
def _zones() -> set[str]:
    return available_timezones()


@lru_cache(maxsize=64)
def format_regex(form: str) -> re.Pattern[str]:
    """Return a pattern of Spark (``dd.MM.yyyy HH:mm``) as a regular expression with a group for each letter.

    Raises:
        SourceError: A letter of it is none that a text can be read by.
    """
    written = ""
    for part in re.findall(r"'[^']*'|[A-Za-z]+|.", form):
        for letters in (m[0] for m in re.finditer(r"([A-Za-z])\1*", part)) if part[0].isalpha() else (part,):
            name, count = letters[0], len(letters)
            if not name.isalpha():
                written += {"[": "(?:", "]": ")?"}.get(part) or re.escape(part.strip("'") or "'")
                continue
            if name not in PATTERN_PARTS or f"(?P<{name}>" in written:
                raise SourceError(
                    f"the letter {name} in the pattern {form!r} is not one that texts are read by"
                )
            digits = PATTERN_PARTS[name]
            if name in "yu" and count == 2:
                digits = r"\d\d"
            elif name == "M" and count > 2:
                digits = "[A-Za-z]{3}" if count == 3 else "[A-Za-z]{3,9}"
            elif name == "S" or (name in "MdHhms" and count == 2):
                digits = rf"\d{{{count}}}"
            written += f"(?P<{name}>{digits})"
    return re.compile(written, re.ASCII)


def iso_text(text: str, form: str) -> str:
    """Return a text written by a pattern as ISO 8601; as it is without a pattern.

    Raises:
        NotExact: It is not written so.
    """
    if not form:
        return text
    found = format_regex(form).fullmatch(text)
    if not found:
        raise NotExact(text)
    parts = {name: value for name, value in found.groupdict().items() if value is not None}
    year = parts.get("y", parts.get("u", ""))
    month, hour = parts.get("M", "1"), int(parts.get("H", parts.get("h", 0)))
    if month.isalpha():
        month = str(MONTHS.index(month[:3].lower()) + 1) if month[:3].lower() in MONTHS else "0"
    if "h" in parts:
        if not 1 <= hour <= 12 or "a" not in parts:
            raise NotExact(text)
        hour = hour % 12 + 12 * (parts["a"].lower() == "pm")
    zone = next((parts[letter] for letter in "XxZVz" if letter in parts), "")
    day = f"{year if len(year) == 4 else '20' + year}-{month}-{parts.get('d', '1')}"
    return f"{day}T{hour}:{parts.get('m', 0)}:{parts.get('s', 0)}.{parts.get('S', 0)}{zone}"


AS_WRITTEN = (types.StringType, types.BinaryType)
READERS: dict[type[types.DataType], Callable[[str, Any, TextOptions], Any]] = {
    **dict.fromkeys(BITS, _whole), types.DecimalType: _decimal,
    types.DoubleType: _floating, types.FloatType: _floating, types.BooleanType: _boolean,
    types.DateType: _date, types.TimestampType: _timestamp, types.TimestampNTZType: _timestamp,
    types.StringType: lambda text, _, __: text, types.BinaryType: lambda text, _, __: text.encode(),
}  # fmt: skip
