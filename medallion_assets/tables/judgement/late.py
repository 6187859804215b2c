"""Rows that came after their window had closed: counted on the rows themselves, beside Spark's state."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta import changes, progress
from medallion_assets.delta.changes import Span
from medallion_assets.tables.declaration.table import Table
from medallion_assets.tables.judgement.derive import derived
from medallion_assets.tables.quarantine.held_poison import sound_stream
from medallion_assets.tables.standing.lake import Lake
from medallion_assets.tables.standing.pins import at_version

SESSION = "session_window"


def late_rows(spark: SparkSession, table: Table, lake: Lake, span: Span, number: int) -> int:
    """Gives how many rows of a micro-batch fell into windows that were closed when it began.

    The batch's own rows are aggregated once more, without state: groups whose window ended at or before
    the watermark are those Spark passes over. Session windows are told by the query's progress instead,
    since a late row and one in time may make one session here and do not there.
    """
    # Spark closes windows by a batch's own watermark and passes over late rows by the one before it,
    # so that what one operator gives out is never late for the next.
    watermark = watermark_of(lake.state(table, "checkpoint"), number - 1)
    if span.after < 0 or span.upto <= span.after or watermark <= 0 or not table.counts_rows:
        return 0
    rows = changes.added(changes.changed(spark, lake.upstream_log(table), span))
    rows = sound_stream(rows, spark, lake.quarantine(table))
    groups = derived(rows, table, lake, {})
    window = window_of(groups)
    if not window or has_sessions(groups):
        return 0
    return _rows_where(groups, F.col(window)["end"] <= F.timestamp_millis(F.lit(watermark)), table)


def open_rows(spark: SparkSession, table: Table, lake: Lake, number: int) -> int:
    """Gives how many rows stand in windows that are not closed after a micro-batch, in append mode.

    Counted on upstream's rows, without Spark's state: those whose window ends after the watermark.
    """
    if table.output_mode != "append" or not table.counts_rows:
        return 0
    checkpoint = lake.state(table, "checkpoint")
    upto = progress.offset_of(checkpoint, number, feed=True).version
    rows = at_version(spark, lake.upstream_log(table), upto)
    groups = derived(sound_stream(rows, spark, lake.quarantine(table)), table, lake, {})
    watermark = watermark_of(checkpoint, number)
    return _rows_where(groups, F.col(window_of(groups))["end"] > F.timestamp_millis(F.lit(watermark)), table)


def _rows_where(groups: DataFrame, rule: Column, table: Table) -> int:
    # Not by a filter: Spark would push it below the grouping, where a session has not grown yet.
    found = groups.agg(F.sum(F.when(rule, F.col(table.counts_rows))).alias("n")).first()
    return int(found["n"] or 0) if found else 0


def window_of(groups: DataFrame) -> str:
    """Gives the column that holds a time window, empty where none does."""
    for field in groups.schema.fields:
        kind = field.dataType
        if isinstance(kind, StructType) and kind.names == ["start", "end"]:
            return field.name
    return ""


def has_sessions(groups: DataFrame) -> bool:
    """True where the query groups by session windows."""
    plan: Any = groups._jdf
    return SESSION in str(plan.queryExecution().analyzed().toString())


def watermark_of(checkpoint: Path, number: int) -> int:
    """Gives the watermark a micro-batch began with, in milliseconds since 1970; 0 where there is none."""
    planned = checkpoint / "offsets" / str(number)
    if number < 0 or not planned.exists():
        return 0
    for line in planned.read_text().splitlines():
        if line.startswith('{"batchWatermarkMs"'):
            return int(json.loads(line)["batchWatermarkMs"])
    return 0
