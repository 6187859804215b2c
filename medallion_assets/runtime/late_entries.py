"""Rows that came after their window had closed: held in quarantine until the state is recomputed."""

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.late_rows import WINDOW, late_rows
from medallion_assets.quarantine.entries import SETTLES, STEP, move_entries
from medallion_assets.quarantine.repairs import as_text
from medallion_assets.sources.quarantine import LATE, REPLAYED, shaped

Half = Callable[[Lake, Transaction], None]
"""Writes a part of a batch's half into a lake's quarantine."""

WAITS = f"reason_class = '{LATE}' AND status <> '{REPLAYED}'"
"""SQL true of entries of rows that are in no window of the table."""


def prepare_late(
    spark: SparkSession, table: Table, lake: Lake, versions: VersionRange, number: int
) -> tuple[int, Half]:
    """Return how many rows of a micro-batch came late, and what puts them into quarantine.

    A row counts for each closed window it lies in. Where the batch takes all of upstream no row is late:
    those held before are in their windows then, and are settled.
    """
    if versions.after < 0:
        return 0, partial(_settle, spark, table)
    late = late_rows(spark, table, lake, versions, number)
    count = late.count() if late is not None else 0
    return count, partial(_hold, late if count else None, table)


def _hold(late: DataFrame | None, table: Table, target: Lake, transaction: Transaction) -> None:
    if late is not None:
        append(_entries(late, transaction), target.quarantine(table), transaction.of_quarantine)


def _settle(spark: SparkSession, table: Table, target: Lake, transaction: Transaction) -> None:
    if waits(table, target):
        move_entries(_settled(spark, table, target), target.quarantine(table), transaction.of_quarantine)


def waits(table: Table, lake: Lake) -> bool:
    """Return true where a late row is held, told by the log's reader."""
    return bool(log.rows(lake.quarantine(table), f"SELECT 1 FROM t WHERE {WAITS} LIMIT 1"))


def _entries(late: DataFrame, transaction: Transaction) -> DataFrame:
    start, end = (F.date_format(f"{WINDOW}.{side}", "yyyy-MM-dd HH:mm:ss") for side in ("start", "end"))
    why = F.concat(F.lit("late: the window from "), start, F.lit(" to "), end, F.lit(" was closed"))
    row = as_text(late.drop(WINDOW))
    return shaped(late, row, F.array(why), F.lit(LATE), transaction.version, transaction.run_id)


def _settled(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    entries = spark.read.format("delta").load(str(lake.quarantine(table))).where(WAITS)
    return entries.select("entry_id", F.lit(REPLAYED).alias("status"), F.lit(SETTLES).alias(STEP))
