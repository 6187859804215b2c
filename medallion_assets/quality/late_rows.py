"""Find the rows that Spark's windows drop: late rows and rows without a time.

They are found in the input rows; Spark's state is not read.
"""

import json
from collections.abc import Sequence
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
from medallion_assets.session.frames import each, of_plan, seq

SESSION = "session_window"
WINDOW = "_window"


def late_rows(
    spark: SparkSession, table: Table, lake: Lake, versions: VersionRange, number: int
) -> DataFrame | None:
    """Return the rows of a micro-batch whose window was closed when it began, None where there is none.

    Returns:
        Upstream's columns and ``_window`` STRUCT<start TIMESTAMP, end TIMESTAMP>: one row for each
        closed window that a late row lies in.
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


SESSION_MARK = "spark.sessionWindow"
MARKS = ("spark.timeWindow", SESSION_MARK)
"""In the metadata of a window's column: what Spark's ``window`` and ``session_window`` made."""


def without_time(rows: DataFrame, answer: DataFrame) -> DataFrame | None:
    """Return the upstream rows whose time is NULL, which no window takes.

    Args:
        rows: Upstream's columns.
        answer: What the query makes of them.

    Returns:
        Rows in upstream's columns; None where the query has no window, or one over rows that are no more
        upstream's: joined from both sides, exploded or grouped before.
    """
    spark = rows.sparkSession
    jvm: Any = spark._jvm
    catalyst: Any = jvm.org.apache.spark.sql.catalyst
    found = _time_and_source(answer._jdf.queryExecution().analyzed(), None)
    if found is None:
        return None
    time, source = found
    own = [*each(rows._jdf.queryExecution().analyzed().output())]
    source = _carrying(source, own, spark)
    if source is None:
        return None
    timeless = catalyst.plans.logical.Filter(catalyst.expressions.IsNull(time), source)
    return of_plan(catalyst.plans.logical.Project(seq(own, spark), timeless), spark)


def _time_and_source(plan: Any, above: Any) -> tuple[Any, Any] | None:
    """Return the lowest window's time, an expression, and the plan of the rows it is taken of."""
    below = [*each(plan.children())]
    for child in below:
        found = _time_and_source(child, plan)
        if found is not None:
            return found
    kind = plan.nodeName()
    if kind not in ("Project", "Expand") or not _has_window(plan) or _has_window(below[0]):
        return None
    # Spark filters rows below tumbling windows, and above all others.
    is_below = kind == "Project" and not _has_window(plan, (SESSION_MARK,))
    taken = below[0] if is_below else above
    if taken is None or taken.nodeName() != "Filter":
        return None
    condition = taken.condition()
    while condition.nodeName() == "And":
        condition = condition.left()
    time = condition.child() if condition.nodeName() == "IsNotNull" else condition.left()
    return time, taken.child() if is_below else below[0]


def _has_window(plan: Any, marks: Sequence[str] = MARKS) -> bool:
    return any(a.metadata().contains(mark) for a in each(plan.output()) for mark in marks)


def _carrying(plan: Any, columns: list[Any], spark: SparkSession) -> Any:
    """Return a plan that gives these columns besides its own; None where they are not below it."""
    there = {a.exprId().id() for a in each(plan.output())}
    lacking = [c for c in columns if c.exprId().id() not in there]
    if not lacking:
        return plan
    if plan.nodeName() not in ("Project", "Filter", "SubqueryAlias"):
        return None
    below = _carrying(plan.children().apply(0), columns, spark)
    if below is None:
        return None
    if plan.nodeName() != "Project":
        return plan.withNewChildren(seq([below], spark))
    jvm: Any = spark._jvm
    project = jvm.org.apache.spark.sql.catalyst.plans.logical.Project
    return project(seq([*each(plan.projectList()), *lacking], spark), below)


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
    window = F.col(quoted(window_of(one)))
    # Spark subtracts: in the zone of the machine, which Python's times have, an hour may be missing.
    found = one.select(window["end"] - window["start"]).first()
    assert found is not None
    return F.lit(found[0])


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
