"""Dates and timestamps as Spark's JSON reader takes them, where nothing of the text is lost.

The grammar is the one of Spark's casts (``SparkDateTimeUtils.parseTimestampString``, session in UTC), less
what Spark takes and shortens: fractions finer than a microsecond, the time of a text under DATE, and times
without a day, which Spark gives today's.
"""

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

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
