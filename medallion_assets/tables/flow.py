"""A silver or gold micro-batch: what changed upstream, through the query, into the table."""

import time
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import batches, changes, log
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import ADDED, CHANGE_COLUMNS, CHANGE_TYPE, REMOVED, Span
from medallion_assets.delta.commit import Stamp
from medallion_assets.tables.correct import Reach, remade
from medallion_assets.tables.derive import derived
from medallion_assets.tables.incremental import write_incremental
from medallion_assets.tables.judge import OUTCOMES
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.pins import at_version, last_pins, pinned_versions
from medallion_assets.tables.poison import isolated, may_be_poisoned, parted, take_out_gone
from medallion_assets.tables.repairs import in_force
from medallion_assets.tables.table import Table
from medallion_assets.tables.write import write_judged


@dataclass(frozen=True)
class Part:
    """A micro-batch to be written: its changes, where they come from, and who writes."""

    rows: DataFrame
    span: Span
    stamp: Stamp
    pins: dict[str, int]


def write_changes(rows: DataFrame, table: Table, lake: Lake, span: Span, stamp: Stamp) -> Batch:
    """Writes what a span of upstream's changes means for the table (``CHANGE_COLUMNS`` among the rows)."""
    started = time.monotonic()
    if not changes.moves_data(lake.upstream_log(table), span):
        return batch_of({}, table, stamp, last_pins(table, lake), "nothing changed: files were moved", 0.0)
    pins = pinned_versions(table, lake, str(stamp.note["query"]), stamp.batch_id)
    part = Part(rows, span, stamp, pins)
    if table.output_mode == "incremental":
        strategy = write_incremental(rows, table, lake, pins, span, stamp)
        counts: dict[str, int] = {}
    else:
        counts, strategy = _written(part, table, lake)
    batch = batch_of(counts, table, stamp, pins, strategy, time.monotonic() - started)
    return replace(batch, whole=span.after < 0)


def _written(part: Part, table: Table, lake: Lake) -> tuple[dict[str, int], str]:
    """Writes the batch; where rows stop it, without those rows."""
    quarantine, going = lake.quarantine(table), None
    if not changes.only_appends(lake.upstream_log(table), part.span):
        went, going = parted(changes.removed(part.rows), quarantine)
        part = replace(part, rows=_as_changes(changes.added(part.rows), went))
    anew = bool(table.keeps) or _takes_back(table, lake, part.span)
    write = _remade if anew else _appended
    try:
        done = write(part, table, lake)
    except Exception as error:
        rest = _without_poison(part, table, lake, error)
        if rest is None:
            raise
        counts, strategy = write(replace(part, rows=rest), table, lake)
        poison = part.rows.count() - rest.count()
        counts = counts | {"quarantine": counts.get("quarantine", 0) + poison}
        done = counts, f"{strategy}; {poison} rows the query failed on are in quarantine"
    take_out_gone(going, quarantine, part.stamp)
    return done


def _without_poison(part: Part, table: Table, lake: Lake, error: Exception) -> DataFrame | None:
    """Gives the batch's changes but the rows its query fails on, None where it is not rows that fail."""
    if not may_be_poisoned(error, table) or part.stamp.committed_to(lake.path(table)):
        return None
    query = partial(derived, table=table, lake=lake, pins=part.pins)
    rest = isolated(changes.added(part.rows), query, lake.quarantine(table), part.stamp)
    return None if rest is None else _as_changes(rest, changes.removed(part.rows))


def _as_changes(added: DataFrame, removed: DataFrame) -> DataFrame:
    told = added.withColumn(CHANGE_TYPE, F.lit(ADDED[0]))
    told = told.unionByName(removed.withColumn(CHANGE_TYPE, F.lit(REMOVED[0])))
    return told.withColumns({name: F.lit(None) for name in CHANGE_COLUMNS[1:]})


def _takes_back(table: Table, lake: Lake, span: Span) -> bool:
    """True where rows of upstream went or changed, or all of it is taken again over what stands."""
    # A table may stand empty before its first batch, where its layout asked for it.
    again = span.after < 0 and log.last_note(lake.path(table), "table", table.flow) is not None
    return again or not changes.only_appends(lake.upstream_log(table), span)


def batch_of(
    counts: dict[str, int], table: Table, stamp: Stamp, pins: dict[str, int], strategy: str, seconds: float
) -> Batch:
    """Gives a micro-batch's numbers; those of rows made anew count how they moved."""
    moved = {name: n - counts.get(f"was:{name}", 0) for name, n in counts.items()}
    read = sum(moved.get(word, 0) for word in OUTCOMES)
    return Batch(
        number=stamp.batch_id,
        read=read,
        written=moved.get("good", 0),
        quarantined=moved.get("quarantine", 0),
        duplicates=moved.get("duplicate", 0),
        dropped=moved.get("drop", 0),
        rules={e.name: counts.get(f"rule:{e.name}", 0) for e in table.expectations},
        seconds=seconds,
        statics={name: pins[name] for name in table.statics if name in pins},
        run_id=stamp.run_id,
        strategy=strategy,
    )


def _appended(part: Part, table: Table, lake: Lake) -> tuple[dict[str, int], str]:
    path = lake.path(table)
    own = part.pins.get(table.key)
    existing = at_version(part.rows.sparkSession, path, own) if own is not None and table.unique_by else None
    rows = derived(changes.added(part.rows), table, lake, part.pins)
    return write_judged(rows, table, path, lake.quarantine(table), existing, part.stamp), "appended"


def _remade(part: Part, table: Table, lake: Lake) -> tuple[dict[str, int], str]:
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
    return counts, f"made anew for the keys of what changed: {', '.join(names)}" if keys else "rewritten"


def _reaches_all(part: Part, table: Table, lake: Lake) -> bool:
    """True where one event says something of every key: a truncation, or a snapshot of the whole."""
    kept = table.keeps
    if not kept or kept.from_snapshots:
        return bool(kept)
    if not kept.apply_as_truncates:
        return False
    new = derived(changes.added(part.rows), table, lake, part.pins)
    return not new.where(kept.apply_as_truncates).isEmpty()
