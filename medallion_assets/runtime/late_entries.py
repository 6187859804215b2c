"""Rows that came after their window had closed: held in quarantine until the state is recomputed."""

from dataclasses import replace

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

WAITS = f"reason_class = '{LATE}' AND status <> '{REPLAYED}'"
"""SQL true of entries of rows that are in no window of the table."""


def held_late(
    spark: SparkSession, table: Table, lake: Lake, versions: VersionRange, transaction: Transaction
) -> int:
    """Put the late rows of a micro-batch into quarantine, once however often it is replayed.

    Gives how many: a row counts for each closed window it lies in. Where the batch took all of upstream
    anew no row is late, so that those held before are in their windows now, and are settled.
    """
    quarantine, mine = lake.quarantine(table), replace(transaction, app_id=f"{transaction.app_id}/late")
    if versions.after < 0:
        if waits(table, lake):
            move_entries(_settled(spark, table, lake), quarantine, mine)
        return 0
    late = late_rows(spark, table, lake, versions, transaction.batch_id)
    if late is None:
        return 0
    count = late.count()
    if count and not mine.committed_to(quarantine):
        append(_entries(late, transaction), quarantine, mine)
    return count


def waits(table: Table, lake: Lake) -> bool:
    """Return true where a late row is held, told by the log's reader."""
    return bool(log.rows(lake.quarantine(table), f"SELECT 1 FROM t WHERE {WAITS} LIMIT 1"))


def _entries(late: DataFrame, transaction: Transaction) -> DataFrame:
    start, end = (F.date_format(f"{WINDOW}.{side}", "yyyy-MM-dd HH:mm:ss") for side in ("start", "end"))
    why = F.concat(F.lit("late: the window from "), start, F.lit(" to "), end, F.lit(" was closed"))
    row = as_text(late.drop(WINDOW))
    return shaped(late, row, F.array(why), F.lit(LATE), transaction.batch_id, transaction.run_id)


def _settled(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    entries = spark.read.format("delta").load(str(lake.quarantine(table))).where(WAITS)
    return entries.select("entry_id", F.lit(REPLAYED).alias("status"), F.lit(SETTLES).alias(STEP))
