"""Files whose records stand in the lake already: only a checkpoint in a lost one's place can meet them."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession

from medallion_assets.delta import log
from medallion_assets.delta.commit import Stamp
from medallion_assets.ingestion.ledger import Entry
from medallion_assets.ingestion.quarantine import RAW

PROVENANCE = ("_source_file", "_source_modified_at")


def not_loaded(
    spark: SparkSession, files: list[Entry], stamp: Stamp, path: Path, quarantine: Path
) -> list[Entry]:
    """Gives the files of which the table holds no row, nor the quarantine one that a rule refused."""
    known: set[tuple[str, int]] = set()
    if _may_be_met_again(stamp, path):
        # By Spark: the log's reader cannot read a table with widened or mapped columns.
        found = spark.read.format("delta").load(str(path)).select(*PROVENANCE).distinct().collect()
        known = {(row[0], _milliseconds(row[1])) for row in found}
    judged = _held(spark, stamp, quarantine, f"NOT {RAW}")
    return [f for f in files if (f.path, _milliseconds(f.modified_at)) not in known and f.path not in judged]


def not_parsed(spark: SparkSession, files: Sequence[Entry], stamp: Stamp, quarantine: Path) -> list[Entry]:
    """Gives the files of which no malformed record stands in the quarantine."""
    known = _held(spark, stamp, quarantine, RAW)
    return [file for file in files if file.path not in known]


def _held(spark: SparkSession, stamp: Stamp, quarantine: Path, condition: str) -> set[str]:
    if not _may_be_met_again(stamp, quarantine):
        return set()
    held = spark.read.format("delta").load(str(quarantine)).where(condition)
    return {row[0] for row in held.select("source_file").distinct().collect()}


def _milliseconds(time: datetime) -> int:
    # Spark tells a file's time no finer.
    return int(time.timestamp() * 1000)


def _may_be_met_again(stamp: Stamp, path: Path) -> bool:
    return bool(stamp.note["generation"]) and not stamp.committed_to(path) and log.exists(path)
