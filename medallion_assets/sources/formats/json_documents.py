"""JSON whose records are not a line each: arrays and pretty-printed values, cut into records as they come.

A file is read in windows: what is in memory is a record, or a window where records are smaller.
"""

import json
import re
from collections.abc import Generator, Iterator
from io import TextIOWrapper
from json import JSONDecodeError
from pathlib import Path

from medallion_assets.sources.counted_lines import LONGEST_LINE
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.json_careful import MALFORMED
from medallion_assets.sources.formats.json_scan import NotJson, scan
from medallion_assets.sources.opening import Wrapping
from medallion_assets.sources.quarantine import CUT, MOST_SHOWN, CutRecord

WINDOW = 1 << 20
LINE_END = re.compile(r"\r\n|\r|\n")
BETWEEN = re.compile(r"[ \t\r\n,]*")
BLANK = re.compile(r"[ \t\r\n]*")
UNSURE = 16
"""Characters before a window's end where a literal or an escape may be cut off."""

EMPTY_ARRAY = "[]"
"""An array without elements is one record: else the file would be in no count."""

# Numbers stay text: Python refuses integers of more than 4,300 digits.
_decoder = json.JSONDecoder(parse_float=str, parse_int=str)


class _Window:
    """A text of which a part is in memory."""

    def __init__(self, text: TextIOWrapper) -> None:
        self.stream, self.text, self.at, self.whole = text, "", 0, False
        self.grow()

    def grow(self) -> None:
        """Read as much again as is left.

        Raises:
            UnreadableFile: A value is longer than any reader can hold.
        """
        self.text, self.at = self.text[self.at :], 0
        if len(self.text) > LONGEST_LINE:
            size = f"{LONGEST_LINE >> 20} MiB and more"
            raise UnreadableFile(f"a value of it has {size}, which no reader can hold")
        more = self.stream.read(max(WINDOW, len(self.text)))
        self.text += more
        self.whole = not more

    def skip(self, blank: re.Pattern[str]) -> str:
        """Go to the next character that is none of these, and return it; empty at the end of the file."""
        while True:
            self.at = blank.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self.text) or self.whole:
                return self.text[self.at : self.at + 1]
            self.grow()

    def value(self) -> str | None:
        """Return the text of the value that starts here, and go to its end; None where there is none."""
        while True:
            try:
                end = _end_of(self.text, self.at)
            except (ValueError, RecursionError) as error:
                if self.whole or not _may_be_cut_off(error, len(self.text)):
                    return None
            else:
                if self.whole or end < len(self.text):
                    start, self.at = self.at, end
                    return self.text[start:end]
            self.grow()

    def rest(self) -> CutRecord:
        """Return what is left of the file as one record that is none."""
        while not self.whole and len(self.text) - self.at < MOST_SHOWN:
            self.grow()
        text, reason = self.text[self.at :], MALFORMED
        if len(text) > MOST_SHOWN or (not self.whole and self.stream.read(1)):
            text, reason = text[:MOST_SHOWN], MALFORMED + CUT
        return CutRecord("", text.rstrip(), reason)


def documents(path: Path, wrapping: Wrapping, multi_line: str = "auto") -> Iterator[CutRecord] | None:
    """Return the file's records one by one, or None where each line is a record of its own.

    With ``auto`` the first value decides alone: one that ends on the line it began on, and is no array,
    makes the file a file of lines, so that broken lines in it are quarantined one by one. With ``true``
    values are cut wherever they end, several on a line too. What follows the last whole value is one record
    more: malformed, and quarantined as such.
    """
    if multi_line == "false":
        return None
    if multi_line == "auto":
        with wrapping.text(path) as text:
            if _is_lines(_Window(text)):
                return None
    return _records(path, wrapping)


def _is_lines(window: _Window) -> bool:
    first = window.skip(BLANK)
    if first not in ("{", "["):
        return True
    if first == "{":
        value = window.value()
        return value is None or LINE_END.search(value) is None
    window.at += 1
    if window.skip(BLANK) == "]":
        return False
    return window.value() is None or window.skip(BLANK) not in (",", "]")


def _records(path: Path, wrapping: Wrapping) -> Iterator[CutRecord]:
    with wrapping.text(path) as text:
        window = _Window(text)
        while first := window.skip(BETWEEN):
            if first == "[":
                window.at += 1
                if not (yield from _items(window)):
                    return
                continue
            value = window.value()
            if value is None:
                yield window.rest()
                return
            yield _on_one_line(value)


def _items(window: _Window) -> Generator[CutRecord, None, bool]:
    """Return an array's elements; its result is false where the array breaks off, and the file with it."""
    if window.skip(BLANK) == "]":
        window.at += 1
        yield _on_one_line(EMPTY_ARRAY)
        return True
    while True:
        value = window.value()
        if value is None:
            yield window.rest()
            return False
        yield _on_one_line(value)
        mark = window.skip(BLANK)
        if mark == "]":
            window.at += 1
            return True
        if mark != ",":
            rest = window.rest()
            yield rest if rest.text else CutRecord("", "[", f"{MALFORMED}: the file ends within an array")
            return False
        window.at += 1
        window.skip(BLANK)


def _end_of(text: str, at: int) -> int:
    try:
        return _decoder.raw_decode(text, at)[1]
    except RecursionError:
        return scan(text, at).end


def _may_be_cut_off(error: Exception, length: int) -> bool:
    if isinstance(error, JSONDecodeError):
        return error.msg.startswith("Unterminated") or error.pos >= length - UNSURE
    return isinstance(error, (NotJson, RecursionError))


def _on_one_line(value: str) -> CutRecord:
    # A line end inside valid JSON is white space; inside a string it would be an escape.
    return CutRecord(value.replace("\r", " ").replace("\n", " "), value)
