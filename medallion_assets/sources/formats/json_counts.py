"""Count the members of JSON objects, one on a line, by key: alike ones fast, others one by one."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json

from medallion_assets.sources.counted_lines import SPACE
from medallion_assets.sources.formats.json_blocks import objects_on_lines
from medallion_assets.sources.formats.json_rows import object_of
from medallion_assets.sources.formats.json_scan import ends_arrow

BLOCK = 1 << 18
"""Bytes of JSON lines counted at once: small ones stay in the processor's cache, and an unusual line sends
only its block to a slower reader."""

MOST_ALIKE = 1000
"""Keys of an object that a decoder is made for."""

COLON, QUOTE, NULL = ord(":"), ord('"'), msgspec.Raw(b"null")


def json_values(pieces: Iterable[bytes]) -> tuple[Counter[str], set[str]]:
    """Return how many values each key of the objects on lines has, and the keys that an object has twice.

    A value is a member that is not null. A line that is no object counts none.
    """
    values: Counter[str] = Counter()
    repeated: set[str] = set()
    for block in _blocks(pieces):
        # Fast readers do not say which line an object is from: two on one and none on another are as many.
        lines = objects_on_lines(block)
        if not lines or not (_count_alike(block, lines, values) or _count_columns(block, lines, values)):
            repeated |= _count_lines(block, values)
    return values, repeated


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Return whole lines, at least ``BLOCK`` bytes at a time but for the last."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        start = 0
        while size + len(piece) - start >= BLOCK:
            end = piece.find(b"\n", start + max(BLOCK - size, 1) - 1) + 1
            if not end:
                break
            yield b"".join((*held, piece[start:end]))
            held, size, start = [], 0, end
        held.append(piece[start:])
        size += len(piece) - start
    if size:
        yield b"".join(held)


def _count_alike(block: bytes, lines: int, values: Counter[str]) -> bool:
    """Count a block whose lines are all sound objects with the keys of the first; return whether they were.

    The decoder checks keys and values and leaves values as text; it does not see that a key is there twice.
    Then more keys end (``":``) than there are members, those inside of nested values aside.
    """
    keys = [key for key, _ in keys_of(block[: block.find(b"\n") + 1] or block)]
    decoder = _decoder_of(tuple(keys)) if len(set(keys)) == len(keys) <= MOST_ALIKE else None
    if decoder is None:
        return False
    marks = np.frombuffer(block, np.uint8)
    before = marks[np.flatnonzero(marks == COLON) - 1]
    if (before <= SPACE).any():
        return False
    try:
        rows = decoder.decode_lines(block)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    if len(rows) != lines:
        return False
    value = [attrgetter(f"f{place}") for place in range(len(keys))]
    ends = np.count_nonzero(before == QUOTE) - lines * len(keys)
    for value_of in sorted(value, key=lambda of: bytes(of(rows[0]))[:1], reverse=True):
        # Objects come before lists: those of plain values hold no keys, and are not looked through.
        if not ends:
            break
        ends -= b"".join(map(value_of, rows)).count(b'":')
    if ends:
        return False
    has_null = b"null" in block
    for key, value_of in zip(keys, value, strict=True):
        values[key] += lines - ([*map(value_of, rows)].count(NULL) if has_null else 0)
    return True


@lru_cache(maxsize=64)
def _decoder_of(keys: tuple[str, ...]) -> "msgspec.json.Decoder[Any] | None":
    """Return a decoder of objects with exactly these keys, which leaves values as text; None for odd keys."""
    fields: list[tuple[str, Any]] = [(f"f{place}", msgspec.Raw) for place in range(len(keys))]
    names = {f"f{place}": key for place, key in enumerate(keys)}
    try:
        kind = msgspec.defstruct("Alike", fields, rename=names, forbid_unknown_fields=True, gc=False)
        return msgspec.json.Decoder(kind)
    except ValueError:
        # A key with a quote or a backslash in it.
        return None


def _count_columns(block: bytes, lines: int, values: Counter[str]) -> bool:
    """Count a block whose lines are all sound objects of one type a key; return whether they were."""
    if ends_arrow(block):
        return False
    try:
        found = pa.json.read_json(pa.BufferReader(block), pa.json.ReadOptions(block_size=len(block) + 1))
        # A key may be no UTF-8, which is found only as it is read.
        names = found.column_names
    except (pa.ArrowException, ValueError):
        return False
    if found.num_rows != lines:
        # Several values on one.
        return False
    for name, column in zip(names, found.columns, strict=True):
        values[name] += len(column) - column.null_count
    return True


def _count_lines(block: bytes, values: Counter[str]) -> set[str]:
    """Count a block of any lines, and return the keys that one of its objects has twice."""
    repeated: set[str] = set()
    for line in block.splitlines():
        found = keys_of(line)
        repeated |= repeated_keys(key for key, _ in found)
        values.update(key for key, is_value in found if is_value)
    return repeated


def members(text: str | bytes) -> Counter[str]:
    """Return the members of a JSON object that are not null, by key, each as often as it is there.

    Empty where the text is no JSON object.
    """
    return Counter(key for key, is_value in keys_of(text) if is_value)


def repeated_keys(keys: Iterable[str]) -> set[str]:
    """Return the keys that are there twice, as members with null may be, too."""
    return {key for key, times in Counter(keys).items() if times > 1}


def keys_of(text: str | bytes) -> list[tuple[str, bool]]:
    """Return the keys of a JSON object in their order, each with whether its value is any but null.

    Empty where the text is no JSON object. Bytes that are no UTF-8 are read as the quarantine shows them.
    """
    readable = text if isinstance(text, str) else text.decode("utf-8", "replace")
    try:
        # Numbers stay text: Python refuses integers of more than 4,300 digits.
        pairs = json.loads(readable, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
    except ValueError:
        return []
    except RecursionError:
        # Nested deeper than Python's own reader goes.
        found = object_of(readable)
        return [] if isinstance(found, str) else [(key, v.kind != "null") for key, _, v in found.content]
    return [(key, value is not None) for key, value in pairs] if isinstance(pairs, _Pairs) else []


class _Pairs(list[tuple[str, Any]]):
    """An object's members in their order, also those of one key."""
