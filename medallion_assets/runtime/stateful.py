"""A micro-batch of a query that keeps state in its checkpoint: its groups, whole or as they changed."""

import time
from dataclasses import replace

from pyspark.sql import DataFrame

from medallion_assets.declare.layout import laid_out
from medallion_assets.declare.table import Table
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.delta.merge import upsert
from medallion_assets.delta.row_counts import rows_brought
from medallion_assets.delta.stream import State
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.late_rows import open_rows, watermark_of
from medallion_assets.runtime.columns import joining
from medallion_assets.runtime.late_entries import prepare_late
from medallion_assets.runtime.poison_of_groups import prepare_left_out
from medallion_assets.runtime.write import Prepared, Target, commit


def write_groups(
    rows: DataFrame, table: Table, lake: Lake, versions: VersionRange, number: int, transaction: Transaction
) -> Batch:
    """Rewrite the table with the whole aggregate (complete), or merge the groups that changed (update).

    Args:
        rows: What the query gave for the micro-batch.
        table: The table.
        lake: Where it is.
        versions: The upstream versions of the batch.
        number: The micro-batch in its checkpoint; the first has the state of all of upstream.
        transaction: What is committed.
    """
    started, spark = time.monotonic(), rows.sparkSession
    late, hold = prepare_late(spark, table, lake, versions, number) if table.watermarked else (0, None)
    left_out, exchange = prepare_left_out(spark, table, lake, versions)
    merges = table.output_mode == "update" and number > 0
    # Read twice, a stateful query runs twice and counts its rows double; a MERGE reads its source twice.
    if merges or table.write_audit_publish:
        rows.persist().count()

    def write(target: Lake, signed: Transaction) -> None:
        if hold is not None:
            hold(target, signed)
        exchange(target, signed)
        _write(rows, table, target, number, signed)

    batch = Batch(
        position=versions.upto,
        read=rows_brought(lake.upstream_log(table), versions),
        written=-1,
        quarantined=late + left_out,
        strategy=table.output_mode,
        late=late,
        open_rows=open_rows(spark, table, lake, number),
        watermark=_iso(watermark_of(lake.state(table, "checkpoint"), number)),
        whole=versions.after < 0,
        seconds=time.monotonic() - started,
        run_id=transaction.run_id,
    )
    prepared = Prepared({}, table.output_mode, write, (rows,) if rows.is_cached else ())
    return commit(prepared, batch, Target(table, lake, spark), transaction)


def _write(rows: DataFrame, table: Table, target: Lake, number: int, transaction: Transaction) -> None:
    path = target.path(table)
    whole = table.output_mode == "complete" or number == 0
    rows = laid_out(rows, table.layout, path, table.key) if whole else joining(rows, table, target)
    if whole:
        # State that begins with all of upstream replaces what was there.
        append(rows, path, transaction, mode="overwrite", keep_schema=table.layout.is_asked_for)
    elif table.output_mode == "append":
        append(rows, path, transaction)
    else:
        upsert(rows, path, transaction, table.unique_by)


def read_through(rows: DataFrame) -> None:
    """Compute a micro-batch that the table has already, for the sake of its state.

    Delta would skip the write without reading the rows; Spark then finds its state stores uncommitted and
    refuses the batch at every retry.
    """
    rows.write.format("noop").mode("overwrite").save()


def with_states(done: dict[int, Batch], states: dict[int, State]) -> list[Batch]:
    """Return a stateful query's batches (by micro-batch) with what Spark said of its state after each."""
    return [
        replace(batch, watermark=state.watermark, open_groups=state.groups, state_bytes=state.bytes)
        if (state := states.get(number))
        else batch
        for number, batch in done.items()
    ]


def _iso(milliseconds: int) -> str:
    if milliseconds <= 0:
        return ""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds / 1000)) + ".000Z"
