"""What a column of strings takes of a value that is no string: its text, as it stands in the file.

Spark's ``from_json`` reads numbers and writes them again: 1.10 becomes 1.1, a long fraction loses its
last digits, 1e400 becomes Infinity. Its file reader does not, and neither do we.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from pyspark.sql.types import StringType, StructType

FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
KEPT = (b'"', b"n")
"""How a string begins, and null."""


MISFIT = (msgspec.MsgspecError, ValueError, RecursionError)
"""What readers of a line raise."""


def string_columns(schema: StructType) -> list[str]:
    """Return the names of the columns that take any value as text; nested fields are not among them."""
    return [field.name for field in schema.fields if isinstance(field.dataType, StringType)]


def with_texts(found: Any, columns: Sequence[str]) -> bool:
    """Put strings of their texts in the place of an object's values that are none; says if there were any.

    Raises:
        UnicodeDecodeError: A text is no UTF-8.
    """
    changed = False
    for column in columns:
        value = getattr(found, column)
        if value is not None and not (text := bytes(value)).startswith(KEPT):
            setattr(found, column, msgspec.Raw(msgspec.json.encode(text.decode())))
            changed = True
    return changed


def texts_of(line: bytes, columns: Sequence[str]) -> bytes | None:
    """Return, as a JSON object of strings, the texts of a line's values that are none, None without any."""
    try:
        found = FIELDS.decode(line)
        values = {name: bytes(found[name]) for name in columns if name in found}
        texts = {name: text.decode() for name, text in values.items() if not text.startswith(KEPT)}
        if texts:
            refuse_repeated_keys(line)
    except MISFIT:
        return None
    return msgspec.json.encode(texts) if texts else None


def refuse_repeated_keys(line: bytes) -> None:
    """Raise where an object of the line has a key twice, or where that cannot be told.

    Raises:
        ValueError: It has, or is no JSON to Python.
        RecursionError: It is nested beyond Python's stack.
    """
    json.loads(line, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
