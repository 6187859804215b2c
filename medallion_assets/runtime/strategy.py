"""Choose how a micro-batch is written: appended, merged, in order, or recomputed for the keys it touches.

To recompute a key from upstream reads its whole history. Events that are later than all earlier ones need
only the open state of their key: they end it or add the next states.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from medallion_assets.declare.scd import END_AT, START_AT, Changes
from medallion_assets.declare.table import Table
from medallion_assets.delta import changes, log, working
from medallion_assets.delta.changes import VersionRange, only_appends
from medallion_assets.delta.commit import Transaction, upsert
from medallion_assets.delta.names import literal, of_keys, quoted
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version, last_static_versions, newest_batch
from medallion_assets.quality.derive import derived
from medallion_assets.quality.history import IS_STATE, SINCE, states
from medallion_assets.quality.judge import counted_within_bounds, judged
from medallion_assets.quarantine.poison import sound
from medallion_assets.quarantine.quarantined import append_refused
from medallion_assets.quarantine.repairs import in_force
from medallion_assets.runtime.aggregates import prepare_incremental
from medallion_assets.runtime.recompute import RecomputeScope, prepare_recompute, with_gone
from medallion_assets.runtime.write import Prepared, joining, prepare_rows, refuse_changed_columns
from medallion_assets.session.frames import persisted

NESTED = (ArrayType, MapType, StructType, VariantType)
"""Types whose values cannot be recorded as text and compared later."""


class Order(NamedTuple):
    """Whether a batch's events are all later than earlier ones, and the newest sequence of all, as text."""

    is_later: bool
    newest: str


def order_of(events: DataFrame, every: Callable[[], DataFrame], table: Table, lake: Lake) -> Order:
    """Compare a batch's events with all events of earlier batches.

    Args:
        events: The query's rows for the batch.
        every: Gives the query's rows for all of upstream; called where the newest sequence is not recorded.
        table: The table.
        lake: Where it is.
    """
    kept = _kept(table)
    kind = events.schema[kept.sequence_by].dataType
    if isinstance(kind, NESTED):
        return Order(False, "")
    last = newest_batch(table, lake)
    before = last.newest_sequence if last else ""
    known = F.expr(f"CAST({literal(before)} AS {kind.simpleString()})") if before else F.lit(None).cast(kind)
    asked = events if before else every()
    low, high = F.min(kept.sequence_by), F.max(kept.sequence_by)
    newest = F.greatest(high, known).cast("string")
    row = asked.agg((low > known).alias("later"), newest.alias("newest")).first()
    return Order(bool(before and row and row["later"]), (row["newest"] if row else "") or "")


def may_be_in_order(table: Table, lake: Lake, versions: VersionRange) -> bool:
    """Return true where the open states may be enough for these upstream versions; reads only the logs."""
    has_table = versions.after >= 0 and log.exists(lake.path(table))
    return has_table and only_appends(lake.upstream_log(table), versions)


def can_be_in_order(table: Table) -> bool:
    """Return true where this declaration allows events to be applied to the open states alone."""
    kept = table.scd
    if kept is None or kept.from_snapshots or kept.apply_as_truncates:
        return False
    needed = {*kept.track_history_columns, *([kept.sequence_by] if kept.type == 1 else [])}
    return not (needed & set(kept.except_columns) or table.statics or table.flows or table.flow)


def prepare_in_order(
    events: DataFrame, table: Table, lake: Lake, own_version: int | None, newest: str
) -> Prepared | None:
    """Judge later events, which change only the states that are open.

    Return None where a repair of an earlier row is in force: the repaired row may be later than its batch.
    """
    spark = events.sparkSession
    if own_version is None or in_force(spark, lake.quarantine(table)) is not None:
        return None
    verdict = persisted(judged(events, table, None))
    counts = counted_within_bounds(verdict, table)
    before = at_version(spark, lake.path(table), own_version)

    def write(target: Lake, transaction: Transaction) -> None:
        append_refused(verdict, counts, table, target.quarantine(table), transaction)
        _write(verdict.where(f"{working.OUTCOME} = 'good'"), before, table, target, transaction)

    return Prepared(counts, "in order: the new events and the open states", write, (verdict,), newest)


def _write(good: DataFrame, before: DataFrame, table: Table, target: Lake, transaction: Transaction) -> None:
    kept, path = _kept(table), target.path(table)
    # Checked before the union with the states, which casts types and fills missing struct fields with NULL.
    refuse_changed_columns(good, table, target, (START_AT, END_AT))
    keys = good.select(*kept.keys).distinct()
    open_states = of_keys(_open_states(before, kept), keys, "left_semi")
    shown = [quoted(c) for c in open_states.columns if c in (*good.columns, SINCE, IS_STATE)]
    events = good.unionByName(open_states.select(*shown), allowMissingColumns=True)
    rows = joining(states(events, kept, None, events.limit(0)), table, target)
    if kept.type == 1:
        upsert(with_gone(rows, keys, path, kept.keys), path, transaction, kept.keys)
    else:
        # Files without an open state are not opened: their statistics say so.
        upsert(rows, path, transaction, [*kept.keys, START_AT], among=f"t.`{END_AT}` IS NULL")


def _open_states(rows: DataFrame, kept: Changes) -> DataFrame:
    """Return the states that the batch may end, as the events that began them."""
    marked = rows.withColumn(IS_STATE, F.lit(True))
    if kept.type == 1:
        return marked
    begun = marked.where(f"`{END_AT}` IS NULL").withColumn(SINCE, F.col(START_AT))
    return begun if kept.sequence_by in begun.columns else begun.withColumn(kept.sequence_by, F.col(SINCE))


def _kept(table: Table) -> Changes:
    assert table.scd is not None
    return table.scd


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
    """Return true where upstream rows were removed or changed, or are read again over existing rows."""
    # A layout may create the table, empty, before its first batch.
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
    """Return the query's rows for all of upstream."""
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
    few = changes.brings_few(lake.upstream_log(table), batch.versions)
    return prepare_rows(rows, table, existing, few)


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
        keys = persisted(moved.distinct())
    scope = RecomputeScope(keys, batch.versions, batch.static_versions, old_static_versions, fresh)
    return prepare_recompute(spark, table, lake, scope)


def _reaches_all(batch: MicroBatch, table: Table, lake: Lake) -> bool:
    """Return true where one event can affect every key: a truncation or a snapshot."""
    kept = table.scd
    if not kept or kept.from_snapshots:
        return bool(kept)
    if not kept.apply_as_truncates:
        return False
    new = derived(changes.added(batch.rows), table, lake, batch.static_versions)
    return not new.where(kept.apply_as_truncates).isEmpty()
