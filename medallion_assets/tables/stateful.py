"""A micro-batch of a query that keeps state in its checkpoint: its groups, whole or as they changed."""

import time

from pyspark.sql import DataFrame

from medallion_assets.delta.batches import Batch
from medallion_assets.delta.commit import Stamp, append
from medallion_assets.delta.merge import upsert
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.table import Table

STATEFUL = ("complete", "update")


def write_groups(rows: DataFrame, table: Table, lake: Lake, stamp: Stamp) -> Batch:
    """Rewrites the table with the whole aggregate (complete), or merges the groups that changed (update)."""
    started, path = time.monotonic(), lake.path(table)
    if stamp.committed_to(path):
        # Delta would skip the write without reading the rows; Spark then finds its state stores
        # uncommitted and refuses the batch at every retry, for ever.
        rows.write.format("noop").mode("overwrite").save()
    elif table.output_mode == "complete" or stamp.batch_id == 0:
        # State that begins anew begins with all of upstream: what stood before is replaced by it.
        append(rows, path, stamp, mode="overwrite")
    else:
        _merge(rows, table, lake, stamp)
    seconds = time.monotonic() - started
    return Batch(stamp.batch_id, 0, 0, 0, seconds=seconds, run_id=stamp.run_id, strategy=table.output_mode)


def _merge(rows: DataFrame, table: Table, lake: Lake, stamp: Stamp) -> None:
    # MERGE reads its source twice, which would run the stateful query twice and count its rows double.
    once = rows.persist()
    try:
        once.count()
        upsert(once, lake.path(table), stamp, table.unique_by)
    finally:
        once.unpersist()
