"""Files whose records stand in the lake already: only a checkpoint in a lost one's place can meet them."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession

from medallion_assets.delta import log
from medallion_assets.delta.commit import Transaction
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.quarantine import RAW

PROVENANCE = ("_source_file", "_source_modified_at")


def not_loaded(
    spark: SparkSession, files: list[Entry], transaction: Transaction, path: Path, quarantine: Path
) -> list[Entry]:
    """Return the files of which the table holds no row, nor the quarantine one that a rule refused."""
    known: set[tuple[str, int]] = set()
    if _may_be_met_again(transaction, path):
        # By Spark: the log's reader cannot read a table with widened or mapped columns.
        found = spark.read.format("delta").load(str(path)).select(*PROVENANCE).distinct().collect()
        known = {(row[0], _milliseconds(row[1])) for row in found}
    judged = _held(spark, transaction, quarantine, f"NOT {RAW}")
    return [f for f in files if (f.path, _milliseconds(f.modified_at)) not in known and f.path not in judged]


def not_parsed(
    spark: SparkSession, files: Sequence[Entry], transaction: Transaction, quarantine: Path
) -> list[Entry]:
    """Return the files of which no malformed record stands in the quarantine."""
    known = _held(spark, transaction, quarantine, RAW)
    return [file for file in files if file.path not in known]


def _held(spark: SparkSession, transaction: Transaction, quarantine: Path, condition: str) -> set[str]:
    if not _may_be_met_again(transaction, quarantine):
        return set()
    held = spark.read.format("delta").load(str(quarantine)).where(condition)
    return {row[0] for row in held.select("source_file").distinct().collect()}


def _milliseconds(time: datetime) -> int:
    # Spark tells a file's time no finer.
    return int(time.timestamp() * 1000)


def _may_be_met_again(transaction: Transaction, path: Path) -> bool:
    return (
        bool(transaction.commit_metadata["generation"])
        and not transaction.committed_to(path)
        and log.exists(path)
    )
