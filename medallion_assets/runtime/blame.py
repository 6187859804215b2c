"""Which part of a declaration an error comes from: the query, an expectation, the keys or a join."""

import re
import traceback
from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException

from medallion_assets.declare.table import Table

LIBRARIES = ("/pyspark/", "/py4j/")


def blame(table: Table, error: BaseException) -> str:
    """Return which part of the table's declaration raised an error, with file and line: ``the query (a.py:7)``.

    Args:
        table: The table.
        error: What a micro-batch raised: by Python while the query was built, or by Spark while it ran.
    """
    line = _line_of_query(table, error)
    if line:
        return f"the query ({line})"
    contexts = _contexts(error)
    for rule in table.expectations:
        if any(rule.predicate in _summary(context) for context in contexts):
            return f"the expectation {rule.name}, {rule.predicate} ({table.declared_at}),"
    name = _unresolved(error)
    for what, columns in _keys(table):
        if name in columns:
            return f"{what} ({table.declared_at})"
    for context in contexts:
        site = _call_site(context)
        if site and not _is_library(site.rpartition(":")[0]):
            return f"the query ({site})"
    line = _line_of_worker(error)
    if line:
        return f"a Python function of the query ({line})"
    return f"the micro-batch of the query at {table.declared_at}"


def _line_of_query(table: Table, error: BaseException) -> str:
    """Return where the query was when Python raised the error: its own deepest line outside of libraries."""
    inside, line = False, ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        inside = inside or frame.f_code is Table.__call__.__code__
        if not inside or frame.f_code is Table.__call__.__code__:
            continue
        if frame.f_code.co_name == "answered" and not line:
            # A query that is SQL text: Spark says the position in it, Python has no line of its own.
            return table.declared_at
        if _is_library(frame.f_code.co_filename):
            break
        line = f"{frame.f_code.co_filename}:{number}"
    return line


def _line_of_worker(error: BaseException) -> str:
    """Return where a Python worker was when a function of the query raised an error; empty for other errors."""
    files = re.findall(r'File "([^"]+)", line (\d+)', str(error))
    own = [f"{file}:{line}" for file, line in files if not _is_library(file)]
    return own[-1] if own else ""


def _keys(table: Table) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return the parts of a declaration that name columns, with those columns."""
    yield "unique_by", table.unique_by
    yield "unique_over", (table.unique_over,)
    if table.scd:
        yield "scd=keep_changes", (*table.scd.keys, table.scd.sequence_by)
    for name, read in table.reads:
        yield f"the join with {name}", (*read.on, *read.unique_by)
        yield f"the watermark of {name}", (read.event_time,)


def _unresolved(error: BaseException) -> str:
    """Return the column that Spark could not find, empty where that is not the error."""
    named = re.search(r"UNRESOLVED_COLUMN.* with name (`[^\s]+`) cannot be resolved", str(error))
    return named[1].replace("`", "") if named else ""


def _contexts(error: BaseException) -> list[Any]:
    """Return the places in the user's code that Spark names for an error."""
    return list(error.getQueryContext()) if isinstance(error, PySparkException) else []


def _summary(context: Any) -> str:
    """Return a context's text; it holds the whole SQL expression where that is what failed."""
    return str(context.summary()) if context.contextType().name == "SQL" else ""


def _call_site(context: Any) -> str:
    """Return ``file:line`` of the call of the DataFrame API that failed, empty where it was SQL text."""
    return str(context.callSite()) if context.contextType().name == "DataFrame" else ""


def _is_library(file: str) -> bool:
    return any(part in file for part in LIBRARIES)
