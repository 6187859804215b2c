"""Numbers, dates and times as texts, read exactly: a type takes what it does not change.

The grammar is the one of Spark's casts (``SparkDateTimeUtils.parseTimestampString``, session in UTC), less
what Spark takes and shortens: fractions finer than a microsecond, the time of a text under DATE, and times
without a day, which Spark gives today's.
"""

import re
from datetime import datetime, timedelta, timezone
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from medallion_assets.sources.errors import SourceError

SURE_DIGITS = 15
"""A decimal number of as many digits comes back from a double as it went in."""

MOST_DIGITS = 800
"""The longest exact form of a double has 767 digits."""

LONGEST_WHOLE = 20
DECIMAL_MARKS = frozenset("0123456789+-.eE")


class Misfit(Exception):
    """A value is not one of its column's type."""


def whole_number(written: str, bits: int) -> int:
    """Return a whole number, which has no fraction and no exponent.

    Raises:
        Misfit: It is none, or has more bits.
    """
    half = 1 << (bits - 1)
    if len(written) > LONGEST_WHOLE or not written.lstrip("-").isdigit():
        raise Misfit
    if not -half <= int(written) < half:
        raise Misfit
    return int(written)


def floating_number(written: str, single: bool) -> float:
    """Return the double or single a JSON number is, where it has as many digits of it as the text has.

    Raises:
        Misfit: Written with as many digits, the nearest double (or single) is another number.
    """
    found = float(written)
    if single:
        with np.errstate(over="ignore", under="ignore"):
            found = float(np.float32(found))
    mantissa = written.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0")
    if not mantissa:
        return found
    sure = not single and 1e-290 < abs(found) < 1e300 and len(mantissa) <= SURE_DIGITS
    if not sure and not _is_written(found, written, len(mantissa)):
        raise Misfit
    return found


def _is_written(found: float, written: str, digits: int) -> bool:
    """Return true where a number written with that many digits is the text."""
    if found in (0, float("inf"), float("-inf")) or digits > MOST_DIGITS:
        return False
    exact = Decimal(written)
    return Context(prec=digits).create_decimal(Decimal(found)) == exact


def decimal_number(written: str, precision: int, scale: int) -> Decimal:
    """Return a decimal of so many digits, some of them behind the point.

    Raises:
        Misfit: It is no number, or would be rounded, or is too large.
    """
    if not DECIMAL_MARKS.issuperset(written):
        raise Misfit
    exactly = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        return exactly.quantize(Decimal(written), Decimal(1).scaleb(-scale))
    except (Inexact, InvalidOperation):
        raise Misfit from None


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
PATTERN_PARTS = {
    "y": r"\d{4}", "u": r"\d{4}", "M": r"\d{1,2}", "d": r"\d{1,2}", "H": r"\d{1,2}", "h": r"\d{1,2}",
    "m": r"\d{1,2}", "s": r"\d{1,2}", "S": r"\d{1,9}", "a": "[aApP][mM]",
    **dict.fromkeys("XxZ", r"Z|[+-]\d\d(?::?\d\d)?"), "V": "[A-Za-z_/+-]+", "z": "[A-Za-z_/+-]+",
}  # fmt: skip
"""What the letters of a date or timestamp pattern stand for; two and more mean at least two digits."""


class NotExact(ValueError):
    """The text denotes no value of the type."""


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


WHITE = " \t\r\n"
DAY = r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})%s)?)?"
DATE = re.compile(DAY % "", re.ASCII)
TIMESTAMP = re.compile(
    DAY % r"(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,30}))?(?: ?(\S{1,40}))?)?)?", re.ASCII
)
OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d)(?::?([0-5]\d))?", re.ASCII)
LAST_OFFSET = 18 * 60
"""Minutes: the largest offset that Java's zones have."""

MICROS = 1_000_000
LARGEST = 2**63
DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def date_days(text: str) -> int | None:
    """Return the days since 1970-01-01 of a date, None where the text is none."""
    found = DATE.fullmatch(text.strip(WHITE))
    return _days(*found.groups(default="1")) if found else None


def timestamp_micros(text: str, zoned: bool) -> int | None:
    """Return the microseconds since 1970-01-01 UTC of a timestamp, None where the text is none.

    Args:
        text: What the file has.
        zoned: It may name its zone (TIMESTAMP); else it may not (TIMESTAMP_NTZ).
    """
    found = TIMESTAMP.fullmatch(text.strip(WHITE))
    if not found:
        return None
    year, month, day, *clock, fraction, zone = found.groups()
    days = _days(year, month or "1", day or "1")
    hour, minute, second = (int(part or 0) for part in clock)
    micros = (fraction or "").ljust(6, "0")
    if days is None or hour > 23 or minute > 59 or second > 59 or micros[6:].strip("0"):
        return None
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    offset = _offset(zone, seconds) if zone and zoned else 0
    if offset is None or (zone and not zoned):
        return None
    whole = (seconds - offset) * MICROS + int(micros[:6])
    return whole if -LARGEST <= whole < LARGEST else None


def _days(year: str, month: str, day: str) -> int | None:
    """Return the days since 1970-01-01, of years that Python's dates do not have too."""
    y, m, d = int(year), int(month), int(day)
    if not (1 <= m <= 12 and 1 <= d <= DAYS[m - 1]) or (m == 2 and d == 29 and not _leaps(y)):
        return None
    # The Gregorian calendar repeats every 400 years; a year here begins in March.
    y -= m <= 2
    era, of_era = divmod(y, 400)
    of_year = (153 * ((m + 9) % 12) + 2) // 5 + d - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _leaps(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _offset(zone: str, seconds: int) -> int | None:
    """Return a zone's seconds east of UTC at a local time, None for a zone that nobody has."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    found = OFFSET.fullmatch(zone)
    if found:
        sign, hours, minutes = found.groups()
        east = int(hours) * 60 + int(minutes or 0)
        return (east if sign == "+" else -east) * 60 if east <= LAST_OFFSET else None
    if "/" not in zone or zone not in _zones():
        return None
    try:
        local = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)
    except OverflowError:
        return None
    east_of = local.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    return None if east_of is None else int(east_of.total_seconds())


@lru_cache(1)
def _zones() -> set[str]:
    return available_timezones()
