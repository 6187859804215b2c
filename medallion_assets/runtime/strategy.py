"""How a micro-batch reaches its table: appended, merged, in order, or recomputed for what it touches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame

from medallion_assets.declare.table import Table
from medallion_assets.delta import batches, changes, log
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.static_versions import at_version
from medallion_assets.quality.derive import derived
from medallion_assets.quarantine.held_poison import sound
from medallion_assets.quarantine.repairs import in_force
from medallion_assets.runtime.columns import refuse_changed_columns
from medallion_assets.runtime.correct import RecomputeScope, recomputed
from medallion_assets.runtime.in_order import (
    can_be_in_order,
    may_be_in_order,
    order_of,
    write_in_order,
)
from medallion_assets.runtime.incremental import write_incremental
from medallion_assets.runtime.write import write_judged


@dataclass(frozen=True)
class Part:
    """A micro-batch to be written: its changes, where they come from, and who writes."""

    rows: DataFrame
    versions: VersionRange
    transaction: Transaction
    static_versions: dict[str, int]


class Written(NamedTuple):
    """Counts of ``judge``, how the rows were written, and for a dimension the latest event taken."""

    counts: dict[str, int]
    strategy: str
    newest_sequence: str = ""


Strategy = Callable[[Part, Table, Lake], Written]


def choose_strategy(part: Part, table: Table, lake: Lake) -> Strategy:
    """Return how this batch reaches the table."""
    if table.output_mode == "incremental":
        return _merged
    if table.scd:
        return _kept
    return _remade if _takes_back(table, lake, part.versions) else _appended


def _takes_back(table: Table, lake: Lake, versions: VersionRange) -> bool:
    """Return true where rows of upstream went or changed, or all of it is taken again over what stands."""
    # A table may stand empty before its first batch, where its layout asked for it.
    again = versions.after < 0 and log.last_commit_metadata(lake.path(table), "table", table.flow) is not None
    return again or not changes.only_appends(lake.upstream_log(table), versions)


def _merged(part: Part, table: Table, lake: Lake) -> Written:
    return Written(
        {}, write_incremental(part.rows, table, lake, part.static_versions, part.versions, part.transaction)
    )


def _kept(part: Part, table: Table, lake: Lake) -> Written:
    if not can_be_in_order(table):
        return _remade(part, table, lake)
    new = derived(changes.added(part.rows), table, lake, part.static_versions)
    order = order_of(new, partial(_all_of, part, table, lake), table, lake, part.transaction)
    if order.is_later and may_be_in_order(table, lake, part.versions):
        counts = write_in_order(new, table, lake, part.static_versions.get(table.key), part.transaction)
        if counts is not None:
            return Written(counts, "in order: the new events and the states that stood open", order.newest)
    return _remade(part, table, lake)._replace(newest_sequence=order.newest)


def _all_of(part: Part, table: Table, lake: Lake) -> DataFrame:
    """Return what the query makes of all of upstream."""
    spark = part.rows.sparkSession
    upstream = at_version(spark, lake.upstream_log(table), part.versions.upto)
    return derived(sound(upstream, spark, lake.quarantine(table)), table, lake, part.static_versions)


def _appended(part: Part, table: Table, lake: Lake) -> Written:
    path = lake.path(table)
    own = part.static_versions.get(table.key)
    asks = table.unique_by or table.one_each
    existing = at_version(part.rows.sparkSession, path, own) if asks and own is not None else None
    rows = derived(changes.added(part.rows), table, lake, part.static_versions)
    refuse_changed_columns(rows, table, lake)
    counts = write_judged(rows, table, path, lake.quarantine(table), existing, part.transaction)
    return Written(counts, "appended")


def _remade(part: Part, table: Table, lake: Lake) -> Written:
    """Make anew what the changes scope: their keys, or everything where rows have no key."""
    spark, names = part.rows.sparkSession, table.recomputed_by
    last = batches.newest(
        lake.state(table, "batches"),
        part.transaction.batch_id,
        str(part.transaction.commit_metadata["query"]),
    )
    old_static_versions = {**part.static_versions, **(last.statics if last else {})}
    keys = fresh = None
    if names and part.versions.after >= 0 and not _reaches_all(part, table, lake):
        new = derived(changes.added(part.rows), table, lake, part.static_versions)
        moved = new.select(*names)
        if changes.only_appends(lake.upstream_log(table), part.versions):
            fresh = new
        else:
            repairs = in_force(spark, lake.quarantine(table))
            went = derived(changes.removed(part.rows), table, lake, old_static_versions, repairs)
            moved = moved.union(went.select(*names))
        keys = moved.distinct().persist()
    counts = recomputed(
        spark,
        table,
        lake,
        RecomputeScope(keys, part.versions, part.static_versions, old_static_versions, fresh),
        part.transaction,
    )
    words = f"recomputed for the keys of what changed: {', '.join(names)}" if keys else "rewritten"
    return Written(counts, words)


def _reaches_all(part: Part, table: Table, lake: Lake) -> bool:
    """Return true where one event says something of every key: a truncation, or a snapshot of the whole."""
    kept = table.scd
    if not kept or kept.from_snapshots:
        return bool(kept)
    if not kept.apply_as_truncates:
        return False
    new = derived(changes.added(part.rows), table, lake, part.static_versions)
    return not new.where(kept.apply_as_truncates).isEmpty()
