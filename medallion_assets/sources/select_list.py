"""COPY INTO's select list: SQL columns; a record that an expression fails on is refused, the others load.

In Spark's ANSI mode, one invalid value fails the whole load. Here each expression is evaluated with the same
rules, inside ``TryEval``, which catches the error of a single record.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlglot
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.classic.column import Column as ClassicColumn
from sqlglot import exp
from sqlglot.errors import SqlglotError

from medallion_assets.delta.names import quoted
from medallion_assets.sources.errors import MOST_FILES, SourceError, first_line, some_of
from medallion_assets.sources.evolution import is_column
from medallion_assets.sources.quarantine import (
    CANNOT_EVALUATE,
    ENTRY,
    FILE_PATH,
    FROM_JSON,
    NO_FIT,
    OF_REFUSED,
    as_json,
)
from medallion_assets.sources.row_json import row_json

if TYPE_CHECKING:
    from medallion_assets.sources.options import Source

DIALECT = "databricks"
ANSI = "spark.sql.ansi.enabled"
FILE_NAME = re.compile(r"\binput_file_(name|block_\w+)\s*\(", re.IGNORECASE)
NAME_ALONE = re.compile(r"`(?:[^`]|``)+`|[A-Za-z_]\w*", re.ASCII)
LONGEST_TEXT = 300
"""The largest number of characters of an expression in a reason."""

PROVENANCE = (*OF_REFUSED, "_source_file", "_source_modified_at", ENTRY)
SEVERAL_ROWS = (exp.Explode, exp.Inline, exp.Stack, exp.UDTF)
SEVERAL_RECORDS = (exp.AggFunc, exp.Window, exp.Query)


def select_problems(source: "Source") -> list[str]:
    """Return the problems of a select list that can be found without Spark."""
    problems, names = [], []
    for text in source.select:
        try:
            expression = sqlglot.parse_one(text, dialect=DIALECT)
        except SqlglotError as error:
            problems.append(f"select column {text!r} is not SQL: {first_line(error)}")
            continue
        problems += _expression_problems(text, expression)
        if not isinstance(expression, exp.Star):
            names.append(_name(expression))
            problems += _name_problems(text, names[-1], source.rescued)
    repeated = {name for name in names if name and [n.lower() for n in names].count(name.lower()) > 1}
    return [*problems, *(f"two select columns are called {name!r}" for name in sorted(repeated))]


def _expression_problems(text: str, expression: exp.Expr) -> Iterator[str]:
    if expression.find(*SEVERAL_ROWS):
        yield (
            f"select column {text!r} makes several rows, or none, of a record, and a load accounts for each "
            "record; load the array as it is and explode it in a silver table's query or by create_table_as"
        )
    elif expression.find(*SEVERAL_RECORDS):
        yield (
            f"select column {text!r} reads more than its own record; a select list is evaluated record by "
            "record: compute it in a table's query or in create_table_as"
        )
    if FILE_NAME.search(text):
        yield f"select column {text!r}: use _metadata.file_path or _metadata.file_name for the record's file"


def _name_problems(text: str, name: str, rescued: str) -> Iterator[str]:
    if not name:
        yield f"select column {text!r} has no name: write {text} AS a_name"
    elif name != rescued and not is_column(name):
        yield (
            f"select column {text!r}: no column can be called {name!r}, a name that the engine, Delta or "
            "the table gives a meaning of its own; choose another with AS"
        )


def _name(expression: exp.Expr) -> str:
    """Return the column's name as Spark would give it, empty for a generated name."""
    inner = expression
    while isinstance(inner, exp.Cast):
        inner = inner.this
    return expression.alias or (inner.name if isinstance(inner, (exp.Column, exp.Dot)) else "")


def selected(records: DataFrame, source: "Source") -> DataFrame:
    """Return the records with the list's columns; a record an expression fails on has a ``_reason``.

    Args:
        records: The columns of ``reading``.
        source: Has the list. ``*`` is every column of the files; ``_metadata`` has ``file_path``,
            ``file_name`` and ``file_modification_time``.

    Raises:
        SourceError: Spark cannot resolve an expression, or two columns have one name.
    """
    own = [c for c in records.columns if c not in (*PROVENANCE, source.rescued)]
    columns = _columns(source, own)
    tries = "_tries" + "_" * sum(name.startswith("_tries") for name in own)
    tried = _tried(_with_metadata(records, source.select), columns, tries)
    values, failures = [], []
    for (name, text), field in zip(columns, tried.schema[tries].dataType.fields, strict=True):  # type: ignore[attr-defined]
        attempt = F.col(tries)[field.name]
        values.append(attempt.getField(field.dataType.names[0]).alias(name))
        failures.append(F.when(attempt.isNull(), F.lit(f"{CANNOT_EVALUATE}{text[:LONGEST_TEXT]}")))
    failed = F.concat_ws("; ", *failures)
    reason = F.coalesce("_reason", F.when(failed != "", F.concat(F.lit(f"{NO_FIT}: "), failed)))
    raw = F.coalesce(
        "_raw", F.when(reason.isNotNull(), record_text(records.select(*map(quoted, own)), source.rescued))
    )
    rescued = [source.rescued] if source.rescued else []
    origin = [name for name in PROVENANCE[2:] if name in records.columns]
    return tried.select(*values, *rescued, raw.alias("_raw"), reason.alias("_reason"), *origin)


def record_text(own_columns: DataFrame, rescued: str, file_column: str = "_source_file") -> Column:
    """Return a record whose text is not kept as one JSON object: its columns, and what none of them took."""
    values = {name: F.col(quoted(name)) for name in own_columns.columns}
    own = row_json(values, own_columns.schema, FROM_JSON) if values else F.lit("{}")
    if not rescued:
        return own
    end = F.length(F.concat(F.lit("," + FILE_PATH), as_json(F.col(file_column)), F.lit("}")))
    others = F.substring(rescued, F.lit(2), F.length(rescued) - F.lit(1) - end)
    inside = F.nullif(F.substring(own, F.lit(2), F.length(own) - F.lit(2)), F.lit(""))
    whole = F.concat(F.lit("{"), F.concat_ws(",", inside, others), F.lit("}"))
    return F.when(F.col(rescued).isNull(), own).otherwise(whole)


def _columns(source: "Source", own: Sequence[str]) -> list[tuple[str, str]]:
    """Return name and SQL of each column, ``*`` expanded, without the rescued data."""
    columns = []
    for text in source.select:
        expression = sqlglot.parse_one(text, dialect=DIALECT)
        if isinstance(expression, exp.Star):
            but = {e.name.lower() for e in expression.args.get("except_") or ()}
            columns += [(name, quoted(name)) for name in own if name.lower() not in but]
        elif (name := _name(expression)) != source.rescued:
            columns.append((name, text))
    lower = [name.lower() for name, _ in columns]
    repeated = sorted({name for name in lower if lower.count(name) > 1})
    if repeated:
        raise SourceError(
            f"source {source.name!r}: the select list has two columns {', '.join(repeated)}; leave one out "
            "with * EXCEPT (...) or rename it with AS. Nothing was written."
        )
    return columns


def _tried(records: DataFrame, columns: Sequence[tuple[str, str]], into: str) -> DataFrame:
    """Return the records with a struct ``into``: each column's value in a struct, NULL where it fails."""
    spark = records.sparkSession
    with _strict(spark):
        try:
            attempts = [_attempt(spark, text).alias(str(i)) for i, (_, text) in enumerate(columns)]
            return records.select("*", F.struct(*attempts).alias(into))
        except AnalysisException:
            for name, text in columns:
                _refuse_unresolved(records, name, text)
            raise


def _attempt(spark: SparkSession, text: str) -> Column:
    """Return a struct of the expression's value, NULL for a record on which it throws.

    A name alone cannot throw. Another expression is put inside a lambda: Spark computes an expression that
    two columns share once, before both of them and outside ``TryEval``, and does not look for such
    expressions in lambdas.
    """
    if NAME_ALONE.fullmatch(text.strip()):
        return F.expr(f"struct({text})")
    jvm: Any = spark._jvm
    classic = jvm.org.apache.spark.sql.classic.ExpressionUtils
    # Under a condition: the optimizer evaluates constants (split('a', '-')[1]) before any record is read
    # and ends the query where one fails; and on a line of its own: the text may end in a comment.
    guarded = f"IF(`_no_name_` = 0, struct({text}\n), NULL)"
    value: Any = F.expr(f"transform(array(0), `_no_name_` -> {guarded})[0]")
    tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(classic.expression(value._jc))
    return ClassicColumn(classic.column(tried))


def _refuse_unresolved(records: DataFrame, name: str, text: str) -> None:
    try:
        records.select(_attempt(records.sparkSession, text))
    except AnalysisException as error:
        files = [row[0] for row in records.select("_source_file").distinct().limit(MOST_FILES + 1).collect()]
        own = ", ".join(sorted({*records.columns} - {*PROVENANCE, "_metadata"}))
        words = first_line(error).partition(" Did you mean")[0].partition(" SQLSTATE")[0]
        raise SourceError(
            f"select column {name!r}, {text}, cannot be resolved: {words} The files of this batch, "
            f"{some_of(files)}, have the columns {own}. Nothing was read or written, and the files wait for "
            "the next call: take the column out, load these files with FILES and a SELECT of their own, or "
            "name the column and its type in schema_hints, which makes it NULL where a file lacks it."
        ) from error


@contextmanager
def _strict(spark: SparkSession) -> Iterator[None]:
    """Resolve expressions by ANSI rules in the block; without them, invalid values become NULL silently."""
    before = spark.conf.get(ANSI) or "true"
    spark.conf.set(ANSI, "true")
    try:
        yield
    finally:
        spark.conf.set(ANSI, before)


def _with_metadata(records: DataFrame, select: Sequence[str]) -> DataFrame:
    if not any("_metadata" in text for text in select):
        return records
    path = F.col("_source_file")
    facts = F.struct(
        path.alias("file_path"),
        F.element_at(F.split(path, "/"), -1).alias("file_name"),
        F.col("_source_modified_at").alias("file_modification_time"),
    )
    return records.withColumn("_metadata", facts)


QUOTES = "`'\""
"""Quotes of names. A doubled quote inside a quoted name closes it and opens it again."""


def split_columns(ddl: str) -> list[str]:
    """Return the columns of a DDL list: its text cut at the outer commas, those in quotes left alone."""
    parts, depth, quote = [""], 0, ""
    for mark in ddl:
        if mark in QUOTES and quote in ("", mark):
            quote = "" if quote else mark
        elif not quote:
            depth += (mark in "<(") - (mark in ">)")
        if mark == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += mark
    return [part for part in parts if part.strip()]
