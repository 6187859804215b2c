"""JSON whose records are not a line each: arrays and pretty-printed values, cut into records."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from medallion_assets.sources.opening import Wrapping

PROBE_CHARACTERS = 1 << 16
MAX_DOCUMENT_BYTES = 1 << 30
"""A document is cut up in memory; a larger one is read a line at a time, and its lines quarantined."""

LINE_END = re.compile(r"\r\n|\r|\n")
BETWEEN = " \t\r\n,"
EMPTY_ARRAY = "[]"
"""An array without elements stands for one record: else the file would be in no count."""

NO_VALUE = (ValueError, RecursionError)
"""What the decoder raises; nesting beyond Python's stack is no document of ours to cut."""

_decoder = json.JSONDecoder()


def as_documents(path: Path, wrapping: Wrapping, multi_line: str = "auto") -> list[str] | None:
    """Return the file's records as one JSON text each, or None where each line is a record of its own.

    With ``auto`` it is decided by the first value alone: one that ends on the line it began on, and is
    no array, makes the file a file of lines, so that broken lines in it are quarantined one by one.
    With ``true`` values are cut wherever they end, several on a line too. What follows the last whole
    value is one record more: malformed, and quarantined as such.
    """
    if multi_line == "false" or path.stat().st_size > MAX_DOCUMENT_BYTES:
        return None
    with wrapping.text(path) as text:
        probe = text.read(PROBE_CHARACTERS)
        if multi_line == "auto" and _is_lines(probe, whole=len(probe) < PROBE_CHARACTERS):
            return None
        everything = probe + text.read(MAX_DOCUMENT_BYTES)
        if text.read(1):
            # Compressed, it was smaller. What a cut leaves out would be in no count.
            return None
    if multi_line == "auto" and _is_lines(everything, whole=True):
        return None
    return list(_values(everything.strip()))


def _is_lines(text: str, whole: bool) -> bool:
    """Return true where the text is surely a record a line; a text cut off may leave that open."""
    start = text.lstrip(" \t\r\n")
    if not start.startswith(("{", "[")):
        return True
    first = LINE_END.split(start, 1)
    try:
        return not isinstance(json.loads(first[0]), list) and (whole or len(first) > 1)
    except NO_VALUE:
        return whole and not _opens_a_whole_value(start)


def _opens_a_whole_value(start: str) -> bool:
    try:
        _, end = _decoder.raw_decode(start)
    except NO_VALUE:
        return False
    return LINE_END.search(start, 0, end) is not None


def _values(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        try:
            _, end = _decoder.raw_decode(text, at)
        except NO_VALUE:
            yield _on_one_line(text[at:])
            return
        if text[at] == "[":
            yield from _items(text[at:end])
        else:
            yield _on_one_line(text[at:end])
        at = _next(text, end)


def _items(array: str) -> Iterator[str]:
    """Return the elements of a whole array as they are written: reading and writing would round numbers."""
    at = _next(array, 1)
    if at >= len(array) - 1:
        yield EMPTY_ARRAY
    while at < len(array) - 1:
        _, end = _decoder.raw_decode(array, at)
        yield _on_one_line(array[at:end])
        at = _next(array, end)


def _next(text: str, at: int) -> int:
    while at < len(text) and text[at] in BETWEEN:
        at += 1
    return at


def _on_one_line(value: str) -> str:
    # A line end inside valid JSON is white space; inside a string it would be an escape.
    return value.replace("\r", " ").replace("\n", " ")
