"""A silver or gold micro-batch: upstream's new rows through the query into the table."""

import time

from pyspark.sql import DataFrame

from medallion_assets.delta.batches import Batch
from medallion_assets.delta.commit import Stamp, append
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.pins import at_version, pinned_versions
from medallion_assets.tables.table import Table
from medallion_assets.tables.write import write_judged


def write_rows(rows: DataFrame, table: Table, lake: Lake, stamp: Stamp) -> Batch:
    """Runs the query on a micro-batch and its static inputs, and writes what it gives, judged."""
    started, spark = time.monotonic(), rows.sparkSession
    pins = pinned_versions(table, lake, str(stamp.note["query"]), stamp.batch_id)
    frames = {name: at_version(spark, lake.path(t), pins[name]) for name, t in table.statics.items()}
    streamed = next(name for name, read in table.reads if read.how == "stream")
    path = lake.path(table)
    existing = at_version(spark, path, pins[table.key]) if table.key in pins and table.unique_by else None
    counts = write_judged(
        table(**{streamed: rows, **frames}), table, path, lake.quarantine(table), existing, stamp
    )
    return Batch(
        number=stamp.batch_id,
        read=sum(counts[word] for word in ("good", "quarantine", "drop", "duplicate")),
        written=counts["good"],
        quarantined=counts["quarantine"],
        duplicates=counts["duplicate"],
        dropped=counts["drop"],
        rules={e.name: counts[f"rule:{e.name}"] for e in table.expectations},
        seconds=time.monotonic() - started,
        statics={name: pins[name] for name in table.statics},
        run_id=str(stamp.note["run_id"]),
    )


def write_aggregate(rows: DataFrame, table: Table, lake: Lake, stamp: Stamp) -> Batch:
    """Rewrites the table with the whole aggregate, as complete mode gives it."""
    started = time.monotonic()
    if stamp.committed_to(lake.path(table)):
        # Delta would skip the write without reading the rows; Spark then finds its state stores
        # uncommitted and refuses the batch at every retry, for ever.
        rows.write.format("noop").mode("overwrite").save()
    else:
        append(rows, lake.path(table), stamp, mode="overwrite")
    return Batch(
        stamp.batch_id, 0, 0, 0, seconds=time.monotonic() - started, run_id=str(stamp.note["run_id"])
    )
