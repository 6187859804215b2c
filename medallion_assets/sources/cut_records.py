"""A record cut out of a file whose records are not a line each."""

from dataclasses import dataclass

MOST_SHOWN = 8 << 20
"""Characters kept of what follows the last whole record; the file has the rest."""

CUT = f": it goes on to the end of the file, and its first {MOST_SHOWN} characters are kept here"


@dataclass(frozen=True, slots=True)
class CutRecord:
    """A record as JSON, and as it is in its file.

    Attributes:
        line: The record as JSON on one line.
        text: Its text in the file.
        reason: Why it is no record, empty where that is for a reader of JSON to say.
    """

    line: str
    text: str
    reason: str = ""
