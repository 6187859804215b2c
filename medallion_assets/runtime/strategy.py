"""How a micro-batch reaches its table: appended, merged, in order, or recomputed for what it touches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame

from medallion_assets.declare.table import Table
from medallion_assets.delta import changes
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import newest_batch
from medallion_assets.lake.static_versions import at_version, last_static_versions
from medallion_assets.quality.derive import derived
from medallion_assets.quarantine.held_poison import sound
from medallion_assets.quarantine.repairs import in_force
from medallion_assets.runtime.columns import refuse_changed_columns
from medallion_assets.runtime.correct import RecomputeScope, prepare_recompute
from medallion_assets.runtime.in_order import (
    can_be_in_order,
    may_be_in_order,
    order_of,
    prepare_in_order,
)
from medallion_assets.runtime.incremental import prepare_incremental
from medallion_assets.runtime.write import Prepared, prepare_rows


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch to be written: its changes, where they come from, and what is committed."""

    rows: DataFrame
    versions: VersionRange
    transaction: Transaction
    static_versions: dict[str, int]


Strategy = Callable[[MicroBatch, Table, Lake], Prepared]


def choose_strategy(batch: MicroBatch, table: Table, lake: Lake) -> Strategy:
    """Return how this batch reaches the table."""
    if table.output_mode == "incremental":
        return _aggregated
    if table.scd:
        return _dimension
    return _recomputed if _takes_back(table, lake, batch.versions) else _appended


def _takes_back(table: Table, lake: Lake, versions: VersionRange) -> bool:
    """Return true where rows of upstream went or changed, or all of it is taken over what is there."""
    # A table may be there, empty, before its first batch, where its layout asked for it.
    again = versions.after < 0 and newest_batch(table, lake) is not None
    return again or not changes.only_appends(lake.upstream_log(table), versions)


def _aggregated(batch: MicroBatch, table: Table, lake: Lake) -> Prepared:
    return prepare_incremental(batch.rows, table, lake, batch.static_versions, batch.versions)


def _dimension(batch: MicroBatch, table: Table, lake: Lake) -> Prepared:
    if not can_be_in_order(table):
        return _recomputed(batch, table, lake)
    new = derived(changes.added(batch.rows), table, lake, batch.static_versions)
    order = order_of(new, partial(_all_of, batch, table, lake), table, lake)
    if order.is_later and may_be_in_order(table, lake, batch.versions):
        own = batch.static_versions.get(table.key)
        prepared = prepare_in_order(new, table, lake, own, order.newest)
        if prepared is not None:
            return prepared
    return _recomputed(batch, table, lake)._replace(newest_sequence=order.newest)


def _all_of(batch: MicroBatch, table: Table, lake: Lake) -> DataFrame:
    """Return what the query makes of all of upstream."""
    spark = batch.rows.sparkSession
    upstream = at_version(spark, lake.upstream_log(table), batch.versions.upto)
    return derived(sound(upstream, spark, lake.quarantine(table)), table, lake, batch.static_versions)


def _appended(batch: MicroBatch, table: Table, lake: Lake) -> Prepared:
    own = batch.static_versions.get(table.key)
    asks = table.unique_by or table.one_each
    spark = batch.rows.sparkSession
    existing = at_version(spark, lake.path(table), own) if asks and own is not None else None
    rows = derived(changes.added(batch.rows), table, lake, batch.static_versions)
    refuse_changed_columns(rows, table, lake)
    return prepare_rows(rows, table, existing)


def _recomputed(batch: MicroBatch, table: Table, lake: Lake) -> Prepared:
    """Recompute the keys the changes reach, or everything where rows have no key."""
    spark, names = batch.rows.sparkSession, table.recomputed_by
    old_static_versions = batch.static_versions | last_static_versions(table, lake)
    keys = fresh = None
    if names and batch.versions.after >= 0 and not _reaches_all(batch, table, lake):
        new = derived(changes.added(batch.rows), table, lake, batch.static_versions)
        moved = new.select(*names)
        if changes.only_appends(lake.upstream_log(table), batch.versions):
            fresh = new
        else:
            repairs = in_force(spark, lake.quarantine(table))
            went = derived(changes.removed(batch.rows), table, lake, old_static_versions, repairs)
            moved = moved.union(went.select(*names))
        keys = moved.distinct().persist()
    scope = RecomputeScope(keys, batch.versions, batch.static_versions, old_static_versions, fresh)
    return prepare_recompute(spark, table, lake, scope)


def _reaches_all(batch: MicroBatch, table: Table, lake: Lake) -> bool:
    """Return true where one event says something of every key: a truncation, or a snapshot of the whole."""
    kept = table.scd
    if not kept or kept.from_snapshots:
        return bool(kept)
    if not kept.apply_as_truncates:
        return False
    new = derived(changes.added(batch.rows), table, lake, batch.static_versions)
    return not new.where(kept.apply_as_truncates).isEmpty()
