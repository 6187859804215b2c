"""JSON whose records are not a line each: arrays and pretty-printed values, cut into records."""

import gzip
import json
from pathlib import Path

PROBE_BYTES = 1 << 16
MAX_DOCUMENT_BYTES = 1 << 30
"""A document is cut up in memory; a larger one is read a line at a time, and its lines quarantined."""

BETWEEN = " \t\r\n,"
_decoder = json.JSONDecoder()


def as_documents(path: Path) -> list[str] | None:
    """Gives the file's records as one JSON text each, or None where each line is a record of its own.

    Decided by the first value alone: one that ends on the line it began on, and is no array, makes
    the file a file of lines, so that broken lines in it are quarantined one by one.
    What follows the last whole value is one record more: malformed, and quarantined as such.
    """
    data = _read(path)
    if data is None or _first_line_stands_alone(data):
        return None
    return _values(data.decode("utf-8-sig").strip())


def _read(path: Path) -> bytes | None:
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        return None
    open_file = gzip.open if path.suffix == ".gz" else Path.open
    with open_file(path, "rb") as file:
        probe: bytes = file.read(PROBE_BYTES)
        if _first_line_stands_alone(probe):
            return None
        return probe + file.read()


def _first_line_stands_alone(data: bytes) -> bool:
    lines = data.lstrip(b"\xef\xbb\xbf \t\r\n").splitlines()
    if not lines or not lines[0].lstrip().startswith((b"{", b"[")):
        return True
    try:
        return not isinstance(json.loads(lines[0]), list)
    except ValueError:
        return not _opens_a_whole_value(data)


def _opens_a_whole_value(data: bytes) -> bool:
    try:
        text = data.decode("utf-8-sig").lstrip()
        _, end = _decoder.raw_decode(text)
    except ValueError:
        return False
    return len(text[:end].splitlines()) > 1


def _values(text: str) -> list[str]:
    records: list[str] = []
    while text:
        try:
            _, end = _decoder.raw_decode(text)
        except ValueError:
            return [*records, _on_one_line(text)]
        records += _items(text[:end]) if text.startswith("[") else [_on_one_line(text[:end])]
        text = text[end:].lstrip(BETWEEN)
    return records


def _items(array: str) -> list[str]:
    """Gives the elements of a whole array as they are written: reading and writing would round numbers."""
    items, at = [], 1
    while (at := _next(array, at)) < len(array) - 1:
        _, end = _decoder.raw_decode(array, at)
        items.append(_on_one_line(array[at:end]))
        at = end
    return items


def _next(array: str, at: int) -> int:
    while array[at] in BETWEEN:
        at += 1
    return at


def _on_one_line(value: str) -> str:
    # A line end inside valid JSON is white space; inside a string it would be an escape.
    return value.replace("\r", " ").replace("\n", " ")
