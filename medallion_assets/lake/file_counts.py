"""What became of landing files, written down again where a replay moved their records."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.quarantine import REPLAYED


def retell(spark: SparkSession, table: Table, lake: Lake, files: Sequence[str], run_id: str) -> None:
    """Append to the status table how many records of these files are rows now, and how many are held."""
    loaded = _counted(spark, lake.path(table), "_source_file", files)
    held = _counted(spark, lake.quarantine(table), "source_file", files, f"status <> '{REPLAYED}'")
    newest = ledgers.newest_of(lake.ledger(table), files)
    known = outcomes.of_entries(lake.ledger(table), newest.values())
    now = {"processed_time": datetime.now(timezone.utc), "run_id": run_id}
    rows = [
        known[s] | now | {"rows_loaded": loaded.get(f, 0), "rows_quarantined": held.get(f, 0)}
        for f, s in newest.items()
        if s in known
    ]
    outcomes.add(lake.ledger(table), rows)


def _counted(
    spark: SparkSession, path: Path, column: str, files: Sequence[str], condition: str = "true"
) -> dict[str, int]:
    if not log.exists(path):
        return {}
    rows = spark.read.format("delta").load(str(path)).where(condition)
    found = rows.where(F.col(column).isin(list(files))).groupBy(column).count()
    return {row[0]: row[1] for row in found.collect()}
