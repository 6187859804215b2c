"""One commit of a batch: rows appended, rewritten or merged under its transaction, exactly once."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import MapType, VariantType

from medallion_assets.delta import log, working
from medallion_assets.delta.errors import LateCommit
from medallion_assets.delta.few_rows import Mode, write_few
from medallion_assets.delta.names import quoted
from medallion_assets.session.frames import is_local
from medallion_assets.storage import ObjectPath
from medallion_assets.storage.lease import check_held

TIMES = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Spark's default INT96 overflows in readers that use nanoseconds: they read the year 1 as 1754."""

PENDING, BEFORE = "pending", "before"
"""In the metadata of a quarantine's commit: the table's commit it belongs to, the version to go back to."""


@dataclass(frozen=True)
class Transaction:
    """The identity of a batch's commit: an application transaction and the commit metadata.

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
        """The id of the run that writes the batch."""
        return str(self.commit_metadata["run_id"])

    @property
    def batch_id(self) -> int:
        """The batch id in rows and quarantine entries: the upstream version."""
        return self.version

    @property
    def of_quarantine(self) -> "Transaction":
        """The transaction of the batch's commit on the quarantine.

        The commit is valid only after the table's own commit; until then ``delta.rollback`` undoes it. It has
        no application id: after a rollback, the same version is written again.
        """
        metadata = {"run_id": self.run_id, "table": self.commit_metadata.get("table", "")}
        metadata |= {PENDING: [self.app_id, self.version], BEFORE: self.before}
        return replace(self, app_id="", commit_metadata=metadata)

    def committed_to(self, path: Path) -> bool:
        """Return true where the table has this transaction's commit already."""
        return bool(self.app_id) and log.committed_version(path, self.app_id) >= self.version

    def refuse_others(self, path: Path) -> None:
        """Raise where a quarantine has a commit of another run since this batch began.

        Raises:
            LateCommit: It has; nothing was committed.
        """
        for info in log.newest_commits(path) if PENDING in self.commit_metadata and log.exists(path) else ():
            metadata = log.commit_metadata_of(info)
            if self.before is not None and info["version"] <= self.before:
                return
            if PENDING in metadata and metadata["run_id"] != self.run_id:
                raise LateCommit(path, metadata["run_id"])


def with_metadata(transaction: Transaction, metadata: Mapping[str, Any]) -> Transaction:
    """Return the transaction with more in its commit metadata."""
    return replace(transaction, commit_metadata={**transaction.commit_metadata, **metadata})


def append(
    rows: DataFrame,
    path: Path,
    transaction: Transaction,
    mode: Mode = "append",
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
    if not replace_where and write_few(rows, path, transaction, mode):
        return
    # Values are spread over all cores, each of which would write a file.
    rows = rows.coalesce(1) if is_local(rows) else rows
    if replace_where and log.exists(path):
        writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", replace_where)
        writer = writer.option("mergeSchema", "true")
    else:
        option = "mergeSchema" if mode == "append" or keep_schema else "overwriteSchema"
        writer = rows.write.format("delta").mode(mode).option(option, "true")
    # The session of the rows: that of a micro-batch is not the one that is active here.
    with fenced(rows.sparkSession, path, transaction), configured(rows.sparkSession, TIMES):
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


NEXT_COMMIT = "spark.medallion.commit"
"""The one log entry that may be written, as ``session/PutIfAbsent.scala`` reads it."""


@contextmanager
def fenced(spark: SparkSession, path: Path, transaction: Transaction) -> Iterator[None]:
    """Let the block commit to a table while this process holds its leases.

    In an object store the block may commit the version after the newest one only, as it was before the
    leases were checked: whoever takes over commits to that version or a later one, and the store lets one
    process create it. So no commit follows another process's, however long this one is paused in the block.

    Raises:
        LeaseLost: Another process took over; nothing was committed.
    """
    if not isinstance(path, ObjectPath):
        check_held()
        yield
        return
    newest = log.version(path)
    transaction.refuse_others(path)
    check_held()
    following = log.entry_of(path, 0 if newest is None else newest + 1)
    try:
        with configured(spark, {NEXT_COMMIT: str(following)}):
            yield
    except Exception:
        check_held()
        raise


USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
TXN_VERSION = "spark.databricks.delta.write.txnVersion"

GONE = working.GONE
"""A column of the rows to merge: true where the row of this key is deleted from the table."""


def upsert(
    rows: DataFrame,
    path: Path,
    transaction: Transaction,
    keys: Sequence[str],
    merged: Mapping[str, str] | None = None,
    among: str = "",
) -> None:
    """Merge rows into the table by key: update existing rows that differ, insert new ones.

    Args:
        rows: The table's columns, and optionally ``working.GONE`` BOOLEAN: true deletes the key's row.
            A key occurs at most once.
        path: The table; it is created where it does not exist.
        transaction: Who writes.
        keys: Columns that name a row; NULL equals NULL.
        merged: How a column of an existing row is combined with the new one, as SQL over
            ``t`` (the table) and ``n`` (the new row); others take the new value.
        among: SQL predicate over ``t``; only table rows that match it are compared.
    """
    columns = [c for c in rows.columns if c != GONE]
    if not log.exists(path):
        kept = rows.where(f"NOT {GONE}").drop(GONE) if GONE in rows.columns else rows
        append(kept, path, transaction)
        return
    values = {quoted(c): (merged or {}).get(c, f"n.{quoted(c)}") for c in columns}
    with signed(rows.sparkSession, path, transaction):
        into = DeltaTable.forPath(rows.sparkSession, str(path)).alias("t")
        same_key = " AND ".join(f"t.{quoted(k)} <=> n.{quoted(k)}" for k in keys) or "true"
        same_key += f" AND {among}" if among else ""
        merge = into.merge(rows.alias("n"), same_key).withSchemaEvolution()
        if GONE in rows.columns:
            merge = merge.whenMatchedDelete(f"n.{GONE}")
        changes = {c: v for c, v in values.items() if c not in map(quoted, keys)}
        if changes:
            differs = None if merged else _differs(rows, keys, path)
            merge = merge.whenMatchedUpdate(condition=differs, set=_as_columns(changes))
        here = f"NOT n.{GONE}" if GONE in rows.columns else "true"
        merge.whenNotMatchedInsert(
            condition=here, values=_as_columns({quoted(c): f"n.{quoted(c)}" for c in columns})
        ).execute()


def take_out(keys: DataFrame, path: Path, transaction: Transaction, same: str) -> None:
    """Delete the table's rows (``t``) for which ``same`` holds with a row of ``keys`` (``n``)."""
    if not log.exists(path):
        return
    with signed(keys.sparkSession, path, transaction):
        into = DeltaTable.forPath(keys.sparkSession, str(path)).alias("t")
        into.merge(keys.alias("n"), same).whenMatchedDelete().execute()


@contextmanager
def signed(spark: SparkSession, path: Path, transaction: Transaction) -> Iterator[None]:
    """Set transaction and metadata for the block's commit; MERGE and DELETE read them from the session."""
    options = {USER_METADATA: json.dumps(transaction.commit_metadata)}
    if transaction.app_id:
        options |= {TXN_APP_ID: transaction.app_id, TXN_VERSION: str(transaction.version)}
    with fenced(spark, path, transaction), configured(spark, options | TIMES):
        yield


def _differs(rows: DataFrame, keys: Sequence[str], path: Path) -> str | None:
    """Return when a row is worth writing: unchanged ones would travel downstream as changes."""
    known = {name for name, _ in log.schema(path)}
    plain = {f.name for f in rows.schema.fields if not isinstance(f.dataType, (MapType, VariantType))}
    columns = [c for c in rows.columns if c not in (*keys, GONE)]
    if not columns or not set(columns) <= known & plain:
        return None
    return " OR ".join(f"NOT (t.{quoted(c)} <=> n.{quoted(c)})" for c in columns)


def _as_columns(expressions: Mapping[str, str]) -> dict[str, str | Column]:
    return {name: F.expr(text) for name, text in expressions.items()}
