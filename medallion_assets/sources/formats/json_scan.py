"""JSON text cut into values that know their place in it, and files cut into records that are not a line each.

Strict as RFC 8259, and without a limit: nesting is kept on a list, numbers stay text, keys may repeat. A file
is read in windows: what is in memory is a record, or a window where records are smaller.
"""

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from json.decoder import JSONDecodeError
from json.decoder import scanstring as scan_string  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

import numpy as np

from medallion_assets.sources.counted_lines import LONGEST_LINE
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.opening import Wrapping
from medallion_assets.sources.quarantine import CUT, MOST_SHOWN, CutRecord

BLANK = re.compile(r"[ \t\r\n]*")
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
PLAIN_STRING = re.compile(r'"([^"\\\x00-\x1f]*)"')
NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
NULL_FIRST = re.compile(rb"[ \t\r\n\xef\xbb\xbf]*null")
DEEP = 500
MALFORMED = "malformed JSON"
LITERALS = {"t": "true", "f": "false", "n": "null"}


class NotJson(ValueError):
    """The text is not JSON from some character on."""


@dataclass(slots=True)
class Value:
    """A value of a JSON text.

    Attributes:
        kind: ``object``, ``array``, ``string``, ``number``, ``true``, ``false`` or ``null``.
        start, end: Where it is in the text.
        content: An object's ``(key, start of the key, Value)`` in order, an array's values, a string.
    """

    kind: str
    start: int
    end: int
    content: Any = None


def ends_arrow(block: bytes) -> bool:
    """Return true for lines on which Arrow's JSON parser may end the process, as Arrow 26 does on two kinds.

    It reads through a null pointer where the first value is ``null``, and overflows its stack where objects
    and arrays are nested somewhere between 1,500 and 20,000 levels.
    """
    if NULL_FIRST.match(block):
        return True
    marks = np.frombuffer(block.translate(None, NO_BRACKETS), np.uint8)
    steps = np.where((marks == ord("{")) | (marks == ord("[")), 1, -1).astype(np.int32)
    return bool(len(steps) > DEEP and np.cumsum(steps).max() > DEEP)


def skip_blank(text: str, at: int) -> int:
    """Return where the next character is that is no white space."""
    return BLANK.match(text, at).end()  # type: ignore[union-attr]


def scan(text: str, at: int = 0) -> Value:
    """Return the value that starts at a place of the text, white space before it aside.

    Raises:
        NotJson: There is no whole value.
    """
    at = skip_blank(text, at)
    value = _opened(text, at)
    open_values: list[Value] = [value] if value.end < 0 else []
    while open_values:
        inner = open_values[-1]
        at = skip_blank(text, inner.end if inner.end >= 0 else _last_end(inner))
        closing = "}" if inner.kind == "object" else "]"
        if text[at : at + 1] == closing:
            inner.end = at + 1
            open_values.pop()
            continue
        if inner.content:
            if text[at : at + 1] != ",":
                raise NotJson(at)
            at = skip_blank(text, at + 1)
        child = _member(text, at, inner)
        if child.end < 0:
            open_values.append(child)
    return value


def _last_end(container: Value) -> int:
    if not container.content:
        return container.start + 1
    last = container.content[-1]
    return int((last[2] if container.kind == "object" else last).end)


def _member(text: str, at: int, container: Value) -> Value:
    """Return the next value of an object or array, added to it."""
    if container.kind == "array":
        container.content.append(child := _opened(text, at))
        return child
    if text[at : at + 1] != '"':
        raise NotJson(at)
    key, end = _string(text, at)
    colon = skip_blank(text, end)
    if text[colon : colon + 1] != ":":
        raise NotJson(colon)
    child = _opened(text, skip_blank(text, colon + 1))
    container.content.append((key, at, child))
    return child


def _opened(text: str, at: int) -> Value:
    """Return the value at a place; of an object or array its start alone, with -1 for its end."""
    first = text[at : at + 1]
    if first == '"':
        content, end = _string(text, at)
        return Value("string", at, end, content)
    if first in ("{", "["):
        return Value("object" if first == "{" else "array", at, -1, [])
    if first in LITERALS and text.startswith(LITERALS[first], at):
        return Value(LITERALS[first], at, at + len(LITERALS[first]))
    number = NUMBER.match(text, at)
    if not number:
        raise NotJson(at)
    return Value("number", at, number.end())


def _string(text: str, at: int) -> tuple[str, int]:
    plain = PLAIN_STRING.match(text, at)
    if plain:
        return plain[1], plain.end()
    try:
        content, end = scan_string(text, at + 1, True)
        return content, end
    except JSONDecodeError as broken:
        raise NotJson(broken.pos) from None


WINDOW = 1 << 20
LINE_END = re.compile(r"\r\n|\r|\n")
BETWEEN = re.compile(r"[ \t\r\n,]*")
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
        return CutRecord("", text.rstrip(" \t\r\n"), reason)


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
