"""A micro-batch of a query that keeps state in its checkpoint: its groups, whole or as they changed."""

import time
from dataclasses import replace

from pyspark.sql import DataFrame

from medallion_assets.declare.layout import laid_out
from medallion_assets.declare.table import Table
from medallion_assets.delta import batches, progress
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.delta.merge import upsert
from medallion_assets.delta.row_counts import rows_brought, rows_committed
from medallion_assets.delta.stream import State
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import versions_of
from medallion_assets.quality.late_rows import open_rows
from medallion_assets.runtime.columns import joining
from medallion_assets.runtime.late_entries import held_late
from medallion_assets.runtime.poison_of_groups import rows_left_out


def write_groups(rows: DataFrame, table: Table, lake: Lake, transaction: Transaction) -> Batch:
    """Rewrites the table with the whole aggregate (complete), or merges the groups that changed (update)."""
    started, path = time.monotonic(), lake.path(table)
    anew = table.output_mode == "complete" or transaction.batch_id == 0
    rows = laid_out(rows, table.layout, path, table.key) if anew else joining(rows, table, lake)
    if transaction.committed_to(path):
        # Delta would skip the write without reading the rows; Spark then finds its state stores
        # uncommitted and refuses the batch at every retry, for ever.
        rows.write.format("noop").mode("overwrite").save()
    elif table.output_mode == "append" and transaction.batch_id > 0:
        append(rows, path, transaction)
    elif anew:
        # State that begins anew begins with all of upstream: what stood before is replaced by it.
        append(rows, path, transaction, mode="overwrite", keep_schema=table.layout.is_asked_for)
    else:
        _merge(rows, table, lake, transaction)
    versions = versions_of(table, lake, transaction.batch_id)
    late = held_late(rows.sparkSession, table, lake, versions, transaction) if table.watermarked else 0
    held = late + rows_left_out(rows.sparkSession, table, lake, versions, transaction)
    seconds, whole = time.monotonic() - started, transaction.batch_id == 0
    read, written = rows_brought(lake.upstream_log(table), versions), rows_committed(path, transaction)
    return Batch(transaction.batch_id, read, written, held, seconds=seconds, run_id=transaction.run_id,
                 strategy=table.output_mode, late=late, whole=whole)  # fmt: skip


def _merge(rows: DataFrame, table: Table, lake: Lake, transaction: Transaction) -> None:
    # MERGE reads its source twice, which would run the stateful query twice and count its rows double.
    once = rows.persist()
    try:
        once.count()
        upsert(once, lake.path(table), transaction, table.unique_by)
    finally:
        once.unpersist()


def with_states(
    done: list[Batch], states: dict[int, State], table: Table, lake: Lake, rows: DataFrame
) -> list[Batch]:
    """Return the batches with what their query said of its state, and keeps them so."""
    if not table.stateful:
        return done
    found = [(batch, states.get(batch.number)) for batch in done]
    return [_with_state(batch, state, table, lake, rows) if state else batch for batch, state in found]


def _with_state(batch: Batch, state: State, table: Table, lake: Lake, rows: DataFrame) -> Batch:
    told = replace(
        batch,
        watermark=state.watermark,
        open_groups=state.groups,
        state_bytes=state.bytes,
        open_rows=open_rows(rows.sparkSession, table, lake, batch.number),
    )
    query = progress.query_id(lake.state(table, "checkpoint"))
    batches.record(lake.state(table, "batches"), query, told)
    return told
