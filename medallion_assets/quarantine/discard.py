"""Quarantined rows a person gives up: they stay, with who and why, and are not tried again."""

import uuid

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.errors import ReplayRefused
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.rollback import roll_back
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.writer import sole_writer
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.quarantine.entries import SETTLES, STEP, move_entries
from medallion_assets.sources.quarantine import DISCARDED


def discard(
    table: Table, lake: Lake, spark: SparkSession, choice: QuarantineFilter, why: str, dry_run: bool = False
) -> int:
    """Marks chosen open entries as discarded; gives how many. Conservation goes on counting them.

    Raises:
        ReplayRefused: No reason is given, or the choice cannot be read; nothing was moved.
        TableBusy: Another process writes the table.
    """
    if not why.strip():
        raise ReplayRefused("say why these rows are given up; the reason stays with them")
    path = lake.quarantine(table)
    with sole_writer(table, lake):
        if not log.exists(path):
            return 0
        roll_back(spark, lake.path(table), path, uuid.uuid4().hex)
        entries = spark.read.format("delta").load(str(path)).where(choice.condition)
        told = {"status": F.lit(DISCARDED), "note": F.lit(why), "tried_at": F.current_timestamp()}
        changes = entries.select("entry_id").withColumns(told).withColumn(STEP, F.lit(SETTLES))
        count = entries.count()
        if count and not dry_run:
            note = {"run_id": uuid.uuid4().hex, "table": table.key, "discard": why}
            move_entries(changes, path, Transaction(f"{table.key}/discard/{note['run_id']}", 0, note))
    return count
