"""A silver or gold micro-batch: what changed upstream, through the query, into the table."""

import time
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import changes
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import ADDED, CHANGE_COLUMNS, CHANGE_TYPE, REMOVED, Span
from medallion_assets.delta.commit import Stamp
from medallion_assets.delta.row_counts import rows_brought, rows_committed
from medallion_assets.tables.declaration.table import Table
from medallion_assets.tables.judgement.derive import derived
from medallion_assets.tables.judgement.judge import OUTCOMES
from medallion_assets.tables.quarantine.held_poison import parted, take_out_gone
from medallion_assets.tables.quarantine.poison import without_poison
from medallion_assets.tables.standing.lake import Lake
from medallion_assets.tables.standing.pins import last_pins, pinned_versions
from medallion_assets.tables.writing.batch_ways import Part, Written, way_for


def write_changes(rows: DataFrame, table: Table, lake: Lake, span: Span, stamp: Stamp) -> Batch:
    """Writes what a span of upstream's changes means for the table (``CHANGE_COLUMNS`` among the rows)."""
    started = time.monotonic()
    if not changes.moves_data(lake.upstream_log(table), span):
        return batch_of({}, table, stamp, last_pins(table, lake), "nothing changed: files were moved", 0.0)
    pins = pinned_versions(table, lake, str(stamp.note["query"]), stamp.batch_id)
    part = Part(rows, span, stamp, pins)
    done = _written(part, table, lake)
    batch = batch_of(done.counts, table, stamp, pins, done.strategy, time.monotonic() - started)
    if table.output_mode == "incremental":
        # No row of an aggregate is judged: what came and what was written stand in the two logs.
        read, written = rows_brought(lake.upstream_log(table), span), rows_committed(lake.path(table), stamp)
        batch = replace(batch, read=read, written=written)
    return replace(batch, whole=span.after < 0, newest_sequence=done.newest_sequence)


def _written(part: Part, table: Table, lake: Lake) -> Written:
    """Writes the batch; where rows stop it, without those rows."""
    quarantine, going = lake.quarantine(table), None
    if not changes.only_appends(lake.upstream_log(table), part.span):
        went, going = parted(changes.removed(part.rows), quarantine)
        part = replace(part, rows=_as_changes(changes.added(part.rows), went))
    write = way_for(part, table, lake)
    try:
        done = write(part, table, lake)
    except Exception as error:
        query = partial(derived, table=table, lake=lake, pins=part.pins)
        found = without_poison(changes.added(part.rows), query, error, table, lake, part.stamp)
        if found is None:
            raise
        rest = _as_changes(found.rest, changes.removed(part.rows))
        done = write(replace(part, rows=rest), table, lake)
        counts = done.counts | {"quarantine": done.counts.get("quarantine", 0) + found.held}
        words = f"{done.strategy}; {found.held} rows the query failed on are in quarantine"
        done = Written(counts, words, done.newest_sequence)
    take_out_gone(going, quarantine, part.stamp)
    return done


def _as_changes(added: DataFrame, removed: DataFrame) -> DataFrame:
    told = added.withColumn(CHANGE_TYPE, F.lit(ADDED[0]))
    told = told.unionByName(removed.withColumn(CHANGE_TYPE, F.lit(REMOVED[0])))
    return told.withColumns({name: F.lit(None) for name in CHANGE_COLUMNS[1:]})


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
