"""Which part of a declaration an error comes from: the query, an expectation, the keys or a join."""

import re
import traceback
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from medallion_assets.declare.table import Table


class Context(NamedTuple):
    """A place in the user's code that Spark names: SQL text, or a line of Python."""

    sql: str
    line: str


LIBRARIES = ("/pyspark/", "/py4j/")


def blame(table: Table, error: BaseException) -> str:
    """Return which part of a declaration raised an error, with file and line: ``the query (a.py:7)``.

    Args:
        table: The table.
        error: What a micro-batch raised: by Python while the query was built, or by Spark while it ran.
    """
    line = _line_of_query(table, error)
    if line:
        return f"the query ({line})"
    contexts, name = _contexts(error), _unresolved(error)
    # Before the expectations: a key implies one of its own, that it is not NULL.
    for what, columns in _keys(table):
        if name and name in columns:
            return f"{what} ({table.declared_at})"
    for rule in table.expectations:
        if any(rule.predicate in context.sql for context in contexts):
            return f"the expectation {rule.name}, {rule.predicate} ({table.declared_at}),"
    for context in contexts:
        if context.line and not _is_library(context.line):
            return f"the query ({context.line})"
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
    """Return the line of the user's function that failed in a Python worker; empty for other errors."""
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


def _contexts(error: BaseException) -> list[Context]:
    """Return the places in the user's code that Spark names for an error or one of its causes in Java."""
    if isinstance(error, PySparkException):
        contexts = list(error.getQueryContext())
        return [_context(context, context.contextType().name) for context in contexts]
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    found: list[Context] = []
    while cause is not None and not found:
        with suppress(Py4JError, TypeError):
            found = [
                _context(context, context.contextType().toString()) for context in cause.getQueryContext()
            ]
        cause = cause.getCause()
    return found


def _context(context: Any, kind: str) -> Context:
    """Return the whole SQL text where SQL failed, or ``file:line`` of the DataFrame call that failed."""
    return (
        Context("", str(context.callSite())) if kind == "DataFrame" else Context(str(context.summary()), "")
    )


def _is_library(file: str) -> bool:
    return any(part in file for part in LIBRARIES)
