"""Check Spark's plan of a query at the table's first run, before any row is read.

These checks are for queries that return a frame: they have no SQL text to check when they are declared. The
messages are those of ``declare.query_messages``.
"""

import logging
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.errors import QueryRefused
from medallion_assets.declare.query_messages import (
    FILE_NAMES,
    grouped_stream,
    may_fail,
    name_of_file,
    sliding_windows,
    sorted_stream,
    stream_of,
    strict_cast,
    window_function,
)
from medallion_assets.declare.table import SOURCE_ROW, Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import read_json, write_json
from medallion_assets.lake.code_version import code_version, committed_code
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version
from medallion_assets.session.frames import each

STREAM = "__medallion_stream"
"""The alias of the stream in a plan."""

WINDOWS = ("spark.timeWindow", "spark.sessionWindow")
"""Keys that Spark writes into the metadata of a window's column."""

NAMES = {"STRING": "TEXT", "INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT"}
"""Types by the names of ``query_messages.may_fail``, where Spark's are others."""

FILE = "query_warnings.json"


def refuse_unsound_query(rows: DataFrame, table: Table, lake: Lake) -> None:
    """Check the plan of a query that has not written its table yet in its present form.

    Args:
        rows: Upstream's columns; no row of them is read.
        table: The table.
        lake: Where its static inputs are.

    Raises:
        QueryRefused: The query cannot give what its table declares; nothing was written.
    """
    if table.once or (log.exists(lake.path(table)) and committed_code(table, lake) == code_version(table)):
        return
    plan = _plan(rows, table, lake)
    if plan is None:
        return
    for problem in filter(None, _problems(plan, table)):
        raise QueryRefused(f"{table.declared_at}: {table.key}: {problem}. Nothing was written.")
    messages = sorted({*_strict_casts(plan), *_window_functions(plan, table)} - {*table.query_warnings, ""})
    for words in messages:
        logging.getLogger(__name__).warning("%s: %s: %s", table.declared_at, table.key, words)
    if messages or lake.state(table, FILE).exists():
        write_json(lake.state(table, FILE), {"told": messages})


def query_warnings(table: Table, lake: Lake) -> list[str]:
    """Return the warnings about a table's query, from its declaration and from its last checked plan."""
    noted = read_json(lake.state(table, FILE)) or {"told": ()}
    return [*table.query_warnings, *noted["told"]]


def _plan(rows: DataFrame, table: Table, lake: Lake) -> Any:
    """Return the analyzed plan of a query; None where the query fails, which its run reports."""
    source = rows.withColumn(SOURCE_ROW, F.lit("")) if table.rows_out == "many" else rows
    frames = {stream_of(table): source.alias(STREAM)}
    try:
        for name, read in table.reads:
            if read.how == "static" and read.table and not read.asked_by:
                path = lake.path(read.table)
                frames[name] = at_version(rows.sparkSession, path, log.opened(path).version())
        return table(**frames)._jdf.queryExecution().analyzed()
    except Exception:
        return None


def _problems(plan: Any, table: Table) -> Iterator[str]:
    for node in over_stream(plan):
        if node.nodeName() == "Sort" and getattr(node, "global")():
            by = ", ".join(_text(order.child()) for order in each(node.order()))
            yield sorted_stream(table, by)
        elif node.nodeName() == "Aggregate":
            columns = [c for e in each(node.groupingExpressions()) for c in each(e.references().toSeq())]
            windows = any(column.metadata().contains(word) for column in columns for word in WINDOWS)
            yield grouped_stream(table, {column.name().lower() for column in columns}, windows)
        elif node.nodeName() == "Filter" and _gives_windows(node.child()):
            # Of a size that is no multiple of the slide Spark makes one window too many, and filters.
            always = node.condition().nodeName() == "IsNotNull"
            yield sliding_windows(table, node.child().projections().size(), always)
        # Each of these asks is a call to Java; a query over a table may name the table's files.
        if table.source:
            if any(column.name() == "_metadata" for column in each(node.references().toSeq())):
                yield name_of_file(table, "_metadata")
            for expression in each(node.expressions()):
                yield from (name_of_file(table, f"{name}()") for name in _file_names(expression))


def _file_names(expression: Any) -> Iterator[str]:
    """Return the functions in an expression that name the file a row is read from."""
    if (name := str(expression.prettyName())) in FILE_NAMES:
        yield name
    for child in each(expression.children()):
        yield from _file_names(child)


def _gives_windows(plan: Any) -> bool:
    """Return true for the node that gives a row once for each sliding window it may lie in."""
    return plan.nodeName() == "Expand" and any(a.metadata().contains(WINDOWS[0]) for a in each(plan.output()))


def over_stream(plan: Any) -> list[Any]:
    """Return the nodes of a plan that the rows of the stream (``STREAM``) go through, from the top down.

    Empty where there is no stream in it.
    """
    if plan.nodeName() == "SubqueryAlias" and plan.alias() == STREAM:
        return [plan]
    below = [node for child in each(plan.children()) for node in over_stream(child)]
    return [plan, *below] if below else []


ROW_BY_ROW = {"Project", "Filter", "SubqueryAlias", "Generate", "Expand", "View", "Sort", "Repartition",
              "RepartitionByExpression", "ResolvedHint"}  # fmt: skip
"""Nodes that make of each row of theirs what they make of it alone. So do ``Join`` and ``Union`` at times."""

SIDES = {
    "Inner": 0b11,
    "Cross": 0b11,
    "LeftOuter": 0b01,
    "LeftSemi": 0b01,
    "LeftAnti": 0b01,
    "RightOuter": 0b10,
}
"""By a join's type: whether its left (1) and its right side (2) may be the stream."""


def reaches_others(answer: DataFrame) -> str:
    """Return which step of a query over the stream may let a row change groups it is not in, or none.

    One aggregate over rows that were each made of one row of the stream: of the batch's rows alone it gives
    their groups. Of groups that are grouped again, of distinct rows or of a stream that meets itself it may
    give others.
    """
    optimizer: Any = answer.sparkSession._jvm.org.apache.spark.sql.catalyst.optimizer  # type: ignore[union-attr]
    # A reference to a CTE is a leaf, which does not show that it is over the stream.
    plan = optimizer.InlineCTE(True, False).apply(answer._jdf.queryExecution().analyzed())
    grouped = 0
    for node in over_stream(plan):
        name = node.nodeName()
        grouped += name == "Aggregate"
        alone = name in ROW_BY_ROW or name == "Aggregate" or node.children().isEmpty()
        if name in ("Join", "Union"):
            streams = sum(1 << at for at, child in enumerate(each(node.children())) if over_stream(child))
            whole = (1 << node.children().size()) - 1
            alone = streams == whole if name == "Union" else _meets_all(node, streams)
        if not alone or grouped > 1 or any(over_stream(query) for query in each(node.subqueries())):
            return f"the query has {'a second Aggregate' if grouped > 1 else name} over the stream"
    return ""


def _meets_all(join: Any, streams: int) -> bool:
    """Return true where each row of the stream gives of a join what it gives alone."""
    return streams in (0b00, 0b01, 0b10) and streams & ~SIDES.get(str(join.joinType().toString()), 0) == 0


def _strict_casts(plan: Any) -> Iterator[str]:
    for node in over_stream(plan):
        for expression in each(node.expressions()):
            yield from _casts_in(expression)


def _window_functions(plan: Any, table: Table) -> Iterator[str]:
    for node in over_stream(plan):
        if node.nodeName() == "Window":
            for column in each(node.windowExpressions()):
                function = column.child().windowFunction()
                aggregates = function.nodeName() == "AggregateExpression"
                named = function.aggregateFunction() if aggregates else function
                yield window_function(table, str(named.prettyName()).lower())


def _casts_in(expression: Any) -> Iterator[str]:
    if expression.nodeName() == "Cast" and expression.evalMode().toString() == "ANSI":
        of, to = (_named(each.dataType()) for each in (expression.child(), expression))
        kind = str(expression.dataType().sql())
        if expression.child().nodeName() != "Literal" and may_fail(of, to):
            yield strict_cast(f"CAST({_text(expression.child())} AS {kind})", kind)
    for child in each(expression.children()):
        yield from _casts_in(child)


def _named(kind: Any) -> str:
    name = re.sub(r"\(.*", "", str(kind.typeName())).upper()
    return NAMES.get(name, name)


def _text(expression: Any) -> str:
    return re.sub(r"#\d+L?", "", str(expression.toString()))
