"""One commit of a batch: its transaction, and rows appended or rewritten under it exactly once."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from medallion_assets.delta import log

TIMES = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Spark's own INT96 is read by others as nanoseconds, which overflow: the year 1 as 1754."""

PENDING, BEFORE = "pending", "before"
"""In the metadata of a quarantine's commit: the table's commit it belongs to, the version to go back to."""


@dataclass(frozen=True)
class Transaction:
    """What a batch is committed as.

    Attributes:
        app_id: The stream and its epoch (``delta.position.app_id``); empty for a commit that no identifier
            guards, which is what the quarantine's half of a batch is.
        version: The upstream version that the commit brings the table to.
        commit_metadata: Goes into the commit's ``userMetadata``.
        before: Version of the quarantine before the batch; None where it had no quarantine.
    """

    app_id: str
    version: int
    commit_metadata: Mapping[str, Any]
    before: int | None = None

    @property
    def run_id(self) -> str:
        """Who asked for the batch."""
        return str(self.commit_metadata["run_id"])

    @property
    def batch_id(self) -> int:
        """What rows and quarantine entries carry as their batch: the upstream version."""
        return self.version

    @property
    def of_quarantine(self) -> "Transaction":
        """The batch's half in the quarantine.

        It is valid only once the table has committed; until then ``quarantine.rollback`` takes it back. No
        identifier guards it: after a rollback the same version is written again.
        """
        told = {"run_id": self.run_id, "table": self.commit_metadata.get("table", "")}
        told |= {PENDING: [self.app_id, self.version], BEFORE: self.before}
        return replace(self, app_id="", commit_metadata=told)

    def committed_to(self, path: Path) -> bool:
        """Return true where the table has this transaction's commit already."""
        return bool(self.app_id) and log.committed_version(path, self.app_id) >= self.version


def with_metadata(transaction: Transaction, told: Mapping[str, Any]) -> Transaction:
    """Return the transaction with more in its commit metadata."""
    return replace(transaction, commit_metadata={**transaction.commit_metadata, **told})


def append(
    rows: DataFrame,
    path: Path,
    transaction: Transaction,
    mode: str = "append",
    replace_where: str = "",
    keep_schema: bool = False,
) -> None:
    """Write the rows in one commit, which does nothing where the table has the transaction already.

    Args:
        rows: What to write.
        path: The table; it is created where there is none.
        transaction: What is committed.
        mode: ``append`` or ``overwrite``.
        replace_where: SQL predicate; existing rows that match it are deleted in the same commit. New rows
            must match it too.
        keep_schema: An overwrite keeps the declared types of the table's columns.
    """
    if replace_where and log.exists(path):
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", replace_where)
        writer = writer.option("mergeSchema", "true")
    else:
        option = "mergeSchema" if mode == "append" or keep_schema else "overwriteSchema"
        writer = rows.write.format("delta").mode(mode).option(option, "true")
    with configured(rows.sparkSession, TIMES):
        _save(writer, path, transaction)


@contextmanager
def configured(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Set a session's options for the block, and put back what they were."""
    before = {name: spark.conf.get(name, None) for name in options}
    try:
        for name, value in options.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def commit_nothing(spark: SparkSession, path: Path, transaction: Transaction) -> None:
    """Write a commit without rows, which only moves the table's position; nothing where there is no table."""
    if log.exists(path) and not transaction.committed_to(path):
        append(spark.read.format("delta").load(str(path)).limit(0), path, transaction)


def _save(writer: DataFrameWriter, path: Path, transaction: Transaction) -> None:
    if transaction.app_id:
        writer = writer.option("txnAppId", transaction.app_id).option("txnVersion", transaction.version)
    writer.option("userMetadata", json.dumps(transaction.commit_metadata)).save(str(path))
