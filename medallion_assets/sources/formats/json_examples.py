"""A file of sound JSON lines as one line that holds a value of each type it has, for Spark to infer from.

Spark parses each line twice to infer a schema, which takes four times as long as loading them. Where a
strict reader takes a file as it is, one line tells Spark the same; of types, Spark alone decides.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from medallion_assets.sources.formats.strict_lines import strictly_read
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.opening import SPARK_READS

LARGEST = 256 << 20
"""A file is held in memory, and another beside it."""

AT_ONCE = 2
EXACT = 2.0**53
"""An integer too long for BIGINT comes as a double of more than this; to Spark it is a decimal."""


class Unclear(Exception):
    """Spark might take a value for another type than the strict reader does."""


def examples(files: Sequence[Entry]) -> tuple[list[str], list[Entry]]:
    """Return a line for each file that is told by one, and the files that are not."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        lines = dict(zip(files, threads.map(_example, files), strict=True))
    return [line for line in lines.values() if line], [file for file, line in lines.items() if not line]


def _example(file: Entry) -> str | None:
    path = file.location
    if file.layout != "lines" or path.suffix in SPARK_READS or file.size > LARGEST or not file.records:
        return None
    try:
        rows = strictly_read(path.read_bytes(), file.records)
        return (
            None if rows is None else json.dumps(_object(zip(rows.column_names, rows.columns, strict=True)))
        )
    except (OSError, UnicodeError, Unclear):
        # Whoever reads the file itself says what is wrong with it.
        return None


def _object(columns: Any) -> dict[str, Any]:
    return {name: _value(values) for name, values in columns}


def _value(values: pa.ChunkedArray) -> Any:
    kind = values.type
    if pa.types.is_struct(kind):
        return _object((field.name, pc.struct_field(values, [n])) for n, field in enumerate(kind))
    if pa.types.is_list(kind):
        inner = pc.list_flatten(values)
        return [_value(inner)] if len(inner) else []
    if pa.types.is_floating(kind):
        _refuse_inexact(values)
    return _of_type(kind)


def _refuse_inexact(values: pa.ChunkedArray) -> None:
    largest = pc.max(pc.abs(values)).as_py()
    if largest is not None and not largest < EXACT:
        raise Unclear


def _of_type(kind: pa.DataType) -> Any:
    if pa.types.is_null(kind):
        return None
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_integer(kind):
        return 1
    if pa.types.is_floating(kind):
        return 1.5
    # What looks like a time is a string to Spark.
    if pa.types.is_string(kind) or pa.types.is_temporal(kind):
        return "x"
    raise Unclear
