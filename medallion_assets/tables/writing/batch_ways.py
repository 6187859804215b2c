"""How a micro-batch reaches its table: appended, merged, in order, or made anew for what it touches."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame

from medallion_assets.delta import batches, changes, log
from medallion_assets.delta.changes import Span
from medallion_assets.delta.commit import Stamp
from medallion_assets.tables.declaration.table import Table
from medallion_assets.tables.judgement.derive import derived
from medallion_assets.tables.quarantine.held_poison import sound
from medallion_assets.tables.quarantine.repairs import in_force
from medallion_assets.tables.standing.lake import Lake
from medallion_assets.tables.standing.pins import at_version
from medallion_assets.tables.writing.correct import Reach, remade
from medallion_assets.tables.writing.in_order import (
    can_be_in_order,
    may_be_in_order,
    order_of,
    write_in_order,
)
from medallion_assets.tables.writing.incremental import write_incremental
from medallion_assets.tables.writing.write import write_judged


@dataclass(frozen=True)
class Part:
    """A micro-batch to be written: its changes, where they come from, and who writes."""

    rows: DataFrame
    span: Span
    stamp: Stamp
    pins: dict[str, int]


class Written(NamedTuple):
    """Counts of ``judge``, how the rows were written, and for a dimension the latest event taken."""

    counts: dict[str, int]
    strategy: str
    newest_sequence: str = ""


Way = Callable[[Part, Table, Lake], Written]


def way_for(part: Part, table: Table, lake: Lake) -> Way:
    """Gives how this batch reaches the table."""
    if table.output_mode == "incremental":
        return _merged
    if table.keeps:
        return _kept
    return _remade if _takes_back(table, lake, part.span) else _appended


def _takes_back(table: Table, lake: Lake, span: Span) -> bool:
    """True where rows of upstream went or changed, or all of it is taken again over what stands."""
    # A table may stand empty before its first batch, where its layout asked for it.
    again = span.after < 0 and log.last_note(lake.path(table), "table", table.flow) is not None
    return again or not changes.only_appends(lake.upstream_log(table), span)


def _merged(part: Part, table: Table, lake: Lake) -> Written:
    return Written({}, write_incremental(part.rows, table, lake, part.pins, part.span, part.stamp))


def _kept(part: Part, table: Table, lake: Lake) -> Written:
    if not can_be_in_order(table):
        return _remade(part, table, lake)
    new = derived(changes.added(part.rows), table, lake, part.pins)
    order = order_of(new, partial(_all_of, part, table, lake), table, lake, part.stamp)
    if order.is_later and may_be_in_order(table, lake, part.span):
        counts = write_in_order(new, table, lake, part.pins.get(table.key), part.stamp)
        if counts is not None:
            return Written(counts, "in order: the new events and the states that stood open", order.newest)
    return _remade(part, table, lake)._replace(newest_sequence=order.newest)


def _all_of(part: Part, table: Table, lake: Lake) -> DataFrame:
    """Gives what the query makes of all of upstream."""
    spark = part.rows.sparkSession
    upstream = at_version(spark, lake.upstream_log(table), part.span.upto)
    return derived(sound(upstream, spark, lake.quarantine(table)), table, lake, part.pins)


def _appended(part: Part, table: Table, lake: Lake) -> Written:
    path = lake.path(table)
    own = part.pins.get(table.key)
    asks = table.unique_by or table.one_each
    existing = at_version(part.rows.sparkSession, path, own) if asks and own is not None else None
    rows = derived(changes.added(part.rows), table, lake, part.pins)
    counts = write_judged(rows, table, path, lake.quarantine(table), existing, part.stamp)
    return Written(counts, "appended")


def _remade(part: Part, table: Table, lake: Lake) -> Written:
    """Makes anew what the changes reach: their keys, or everything where rows have no key."""
    spark, names = part.rows.sparkSession, table.remade_by
    last = batches.newest(lake.state(table, "batches"), part.stamp.batch_id, str(part.stamp.note["query"]))
    old_pins = {**part.pins, **(last.statics if last else {})}
    keys = fresh = None
    if names and part.span.after >= 0 and not _reaches_all(part, table, lake):
        new = derived(changes.added(part.rows), table, lake, part.pins)
        moved = new.select(*names)
        if changes.only_appends(lake.upstream_log(table), part.span):
            fresh = new
        else:
            repairs = in_force(spark, lake.quarantine(table))
            went = derived(changes.removed(part.rows), table, lake, old_pins, repairs)
            moved = moved.union(went.select(*names))
        keys = moved.distinct().persist()
    counts = remade(spark, table, lake, Reach(keys, part.span, part.pins, old_pins, fresh), part.stamp)
    words = f"made anew for the keys of what changed: {', '.join(names)}" if keys else "rewritten"
    return Written(counts, words)


def _reaches_all(part: Part, table: Table, lake: Lake) -> bool:
    """True where one event says something of every key: a truncation, or a snapshot of the whole."""
    kept = table.keeps
    if not kept or kept.from_snapshots:
        return bool(kept)
    if not kept.apply_as_truncates:
        return False
    new = derived(changes.added(part.rows), table, lake, part.pins)
    return not new.where(kept.apply_as_truncates).isEmpty()
