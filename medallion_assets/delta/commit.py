"""Commits a micro-batch into a Delta table once, however often it is replayed."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from medallion_assets.delta import log

TIMES = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Spark's own INT96 is read by others as nanoseconds, which overflow: the year 1 as 1754."""


@dataclass(frozen=True)
class Transaction:
    """Who writes: what makes a replayed batch known, and what its commits are signed with.

    Attributes:
        app_id: Table and streaming query; a new checkpoint has a new one, or Delta would ignore its batches.
        batch_id: The micro-batch's number.
        commit_metadata: Goes into each commit's user metadata.
    """

    app_id: str
    batch_id: int
    commit_metadata: Mapping[str, Any]

    @property
    def run_id(self) -> str:
        """Who asked for the batch."""
        return str(self.commit_metadata["run_id"])

    def committed_to(self, path: Path) -> bool:
        """Return true where an earlier attempt at this batch already committed there."""
        return log.committed_batch(path, self.app_id) >= self.batch_id


def append(
    rows: DataFrame,
    path: Path,
    transaction: Transaction,
    mode: str = "append",
    instead_of: str = "",
    keep_schema: bool = False,
) -> None:
    """Write the rows in one commit that a replay of the same batch repeats without effect.

    Args:
        rows: What to write.
        path: The table; it is made where there is none.
        transaction: Who writes.
        mode: ``append`` or ``overwrite``.
        keep_schema: An overwrite keeps what the table's columns are declared to be.
        instead_of: SQL true of the rows they stand in for, and of them; those go in the same commit.
    """
    if instead_of and log.exists(path):
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", instead_of)
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


def _save(writer: DataFrameWriter, path: Path, transaction: Transaction) -> None:
    writer = writer.option("txnAppId", transaction.app_id).option("txnVersion", transaction.batch_id)
    writer.option("userMetadata", json.dumps(transaction.commit_metadata)).save(str(path))
