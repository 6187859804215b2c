"""JSON text cut into values that know their place in it, so that nothing has to be written again.

Strict as RFC 8259, and without a limit: nesting is kept on a list, numbers stay text, keys may repeat.
"""

import re
from dataclasses import dataclass
from json.decoder import JSONDecodeError
from json.decoder import scanstring as scan_string  # type: ignore[attr-defined]
from typing import Any

import numpy as np

BLANK = re.compile(r"[ \t\r\n]*")
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
PLAIN_STRING = re.compile(r'"([^"\\\x00-\x1f]*)"')
NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
DEEP = 500
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


def nested_deeply(block: bytes) -> bool:
    """Return true where objects and arrays of a block may be nested so deeply that Arrow's parser crashes.

    Arrow 26 overflows its stack and ends the process somewhere between 1,500 and 20,000 levels.
    """
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
