"""Texts of dates and times written by a pattern of Spark, as ISO 8601."""

import re
from functools import lru_cache

from medallion_assets.sources.errors import SourceError

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
