"""Check the SQL of a query over a stream when it is declared: what a stream cannot do, and casts that fail.

A query that returns SQL is read here, as it loads; one that returns a frame has no text, and is judged by
``runtime.query_checks`` from Spark's plan at the table's first run, in the same words.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types

from medallion_assets.declare.query_messages import (
    FILE_NAMES,
    grouped_stream,
    may_fail,
    name_of_file,
    sorted_stream,
    stream_of,
    strict_cast,
    window_function,
)
from medallion_assets.declare.table import Table

DIALECT = "databricks"
"""In which CAST is strict, as in Spark's ANSI mode."""

WINDOW = "__medallion_window"
"""Stands for ``window``, which sqlglot takes for the WINDOW clause after GROUP BY."""


def problems_of(table: Table) -> list[str]:
    """Return what the SQL of a query cannot ask of its stream; nothing for a query that is no SQL."""
    tree = _parsed(table)
    if tree is None or table.once:
        return []
    return list(filter(None, (*_sorts(tree, table), *_groups(tree, table), *_file_names(tree, table))))


def warnings_of(table: Table) -> tuple[str, ...]:
    """Return what the SQL of a query does to records that a person may not expect."""
    tree = _parsed(table)
    if tree is None:
        return ()
    warnings = (*_strict_casts(tree, _declared_types(table)), *_window_functions(tree, table))
    return tuple(dict.fromkeys(filter(None, warnings)))


def _parsed(table: Table) -> Any:
    """Return the tree of a query's SQL; None where there is none, or none that can be read."""
    text = _sql_of(table)
    if text is None:
        return None
    try:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
        for at in reversed(range(len(tokens))):
            # WINDOW name AS (...) is the clause, everything else the function or its column.
            if tokens[at].token_type == TokenType.WINDOW and _words(tokens, at + 2, 2) != ["AS", "("]:
                text = f"{text[: tokens[at].start]}{WINDOW}{text[tokens[at].end + 1 :]}"
        return sqlglot.parse_one(text, dialect=DIALECT)
    except SqlglotError:
        # Spark may know more SQL than sqlglot: the first run judges it.
        return None


def _words(tokens: Sequence[Any], start: int, count: int) -> list[str]:
    return [token.text.upper() for token in tokens[start : start + count]]


class _NoFrame:
    """Stands in for a frame where only the text a query returns is wanted."""


def _sql_of(table: Table) -> str | None:
    """Return the SQL a query returns; None for one that returns a frame, or needs one to make its SQL."""
    if not _returns_text(table.query):
        return None
    try:
        answer = table.query(**{name: _NoFrame() for name, read in table.reads if not read.asked_by})
    except Exception:
        return None
    return answer if isinstance(answer, str) else None


def _returns_text(query: Any) -> bool:
    annotation = inspect.signature(query).return_annotation
    if annotation is str or str in get_args(annotation):
        return True
    try:
        (function,) = ast.parse(textwrap.dedent(inspect.getsource(query))).body
    except (OSError, SyntaxError, ValueError):
        return False
    returns = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    return any(isinstance(value, (ast.Constant, ast.JoinedStr)) for value in returns)


def _stream_names(tree: exp.Expression, table: Table) -> set[str]:
    """Return the names under which a query's parts read the stream: its own, and those of WITH."""
    names = {stream_of(table).lower()}
    for cte in tree.find_all(exp.CTE):
        if _reads(cte, names):
            names.add(cte.alias.lower())
    return names


def _reads(node: exp.Expression, names: set[str]) -> bool:
    return any(found.name.lower() in names for found in node.find_all(exp.Table))


def _streamed(tree: exp.Expression, table: Table) -> Iterator[exp.Select]:
    """Return the SELECTs that read the stream in FROM or a join."""
    names = _stream_names(tree, table)
    for select in tree.find_all(exp.Select):
        sources = [part for part in select.args.values() if isinstance(part, exp.From)]
        if any(_reads(part, names) for part in (*sources, *(select.args.get("joins") or ()))):
            yield select


def _sorts(tree: exp.Expression, table: Table) -> Iterator[str]:
    names = _stream_names(tree, table)
    unions = [union for union in tree.find_all(exp.SetOperation) if _reads(union, names)]
    for part in (*_streamed(tree, table), *unions):
        if order := part.args.get("order"):
            yield sorted_stream(table, ", ".join(each.sql(DIALECT) for each in order.expressions))


def _groups(tree: exp.Expression, table: Table) -> Iterator[str]:
    selects = list(_streamed(tree, table))
    columns = {c.alias_or_name.lower() for s in selects for c in s.expressions if _has_window(c)}
    for select in selects:
        group = select.args.get("group")
        if group is None and not any(_is_aggregate(column) for column in select.expressions):
            continue
        keys = group.expressions if group else []
        keys = [_of_number(key, select) for key in keys]
        if group and group.args.get("all"):
            keys += [column for column in select.expressions if not _is_aggregate(column)]
        named = {part.name.lower() for key in keys for part in key.find_all(exp.Identifier)}
        yield grouped_stream(table, named, bool(named & columns) or any(map(_has_window, keys)))


def _file_names(tree: exp.Expression, table: Table) -> Iterator[str]:
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() in FILE_NAMES:
            yield name_of_file(table, f"{call.name.lower()}()")
    for column in tree.find_all(exp.Column):
        if "_metadata" in [part.name.lower() for part in column.parts]:
            yield name_of_file(table, column.sql(DIALECT))


def _of_number(key: exp.Expression, select: exp.Select) -> exp.Expression:
    """Return the column a key is, where it is the number of one."""
    number = int(key.name) if isinstance(key, exp.Literal) and key.name.isdigit() else 0
    return select.expressions[number - 1] if 0 < number <= len(select.expressions) else key


def _has_window(column: exp.Expression) -> bool:
    named = (call.name.lower() for call in column.find_all(exp.Anonymous))
    return any(name in (WINDOW, "session_window") for name in named)


def _is_aggregate(column: exp.Expression) -> bool:
    """Return true for a column with an aggregate of its own: not one OVER rows, and not a subquery's."""
    return any(_is_of(column, found) for found in column.find_all(exp.AggFunc))


def _is_of(column: exp.Expression, found: Any) -> bool:
    while found is not column:
        found = found.parent
        if isinstance(found, (exp.Window, exp.Select)):
            return False
    return True


def _window_functions(tree: exp.Expression, table: Table) -> Iterator[str]:
    for select in _streamed(tree, table):
        for over in select.find_all(exp.Window):
            if over.find_ancestor(exp.Select) is select:
                nulls = isinstance(over.this, (exp.IgnoreNulls, exp.RespectNulls))
                function = over.this.this if nulls else over.this
                # The WINDOW clause's own definitions have a name in the place of a function.
                if isinstance(function, exp.Func):
                    known = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
                    yield window_function(table, known.lower())


def _declared_types(table: Table) -> dict[str, str]:
    """Return the types of the stream's columns as far as a declaration says them."""
    read = next(read for _, read in table.reads if read.how in ("stream", "files"))
    schema = read.source.schema if read.source else read.table.layout.schema if read.table else ""
    try:
        columns = sqlglot.parse_one(f"CREATE TABLE t ({schema})", dialect=DIALECT) if schema else None
    except SqlglotError:
        columns = None
    found = columns.find_all(exp.ColumnDef) if columns else ()
    return {column.name.lower(): column.kind.this.name for column in found if column.kind}


def _strict_casts(tree: exp.Expression, types: dict[str, str]) -> Iterator[str]:
    for column in tree.find_all(exp.Column):
        if (kind := types.get(column.name.lower())) in exp.DataType.Type.__members__:
            column.type = exp.DataType.build(exp.DataType.Type[kind])  # type: ignore[index]
    for cast in tree.find_all(exp.Cast):
        if isinstance(cast, exp.TryCast) or isinstance(cast.this, exp.Literal):
            continue
        of = cast.this.type or annotate_types(cast.this.copy(), dialect=DIALECT).type
        name = of.this.name if isinstance(of, exp.DataType) else "UNKNOWN"
        if may_fail(name, cast.to.this.name):
            yield strict_cast(cast.sql(DIALECT), cast.to.sql(DIALECT))
