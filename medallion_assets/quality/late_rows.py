"""Rows that came after their window had closed: told on the rows themselves, beside Spark's state."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.declare.table import Table
from medallion_assets.delta import changes, progress
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.names import quoted
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version, current_static_versions
from medallion_assets.quality.derive import derived
from medallion_assets.quarantine.poison import sound_stream

SESSION = "session_window"
WINDOW = "_window"


def late_rows(
    spark: SparkSession, table: Table, lake: Lake, versions: VersionRange, number: int
) -> DataFrame | None:
    """Return the rows of a micro-batch whose window was closed when it began, None where there is none.

    Returns:
        Upstream's columns and ``_window`` STRUCT<start TIMESTAMP, end TIMESTAMP>: a row stands once for
        each closed window it lies in.
    """
    # Spark closes windows by a batch's own watermark and passes over late rows by the one before it,
    # so that what one operator gives out is never late for the next.
    watermark = watermark_of(lake.state(table, "checkpoint"), number - 1)
    if (
        versions.after < 0
        or versions.upto <= versions.after
        or watermark <= 0
        or table.output_mode == "complete"
    ):
        return None
    rows = changes.added(changes.changed(spark, lake.upstream_log(table), versions))
    rows = sound_stream(rows, spark, lake.quarantine(table))
    closed, when = F.timestamp_millis(F.lit(watermark)), F.col(quoted(event_time(table)))
    past = rows.where(when < closed)
    groups = None if past.isEmpty() else derived(past, table, lake, current_static_versions(table, lake))
    if groups is None or not window_of(groups):
        return None
    if has_sessions(groups):
        length = _session_length(derived(past.limit(1), table, lake, current_static_versions(table, lake)))
        own = F.struct(when.alias("start"), (when + length).alias("end"))
        return past.withColumn(WINDOW, own).where(F.col(f"{WINDOW}.end") <= closed)
    ends = groups.select(F.col(window_of(groups)).alias(WINDOW)).where(F.col(f"{WINDOW}.end") <= closed)
    inside = (when >= F.col(f"{WINDOW}.start")) & (when < F.col(f"{WINDOW}.end"))
    return past.join(F.broadcast(ends.distinct()), inside)


def event_time(table: Table) -> str:
    """Return the column that says when a row happened."""
    return next(read.event_time for _, read in table.reads if read.watermark)


def open_rows(spark: SparkSession, table: Table, lake: Lake, number: int) -> int:
    """Return how many rows stand in windows that are not closed after a micro-batch, in append mode.

    Counted on upstream's rows, without Spark's state: those whose window ends after the watermark.
    """
    if table.output_mode != "append" or not table.row_count_column:
        return 0
    checkpoint = lake.state(table, "checkpoint")
    upto = progress.offset_of(checkpoint, number)
    rows = at_version(spark, lake.upstream_log(table), upto)
    groups = derived(sound_stream(rows, spark, lake.quarantine(table)), table, lake, {})
    watermark = watermark_of(checkpoint, number)
    return _rows_where(groups, F.col(window_of(groups))["end"] > F.timestamp_millis(F.lit(watermark)), table)


def _session_length(one: DataFrame) -> Column:
    """Return the silence that ends a session, as the window of a single row has it."""
    # Spark judges each row by a window of its own, before sessions are merged.
    found = one.select(f"{quoted(window_of(one))}.*").first()
    assert found is not None
    start, end = (value for value in found if isinstance(value, datetime))
    return F.make_dt_interval(secs=F.lit((end - start).total_seconds()))


def _rows_where(groups: DataFrame, rule: Column, table: Table) -> int:
    # Not by a filter: Spark would push it below the grouping, where a session has not grown yet.
    found = groups.agg(F.sum(F.when(rule, F.col(table.row_count_column))).alias("n")).first()
    return int(found["n"] or 0) if found else 0


def window_of(groups: DataFrame) -> str:
    """Return the column that holds a time window, empty where none does."""
    for field in groups.schema.fields:
        kind = field.dataType
        if isinstance(kind, StructType) and kind.names == ["start", "end"]:
            return field.name
    return ""


def has_sessions(groups: DataFrame) -> bool:
    """Return true where the query groups by session windows."""
    plan: Any = groups._jdf
    return SESSION in str(plan.queryExecution().analyzed().toString())


def watermark_of(checkpoint: Path, number: int) -> int:
    """Return the watermark a micro-batch began with, in milliseconds since 1970; 0 where there is none."""
    planned = checkpoint / "offsets" / str(number)
    if number < 0 or not planned.exists():
        return 0
    for line in planned.read_text().splitlines():
        if line.startswith('{"batchWatermarkMs"'):
            return int(json.loads(line)["batchWatermarkMs"])
    return 0
