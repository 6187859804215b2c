"""A silver or gold micro-batch: run the query on upstream's changes and write the result."""

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import SOURCE_ROW, Table
from medallion_assets.delta import changes
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import (
    ADDED,
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    REMOVED,
    VersionRange,
    rows_brought,
)
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version, batch_versions, last_static_versions
from medallion_assets.quality.derive import derived
from medallion_assets.quality.judge import OUTCOMES
from medallion_assets.quality.late_rows import without_time
from medallion_assets.quarantine.poison import parted, sound, take_out_gone, without_poison
from medallion_assets.quarantine.repairs import as_text
from medallion_assets.runtime.strategy import MicroBatch, Strategy, choose_strategy
from medallion_assets.runtime.write import Context, Prepared, Write, commit
from medallion_assets.session.frames import cut_off
from medallion_assets.sources.quarantine import GAVE_NO_ROW, NO_EVENT_TIME, QUERY, shaped


def prepare_many(prepare: Strategy, batch: MicroBatch, table: Table, lake: Lake) -> Prepared:
    """Compute a batch; upstream rows of which the query gives no row go to quarantine, as upstream has them.

    Counts ``expanded`` besides: by how many the rows that came are more than the upstream rows that came.
    """
    new = changes.added(batch.rows)
    if batch.versions.after < 0:
        # All of upstream is taken again: what is held of it is held already.
        new = sound(new, batch.rows.sparkSession, lake.quarantine(table))
    silent = _silent(new, batch, table, lake)
    held = silent.count()
    sources = new.count() - changes.removed(batch.rows).count()
    prepared = prepare(batch, table, lake)
    counts = {**prepared.counts, "quarantine": prepared.counts.get("quarantine", 0) + held}
    rows = sum(counts.get(word, 0) - counts.get(f"was:{word}", 0) for word in OUTCOMES)
    write = partial(_hold, silent, GAVE_NO_ROW, table, prepared.write) if held else prepared.write
    return prepared._replace(counts={**counts, "expanded": rows - sources}, write=write)


def prepare_windows(prepare: Strategy, batch: MicroBatch, table: Table, lake: Lake) -> Prepared:
    """Compute a batch of an aggregate; move rows without a time, which fit no window, to quarantine."""
    new = changes.added(batch.rows)
    if batch.versions.after < 0:
        new = sound(new, batch.rows.sparkSession, lake.quarantine(table))
    timeless = without_time(new, derived(new, table, lake, batch.static_versions))
    prepared = prepare(batch, table, lake)
    held = timeless.count() if timeless is not None else 0
    if timeless is None or not held:
        return prepared
    counts = {**prepared.counts, "quarantine": prepared.counts.get("quarantine", 0) + held}
    return prepared._replace(
        counts=counts, write=partial(_hold, timeless, NO_EVENT_TIME, table, prepared.write)
    )


def _hold(
    rows: DataFrame, rule: str, table: Table, write: Write, target: Lake, transaction: Transaction
) -> None:
    """Write upstream's rows to quarantine, then write the batch."""
    rules, kind, text = F.array(F.lit(rule)), F.lit(QUERY), as_text(rows)
    entries = shaped(rows, text, rules, kind, transaction.version, transaction.run_id)
    append(entries, target.quarantine(table), transaction.of_quarantine)
    write(target, transaction)


def _silent(new: DataFrame, batch: MicroBatch, table: Table, lake: Lake) -> DataFrame:
    """Return the upstream rows for which the query returns no row."""
    given = derived(new, table, lake, batch.static_versions).select(SOURCE_ROW).distinct()
    marked = new.withColumn(SOURCE_ROW, F.md5(as_text(new)))
    return cut_off(marked.join(given, SOURCE_ROW, "left_anti").drop(SOURCE_ROW))


def write_changes(
    rows: DataFrame, table: Table, lake: Lake, versions: VersionRange, transaction: Transaction
) -> Batch:
    """Apply a range of upstream's changes (rows with ``CHANGE_COLUMNS``) to the table."""
    started, context = time.monotonic(), Context(table, lake, rows.sparkSession)
    if not changes.moves_data(lake.upstream_log(table), versions):
        nothing = Prepared({}, "nothing changed: files were moved", lambda lake, transaction: None)
        statics = last_static_versions(table, lake)
        batch = batch_of(nothing, table, versions.upto, statics, transaction.run_id, 0.0)
        return commit(nothing, batch, context, transaction)
    statics = batch_versions(table, lake, transaction.before)
    prepared = _prepared(MicroBatch(rows, versions, transaction, statics), table, lake)
    seconds = time.monotonic() - started
    batch = batch_of(prepared, table, versions.upto, statics, transaction.run_id, seconds)
    if table.output_mode == "incremental":
        # No row of an aggregate is judged: upstream's log says what came, the commit's own what was written.
        batch = replace(batch, read=rows_brought(lake.upstream_log(table), versions), written=-1)
    return commit(prepared, replace(batch, whole=versions.after < 0), context, transaction)


def whole_upstream(context: Context, version: int) -> DataFrame:
    """Return all of upstream's rows, as it was at a version, as changes that bring them."""
    rows = at_version(context.spark, context.lake.upstream_log(context.table), version)
    return _as_changes(rows, rows.limit(0))


def _prepared(batch: MicroBatch, table: Table, lake: Lake) -> Prepared:
    """Compute the batch; where rows stop it, without those rows."""
    quarantine, going = lake.quarantine(table), None
    if not changes.only_appends(lake.upstream_log(table), batch.versions):
        went, going = parted(changes.removed(batch.rows), quarantine)
        batch = replace(batch, rows=_as_changes(changes.added(batch.rows), went))
    prepare = choose_strategy(batch, table, lake)
    if table.rows_out == "many":
        prepare = partial(prepare_many, prepare)
    elif table.row_count_column:
        prepare = partial(prepare_windows, prepare)
    try:
        prepared = prepare(batch, table, lake)
    except Exception as error:
        query = partial(derived, table=table, lake=lake, static_versions=batch.static_versions)
        isolated = without_poison(changes.added(batch.rows), query, error, table, lake, batch.transaction)
        if isolated is None:
            raise
        rest = _as_changes(isolated.rest, changes.removed(batch.rows))
        prepared = prepare(replace(batch, rows=rest), table, lake)
        counts = {**prepared.counts, "quarantine": prepared.counts.get("quarantine", 0) + isolated.held}
        strategy = f"{prepared.strategy}; {isolated.held} rows the query failed on are in quarantine"
        prepared = prepared._replace(counts=counts, strategy=strategy)
    return prepared._replace(write=partial(_with_gone_entries, going, table, prepared.write))


def _with_gone_entries(
    going: DataFrame | None, table: Table, write: Write, lake: Lake, transaction: Transaction
) -> None:
    take_out_gone(going, lake.quarantine(table), transaction)
    write(lake, transaction)


def _as_changes(added: DataFrame, removed: DataFrame) -> DataFrame:
    rows = added.withColumn(CHANGE_TYPE, F.lit(ADDED[0]))
    rows = rows.unionByName(removed.withColumn(CHANGE_TYPE, F.lit(REMOVED[0])))
    return rows.withColumns({name: F.lit(None) for name in CHANGE_COLUMNS[1:]})


def batch_of(
    prepared: Prepared,
    table: Table,
    position: int,
    static_versions: Mapping[str, int],
    run_id: str,
    seconds: float,
) -> Batch:
    """Return a micro-batch's numbers; those of rows recomputed count how they moved."""
    counts = prepared.counts
    moved = {name: n - counts.get(f"was:{name}", 0) for name, n in counts.items()}
    read = sum(moved.get(word, 0) for word in OUTCOMES)
    return Batch(
        position=position,
        read=read,
        # What is recomputed or replayed brings no new upstream row.
        expanded=counts.get("expanded", read) if table.rows_out == "many" else 0,
        written=moved.get("good", 0),
        quarantined=moved.get("quarantine", 0),
        duplicates=moved.get("duplicate", 0),
        dropped=moved.get("drop", 0),
        rules={e.name: counts.get(f"rule:{e.name}", 0) for e in table.expectations},
        seconds=seconds,
        statics={name: static_versions[name] for name in table.statics if name in static_versions},
        run_id=run_id,
        strategy=prepared.strategy,
        newest_sequence=prepared.newest_sequence,
    )
