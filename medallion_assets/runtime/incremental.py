"""An aggregate at the cost of what is new: the same rows complete mode gives, by the cheapest sound way.

``merged``: the batch's own aggregate joins the groups that stand. ``recomputed``: the groups the batch
touches are aggregated anew from upstream, where a function cannot be merged or rows went upstream.
``rewritten``: the whole, where the groups have no names.
"""

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.declare.layout import laid_out
from medallion_assets.declare.table import Table
from medallion_assets.delta import changes, log
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.delta.keys import of_keys
from medallion_assets.delta.merge import upsert
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.static_versions import at_version
from medallion_assets.quality.derive import derived
from medallion_assets.quarantine.held_poison import sound
from medallion_assets.runtime.aggregates import Aggregate, aggregate_of, merged_as, with_partials
from medallion_assets.runtime.columns import joining
from medallion_assets.runtime.correct import with_gone

WENT = "rows were taken away or changed upstream"


def write_incremental(
    rows: DataFrame,
    table: Table,
    lake: Lake,
    static_versions: dict[str, int],
    versions: VersionRange,
    transaction: Transaction,
) -> str:
    """Brings the aggregate up to the versions's end; gives which way it went and why.

    Args:
        rows: The versions's changes, with ``CHANGE_COLUMNS``.
        table: The table.
        lake: Where it is.
        static_versions: Versions of its static inputs.
        versions: The upstream versions of the batch.
        transaction: Who writes.
    """
    path = lake.path(table)
    new = derived(changes.added(rows), table, lake, static_versions)
    found = aggregate_of(new, table.unique_by)
    why = found.not_mergeable
    if not changes.only_appends(lake.upstream_log(table), versions):
        why = WENT
    anew = versions.after < 0 and log.exists(path)
    if not why and not anew:
        upsert(
            joining(with_partials(new, found), table, lake),
            path,
            transaction,
            found.keys,
            merged_as(found),
        )
        return "merged: each function joins the groups that stand"
    whole = _whole(rows.sparkSession, table, lake, static_versions, versions, found)
    if versions.after < 0 or not log.exists(path) or not (found.keys or found.plan):
        if not transaction.committed_to(path):
            rows = laid_out(whole, table.layout, path, table.key)
            append(rows, path, transaction, mode="overwrite", keep_schema=table.layout.is_asked_for)
        return f"rewritten: {why or 'all of upstream is taken anew'}"
    gone = derived(changes.removed(rows), table, lake, static_versions)
    touched = new.select(*found.keys).union(gone.select(*found.keys)).distinct()
    _remake(whole, touched, table, lake, transaction, found)
    return f"recomputed for the groups it touches: {why}"


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


def _remake(
    whole: DataFrame, touched: DataFrame, table: Table, lake: Lake, transaction: Transaction, found: Aggregate
) -> None:
    path = lake.path(table)
    if transaction.committed_to(path):
        return
    whole = joining(whole, table, lake)
    if not found.keys:
        upsert(whole, path, transaction, found.keys)
        return
    rows = of_keys(whole, touched)
    upsert(with_gone(rows, touched, path, found.keys), path, transaction, found.keys)
