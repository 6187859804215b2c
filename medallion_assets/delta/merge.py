"""Changes rows of a Delta table in one commit, once however often the micro-batch is replayed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import MapType, VariantType

from medallion_assets.delta import log, working
from medallion_assets.delta.commit import TIMES, Transaction, append, configured
from medallion_assets.delta.names import quoted

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
TXN_APP_ID = "spark.databricks.delta.write.txnAppId"
TXN_VERSION = "spark.databricks.delta.write.txnVersion"

GONE = working.GONE
"""A column of the rows to merge: true where the row only says that its key is to go."""


def upsert(
    rows: DataFrame,
    path: Path,
    transaction: Transaction,
    keys: Sequence[str],
    merged: Mapping[str, str] | None = None,
    among: str = "",
) -> None:
    """Make the table hold these rows: by key, those that differ are changed, new ones added.

    Args:
        rows: The table's columns; with ``working.GONE`` BOOLEAN, those where it is true are taken out.
            A key stands at most once.
        path: The table; it is made where there is none.
        transaction: Who writes.
        keys: Columns that name a row; NULL equals NULL.
        merged: How a column of a row that stands already is joined with the new one, as SQL over
            ``t`` (the table) and ``n`` (the new row); others take the new value.
        among: SQL over ``t``, true of the only rows a new one may be of; others are not looked at.
    """
    columns = [c for c in rows.columns if c != GONE]
    if not log.exists(path):
        kept = rows.where(f"NOT {GONE}").drop(GONE) if GONE in rows.columns else rows
        append(kept, path, transaction)
        return
    told = {quoted(c): (merged or {}).get(c, f"n.{quoted(c)}") for c in columns}
    with signed(rows.sparkSession, transaction):
        into = DeltaTable.forPath(rows.sparkSession, str(path)).alias("t")
        same_key = " AND ".join(f"t.{quoted(k)} <=> n.{quoted(k)}" for k in keys) or "true"
        same_key += f" AND {among}" if among else ""
        merge = into.merge(rows.alias("n"), same_key).withSchemaEvolution()
        if GONE in rows.columns:
            merge = merge.whenMatchedDelete(f"n.{GONE}")
        changes = {c: v for c, v in told.items() if c not in map(quoted, keys)}
        if changes:
            differs = None if merged else _differs(rows, keys, path)
            merge = merge.whenMatchedUpdate(condition=differs, set=_as_columns(changes))
        here = f"NOT n.{GONE}" if GONE in rows.columns else "true"
        merge.whenNotMatchedInsert(
            condition=here, values=_as_columns({quoted(c): f"n.{quoted(c)}" for c in columns})
        ).execute()


def take_out(keys: DataFrame, path: Path, transaction: Transaction, same: str) -> None:
    """Deletes the table's rows (``t``) for which ``same`` holds with a row of ``keys`` (``n``)."""
    if not log.exists(path):
        return
    with signed(keys.sparkSession, transaction):
        into = DeltaTable.forPath(keys.sparkSession, str(path)).alias("t")
        into.merge(keys.alias("n"), same).whenMatchedDelete().execute()


@contextmanager
def signed(spark: SparkSession, transaction: Transaction) -> Iterator[None]:
    """Signs the block's commits, which MERGE and DELETE take from the session alone."""
    options = {USER_METADATA: json.dumps(transaction.commit_metadata)}
    if transaction.app_id:
        options |= {TXN_APP_ID: transaction.app_id, TXN_VERSION: str(transaction.version)}
    with configured(spark, options | TIMES):
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
