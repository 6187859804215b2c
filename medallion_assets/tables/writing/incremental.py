"""An aggregate at the cost of what is new: the same rows complete mode gives, by the cheapest sound way.

``merged``: the batch's own aggregate joins the groups that stand. ``remade``: the groups the batch
touches are aggregated anew from upstream, where a function cannot be merged or rows went upstream.
``rewritten``: the whole, where the groups have no names.
"""

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.delta import changes, log
from medallion_assets.delta.changes import Span
from medallion_assets.delta.commit import Stamp, append
from medallion_assets.delta.keys import of_keys
from medallion_assets.delta.merge import upsert
from medallion_assets.tables.declaration.layout import laid_out
from medallion_assets.tables.declaration.table import Table
from medallion_assets.tables.judgement.derive import derived
from medallion_assets.tables.quarantine.held_poison import sound
from medallion_assets.tables.standing.lake import Lake
from medallion_assets.tables.standing.pins import at_version
from medallion_assets.tables.writing.aggregates import Aggregate, aggregate_of, merged_as, with_partials
from medallion_assets.tables.writing.correct import with_gone

WENT = "rows were taken away or changed upstream"


def write_incremental(
    rows: DataFrame, table: Table, lake: Lake, pins: dict[str, int], span: Span, stamp: Stamp
) -> str:
    """Brings the aggregate up to the span's end; gives which way it went and why.

    Args:
        rows: The span's changes, with ``CHANGE_COLUMNS``.
        table: The table.
        lake: Where it is.
        pins: Versions of its static inputs.
        span: The upstream versions of the batch.
        stamp: Who writes.
    """
    path = lake.path(table)
    new = derived(changes.added(rows), table, lake, pins)
    found = aggregate_of(new, table.unique_by)
    why = found.not_mergeable
    if not changes.only_appends(lake.upstream_log(table), span):
        why = WENT
    anew = span.after < 0 and log.exists(path)
    if not why and not anew:
        upsert(
            laid_out(with_partials(new, found), table.layout, path, table.key),
            path,
            stamp,
            found.keys,
            merged_as(found),
        )
        return "merged: each function joins the groups that stand"
    whole = _whole(rows.sparkSession, table, lake, pins, span, found)
    if span.after < 0 or not log.exists(path) or not (found.keys or found.plan):
        if not stamp.committed_to(path):
            rows = laid_out(whole, table.layout, path, table.key)
            append(rows, path, stamp, mode="overwrite", keep_schema=table.layout.is_asked_for)
        return f"rewritten: {why or 'all of upstream is taken anew'}"
    gone = derived(changes.removed(rows), table, lake, pins)
    touched = new.select(*found.keys).union(gone.select(*found.keys)).distinct()
    _remake(whole, touched, table, lake, stamp, found)
    return f"remade for the groups it touches: {why}"


def _whole(
    spark: SparkSession, table: Table, lake: Lake, pins: dict[str, int], span: Span, found: Aggregate
) -> DataFrame:
    """Gives the aggregate over all of upstream; Spark reads no more of it than the groups asked for."""
    rows = sound(at_version(spark, lake.upstream_log(table), span.upto), spark, lake.quarantine(table))
    answer = derived(rows, table, lake, pins)
    return with_partials(answer, aggregate_of(answer, found.keys)) if found.plan else answer


def _remake(
    whole: DataFrame, touched: DataFrame, table: Table, lake: Lake, stamp: Stamp, found: Aggregate
) -> None:
    path = lake.path(table)
    if stamp.committed_to(path):
        return
    if not found.keys:
        upsert(whole, path, stamp, found.keys)
        return
    rows = of_keys(whole, touched)
    upsert(with_gone(rows, touched, path, found.keys), path, stamp, found.keys)
