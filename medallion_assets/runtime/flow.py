"""A silver or gold micro-batch: what changed upstream, through the query, into the table."""

import time
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import changes
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import ADDED, CHANGE_COLUMNS, CHANGE_TYPE, REMOVED, VersionRange
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.row_counts import rows_brought, rows_committed
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.static_versions import fixed_static_versions, last_static_versions
from medallion_assets.quality.derive import derived
from medallion_assets.quality.judge import OUTCOMES
from medallion_assets.quarantine.held_poison import parted, take_out_gone
from medallion_assets.quarantine.poison import without_poison
from medallion_assets.runtime.rows_out import write_many
from medallion_assets.runtime.strategy import Part, Written, choose_strategy


def write_changes(
    rows: DataFrame, table: Table, lake: Lake, versions: VersionRange, transaction: Transaction
) -> Batch:
    """Write what a versions of upstream's changes means for the table (``CHANGE_COLUMNS`` among the rows)."""
    started = time.monotonic()
    if not changes.moves_data(lake.upstream_log(table), versions):
        return batch_of(
            {},
            table,
            transaction,
            last_static_versions(table, lake),
            "nothing changed: files were moved",
            0.0,
        )
    static_versions = fixed_static_versions(
        table, lake, str(transaction.commit_metadata["query"]), transaction.batch_id
    )
    part = Part(rows, versions, transaction, static_versions)
    done = _written(part, table, lake)
    batch = batch_of(
        done.counts, table, transaction, static_versions, done.strategy, time.monotonic() - started
    )
    if table.output_mode == "incremental":
        # No row of an aggregate is judged: what came and what was written stand in the two logs.
        read, written = (
            rows_brought(lake.upstream_log(table), versions),
            rows_committed(lake.path(table), transaction),
        )
        batch = replace(batch, read=read, written=written)
    return replace(batch, whole=versions.after < 0, newest_sequence=done.newest_sequence)


def _written(part: Part, table: Table, lake: Lake) -> Written:
    """Write the batch; where rows stop it, without those rows."""
    quarantine, going = lake.quarantine(table), None
    if not changes.only_appends(lake.upstream_log(table), part.versions):
        went, going = parted(changes.removed(part.rows), quarantine)
        part = replace(part, rows=_as_changes(changes.added(part.rows), went))
    write = choose_strategy(part, table, lake)
    write = write if table.rows_out == "one" else partial(write_many, write)
    try:
        done = write(part, table, lake)
    except Exception as error:
        query = partial(derived, table=table, lake=lake, static_versions=part.static_versions)
        found = without_poison(changes.added(part.rows), query, error, table, lake, part.transaction)
        if found is None:
            raise
        rest = _as_changes(found.rest, changes.removed(part.rows))
        done = write(replace(part, rows=rest), table, lake)
        counts = done.counts | {"quarantine": done.counts.get("quarantine", 0) + found.held}
        words = f"{done.strategy}; {found.held} rows the query failed on are in quarantine"
        done = Written(counts, words, done.newest_sequence)
    take_out_gone(going, quarantine, part.transaction)
    return done


def _as_changes(added: DataFrame, removed: DataFrame) -> DataFrame:
    told = added.withColumn(CHANGE_TYPE, F.lit(ADDED[0]))
    told = told.unionByName(removed.withColumn(CHANGE_TYPE, F.lit(REMOVED[0])))
    return told.withColumns({name: F.lit(None) for name in CHANGE_COLUMNS[1:]})


def batch_of(
    counts: dict[str, int],
    table: Table,
    transaction: Transaction,
    static_versions: dict[str, int],
    strategy: str,
    seconds: float,
) -> Batch:
    """Return a micro-batch's numbers; those of rows recomputed count how they moved."""
    moved = {name: n - counts.get(f"was:{name}", 0) for name, n in counts.items()}
    read = sum(moved.get(word, 0) for word in OUTCOMES)
    return Batch(
        number=transaction.batch_id,
        read=read,
        written=moved.get("good", 0),
        quarantined=moved.get("quarantine", 0),
        # What is recomputed or replayed brings no new upstream row.
        expanded=counts.get("expanded", read) if table.rows_out == "many" else 0,
        duplicates=moved.get("duplicate", 0),
        dropped=moved.get("drop", 0),
        rules={e.name: counts.get(f"rule:{e.name}", 0) for e in table.expectations},
        seconds=seconds,
        statics={name: static_versions[name] for name in table.statics if name in static_versions},
        run_id=transaction.run_id,
        strategy=strategy,
    )
