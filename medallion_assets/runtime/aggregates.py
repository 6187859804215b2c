"""Bring an incremental aggregate up to date: merge its groups, recompute some of them, or rewrite all.

Only ``groupBy(...).agg(...)`` as a query's last step is taken apart; everything else is recomputed for
the keys that changed.

``merged``: the batch's own aggregate joins the groups that are there. ``recomputed``: the groups the batch
touches are aggregated again from upstream, where a function cannot be merged or rows went upstream.
``rewritten``: the whole, where the groups have no names, or where a row changes groups that are not its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.layout import laid_out
from medallion_assets.declare.table import Table
from medallion_assets.delta import changes, log
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction, append, upsert
from medallion_assets.delta.names import of_keys, quoted
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version
from medallion_assets.quality.derive import derived
from medallion_assets.quarantine.poison import sound
from medallion_assets.runtime.query_checks import STREAM, reaches_others
from medallion_assets.runtime.recompute import with_gone
from medallion_assets.runtime.write import Prepared, joining
from medallion_assets.session.frames import each, of_plan, persisted

PARTIAL = "_partial_"
"""Columns a mean is merged from: its sum and its count stand beside it."""

MERGED = {
    "Sum": "CASE WHEN t.{c} IS NULL THEN n.{c} WHEN n.{c} IS NULL THEN t.{c} ELSE t.{c} + n.{c} END",
    "Count": "t.{c} + n.{c}",
    "CountIf": "t.{c} + n.{c}",
    "Min": "least(t.{c}, n.{c})",
    "Max": "greatest(t.{c}, n.{c})",
    "BoolAnd": "least(t.{c}, n.{c})",
    "BoolOr": "greatest(t.{c}, n.{c})",
    "HllSketchAgg": "hll_union(t.{c}, n.{c})",
}
"""By Spark's name of a function: how a new value (``n``) joins the one in the table (``t``)."""


@dataclass(frozen=True)
class Part:
    """One output column: its function by Spark's name, and for a mean the expression it is of."""

    name: str
    function: str
    of: Any = None


@dataclass(frozen=True)
class Aggregate:
    """A query's aggregate.

    Attributes:
        keys: Output columns that name a group.
        parts: Its other columns.
        not_mergeable: Why it has to be recomputed for changed keys; empty where it can be merged.
        reaches_others: Why a row may change groups that it is not in; empty where it cannot.
        plan: Spark's plan of it.
    """

    keys: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    not_mergeable: str = ""
    reaches_others: str = ""
    plan: Any = None


def aggregate_of(answer: DataFrame, declared_keys: Sequence[str]) -> Aggregate:
    """Return what the last step of a query over the stream (``STREAM``) is, as far as it can be merged."""
    plan = answer._jdf.queryExecution().analyzed()
    if why := reaches_others(answer):
        return Aggregate(tuple(declared_keys), (), reaches_others=why)
    if plan.nodeName() != "Aggregate":
        why = f"the query ends in {plan.nodeName()}, not in groupBy(...).agg(...)"
        return Aggregate(tuple(declared_keys), (), why)
    groups = {e.semanticHash() for e in each(plan.groupingExpressions())}
    keys, parts = [], []
    for column in each(plan.aggregateExpressions()):
        inner = column.child() if column.nodeName() == "Alias" else column
        if inner.semanticHash() in groups:
            keys.append(column.name())
        else:
            parts.append(_part(column.name(), inner))
    whys = [f"{p.name} is {p.function}" for p in parts if p.function not in (*MERGED, "Average")]
    why = f"{', '.join(whys)}, which cannot be merged" if whys else ""
    return Aggregate(tuple(keys), tuple(parts), why, plan=plan)


def with_partials(answer: DataFrame, found: Aggregate) -> DataFrame:
    """Return the answer with the sum and count of each mean beside it."""
    means = [p for p in found.parts if p.function == "Average"]
    if not means:
        return answer
    jvm: Any = answer.sparkSession._jvm
    as_column = jvm.org.apache.spark.sql.classic.ExpressionUtils.column
    below = of_plan(found.plan.child(), answer.sparkSession)
    groups = [_column(as_column(e)) for e in each(found.plan.groupingExpressions())]
    columns = [_column(as_column(e)) for e in each(found.plan.aggregateExpressions())]
    wanted = [c for c, name in zip(columns, answer.columns, strict=True) if name not in found.keys]
    extra = [c for p in means for c in _sum_and_count(p, _column(as_column(p.of)))]
    named = [c.alias(f"_group_{i}") for i, c in enumerate(groups)]
    made = below.groupBy(*named).agg(*wanted, *extra)
    order = [e.semanticHash() for e in each(found.plan.groupingExpressions())]
    return made.select(*_in_order(answer, found, order), *_partial_names(means))


def merged_as(found: Aggregate) -> dict[str, str]:
    """Return, for each column, the SQL that joins a new value (``n``) with the one in the table (``t``)."""
    merges = {
        p.name: MERGED[p.function].format(c=quoted(p.name)) for p in found.parts if p.function in MERGED
    }
    for part in found.parts:
        if part.function == "Average":
            merges |= _merged_mean(part)
    return merges


def _merged_mean(part: Part) -> dict[str, str]:
    name = part.name
    total, count = (quoted(f"{PARTIAL}{what}_{name}") for what in ("sum", "count"))
    added = MERGED["Sum"].format(c=total)
    exact = f"CAST({added} AS DOUBLE)" if _of_integers(part) else f"({added})"
    return {
        f"{PARTIAL}sum_{name}": added,
        f"{PARTIAL}count_{name}": f"t.{count} + n.{count}",
        name: f"{exact} / nullif(t.{count} + n.{count}, 0)",
    }


def _part(name: str, inner: Any) -> Part:
    if inner.nodeName() != "AggregateExpression":
        return Part(name, "an expression over aggregates")
    function = inner.aggregateFunction()
    kind = str(function.getClass().getSimpleName())
    if inner.isDistinct():
        return Part(name, f"{kind} of distinct values")
    if kind == "Average" and inner.filter().isDefined():
        return Part(name, "a mean with a filter")
    if kind in ("Sum", "Average") and _rounds(kind, function.child().dataType()):
        return Part(name, f"{kind} of {function.child().dataType().sql()}")
    return Part(name, kind, function.child() if kind == "Average" else None)


def _rounds(kind: str, of: Any) -> bool:
    """Return true where ``+`` or ``/`` of sums keeps fewer decimal places than Spark's SUM or AVG has.

    A sum has ten digits more than its values, 38 at most; for the digit that ``+`` adds, and the 21 places
    that ``/`` by a BIGINT has, Spark takes decimal places away, down to 6 (its ``adjustPrecisionScale``).
    """
    if not of.typeName().startswith("decimal"):
        return False
    precision, scale = of.precision(), of.scale()
    return bool(precision > 27 and scale > 6) or (kind == "Average" and precision > 24)


def _of_integers(part: Part) -> bool:
    return part.of.dataType().typeName() in ("byte", "short", "integer", "long")


def _sum_and_count(part: Part, of: Column) -> list[Column]:
    # Spark takes the mean of integers in DOUBLE: its sum may be beyond BIGINT.
    summed = of.cast("decimal(38,0)") if _of_integers(part) else of
    return [
        F.sum(summed).alias(f"{PARTIAL}sum_{part.name}"),
        F.count(of).alias(f"{PARTIAL}count_{part.name}"),
    ]


def _partial_names(means: Sequence[Part]) -> list[str]:
    return [f"{PARTIAL}{what}_{p.name}" for p in means for what in ("sum", "count")]


def _in_order(answer: DataFrame, found: Aggregate, order: list[int]) -> Iterator[Column]:
    for column in each(found.plan.aggregateExpressions()):
        inner = column.child() if column.nodeName() == "Alias" else column
        is_key = column.name() in found.keys
        name = f"_group_{order.index(inner.semanticHash())}" if is_key else column.name()
        yield F.col(quoted(name)).alias(column.name())


def _column(found: Any) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(found)


WENT = "rows were taken away or changed upstream"


def prepare_incremental(
    rows: DataFrame, table: Table, lake: Lake, static_versions: dict[str, int], versions: VersionRange
) -> Prepared:
    """Return how the aggregate is brought up to the end of the versions: which way, why so, and the write.

    Args:
        rows: The changes of the versions, with ``CHANGE_COLUMNS``.
        table: The table.
        lake: Where it is.
        static_versions: Versions of its static inputs.
        versions: The upstream versions of the batch.
    """
    new = derived(changes.added(rows).alias(STREAM), table, lake, static_versions)
    found = aggregate_of(new, table.unique_by)
    why = found.reaches_others or found.not_mergeable
    if not found.reaches_others and not changes.only_appends(lake.upstream_log(table), versions):
        why = WENT
    there = log.exists(lake.path(table))
    if not why and not (versions.after < 0 and there):
        partials = _computed(with_partials(new, found))
        merge = partial(_merge, partials, found, table)
        return Prepared({}, "merged: each function joins the groups that are there", merge, (partials,))
    whole = _whole(rows.sparkSession, table, lake, static_versions, versions, found)
    if versions.after < 0 or not there or found.reaches_others or not (found.keys or found.plan):
        why = why or "all of upstream is taken"
        return Prepared({}, f"rewritten: {why}", partial(_rewrite, _computed(whole), table), (whole,))
    gone = derived(changes.removed(rows), table, lake, static_versions)
    touched = new.select(*found.keys).union(gone.select(*found.keys)).distinct()
    groups = _computed(of_keys(whole, touched) if found.keys else whole)
    recompute = partial(_recompute, groups, touched, found, table)
    return Prepared({}, f"recomputed for the groups it touches: {why}", recompute, (groups,))


def _computed(rows: DataFrame) -> DataFrame:
    """Return the frame, computed and kept: a row the query fails on shows before anything is written."""
    kept = persisted(rows)
    kept.count()
    return kept


def _merge(
    partials: DataFrame, found: Aggregate, table: Table, target: Lake, transaction: Transaction
) -> None:
    path = target.path(table)
    rows = joining(partials, table, target)
    upsert(rows, path, transaction, found.keys, merged_as(found))


def _rewrite(whole: DataFrame, table: Table, target: Lake, transaction: Transaction) -> None:
    path = target.path(table)
    rows = laid_out(whole, table.layout, path, table.key)
    append(rows, path, transaction, mode="overwrite", keep_schema=table.layout.is_asked_for)


def _recompute(
    groups: DataFrame,
    touched: DataFrame,
    found: Aggregate,
    table: Table,
    target: Lake,
    transaction: Transaction,
) -> None:
    path = target.path(table)
    groups = joining(groups, table, target)
    rows = with_gone(groups, touched, path, found.keys) if found.keys else groups
    upsert(rows, path, transaction, found.keys)


def _whole(
    spark: SparkSession,
    table: Table,
    lake: Lake,
    static_versions: dict[str, int],
    versions: VersionRange,
    found: Aggregate,
) -> DataFrame:
    """Return the aggregate over all of upstream; Spark reads no more of it than the groups asked for."""
    rows = sound(at_version(spark, lake.upstream_log(table), versions.upto), spark, lake.quarantine(table))
    answer = derived(rows, table, lake, static_versions)
    return with_partials(answer, aggregate_of(answer, found.keys)) if found.plan else answer
