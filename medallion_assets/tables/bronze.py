"""A bronze micro-batch: the ledger's files to records, each record to the table or its quarantine."""

import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.commit import Stamp, append
from medallion_assets.ingestion.inference import schema_of
from medallion_assets.ingestion.ledger import ADMITTED, Entry
from medallion_assets.ingestion.reading import records_of
from medallion_assets.ingestion.staging import Staging
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.quarantined import from_records
from medallion_assets.tables.table import Table
from medallion_assets.tables.write import write_judged

PARSED_ALREADY = "SELECT DISTINCT source_file AS f FROM t WHERE reason_class = 'parse'"
PROVENANCE = ("_source_file", "_source_modified_at")


def write_files(ledger_rows: DataFrame, table: Table, lake: Lake, stamp: Stamp) -> Batch:
    """Loads the files a micro-batch of the ledger names; gives what became of their records.

    A file whose records stand in the table already (its checkpoint was lost) is left out.
    """
    started = time.monotonic()
    files = _admitted(ledger_rows)
    path, quarantine = lake.path(table), lake.quarantine(table)
    staging = Staging(lake.state(table, "staging"))
    parse = replace(stamp, app_id=f"{stamp.app_id}/parse")
    fresh = _not_loaded(files, stamp, path, 'SELECT DISTINCT "_source_file" AS f FROM t')
    counts = _load(ledger_rows.sparkSession, fresh, table, lake, staging, stamp)
    if counts["malformed"] and not parse.committed_to(quarantine):
        refused = _not_loaded(fresh, stamp, quarantine, PARSED_ALREADY)
        records = _records(ledger_rows.sparkSession, refused, table, staging)
        append(from_records(records, stamp.batch_id, str(stamp.note["run_id"])), quarantine, parse)
    staging.discard()
    return _batch(counts, table, stamp, len(fresh), time.monotonic() - started)


def _load(
    spark: SparkSession, files: list[Entry], table: Table, lake: Lake, staging: Staging, stamp: Stamp
) -> dict[str, int]:
    if not files:
        return {"good": 0, "quarantine": 0, "drop": 0, "duplicate": 0, "malformed": 0}
    records = _records(spark, files, table, staging)
    malformed = Observation(f"{table.key}-malformed-{time.monotonic_ns()}")
    watched = records.observe(malformed, F.count_if(F.col("_reason").isNotNull()).alias("malformed"))
    rows = table(watched.where("_reason IS NULL").drop("_raw", "_reason"))
    stamped = _with_provenance(rows, stamp)
    counts = write_judged(stamped, table, lake.path(table), lake.quarantine(table), None, stamp)
    return counts | {k: int(v) for k, v in malformed.get.items()}


def _records(spark: SparkSession, files: list[Entry], table: Table, staging: Staging) -> DataFrame:
    assert table.source is not None
    schema = schema_of(spark, table.source, files, staging)
    return records_of(spark, files, table.source, schema, staging)


def _with_provenance(rows: DataFrame, stamp: Stamp) -> DataFrame:
    kept = [c for c in rows.columns if c not in PROVENANCE]
    return rows.select(
        *kept,
        *PROVENANCE,
        F.current_timestamp().alias("_ingested_at"),
        F.lit(stamp.batch_id).cast("bigint").alias("_batch_id"),
    )


def _admitted(ledger_rows: DataFrame) -> list[Entry]:
    chosen = ledger_rows.where(F.col("status") == ADMITTED).orderBy("modified_at", "path").collect()
    return [Entry(**_utc(row.asDict())) for row in chosen]


def _utc(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v.astimezone() if isinstance(v, datetime) else v for k, v in row.items()}


def _not_loaded(files: list[Entry], stamp: Stamp, path: Path, sql: str) -> list[Entry]:
    # Only a checkpoint that replaces a lost one can meet files that were loaded before.
    if not stamp.note["generation"] or stamp.committed_to(path):
        return files
    known = {row["f"] for row in log.rows(path, sql)}
    return [file for file in files if file.path not in known]


def _batch(counts: dict[str, int], table: Table, stamp: Stamp, files: int, seconds: float) -> Batch:
    refused = counts["quarantine"] + counts["malformed"]
    return Batch(
        number=stamp.batch_id,
        read=counts["good"] + refused + counts["drop"] + counts["duplicate"],
        written=counts["good"],
        quarantined=refused,
        dropped=counts["drop"],
        rules={e.name: counts.get(f"rule:{e.name}", 0) for e in table.expectations},
        files=files,
        seconds=seconds,
        run_id=str(stamp.note["run_id"]),
    )
