"""An aggregate at the cost of what is new: the same rows complete mode gives, by the cheapest sound way.

``merged``: the batch's own aggregate joins the groups that stand. ``recomputed``: the groups the batch
touches are aggregated anew from upstream, where a function cannot be merged or rows went upstream.
``rewritten``: the whole, where the groups have no names.
"""

from functools import partial

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
from medallion_assets.runtime.write import Prepared

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
    new = derived(changes.added(rows), table, lake, static_versions)
    found = aggregate_of(new, table.unique_by)
    why = found.not_mergeable
    if not changes.only_appends(lake.upstream_log(table), versions):
        why = WENT
    there = log.exists(lake.path(table))
    if not why and not (versions.after < 0 and there):
        partials = _computed(with_partials(new, found))
        merge = partial(_merge, partials, found, table)
        return Prepared({}, "merged: each function joins the groups that are there", merge, (partials,))
    whole = _whole(rows.sparkSession, table, lake, static_versions, versions, found)
    if versions.after < 0 or not there or not (found.keys or found.plan):
        why = why or "all of upstream is taken"
        return Prepared({}, f"rewritten: {why}", partial(_rewrite, _computed(whole), table), (whole,))
    gone = derived(changes.removed(rows), table, lake, static_versions)
    touched = new.select(*found.keys).union(gone.select(*found.keys)).distinct()
    groups = _computed(of_keys(whole, touched) if found.keys else whole)
    recompute = partial(_recompute, groups, touched, found, table)
    return Prepared({}, f"recomputed for the groups it touches: {why}", recompute, (groups,))


def _computed(rows: DataFrame) -> DataFrame:
    """Return the frame, computed and kept: a row the query fails on shows before anything is written."""
    kept = rows.persist()
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
