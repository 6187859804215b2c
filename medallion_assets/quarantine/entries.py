"""Entries of a quarantine moved in one commit: new ones come, some leave, some are settled."""

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta import log, working
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.merge import signed
from medallion_assets.delta.names import quoted
from medallion_assets.quarantine.identity import ROW_ID, TEXT, Identity, paired
from medallion_assets.sources.quarantine import DISCARDED, FROM_JSON

STEP = working.STEP
COMES, LEAVES, SETTLES = "comes", "leaves", "settles"

SETTLED = {
    "rules": "if(size(n.rules) > 0, n.rules, t.rules)",
    "attempts": "t.attempts + coalesce(n.attempts, 0)",
    **{c: f"coalesce(n.{c}, t.{c})" for c in ("row", "status", "repaired", "replay_id", "tried_at", "note")},
}
"""What an entry becomes that is settled: what is not spoken of stays."""


def move_entries(changes: DataFrame, path: Path, transaction: Transaction) -> None:
    """Add, settle and take out entries in one commit.

    Args:
        changes: ``STEP`` STRING and columns of the quarantine: ``comes`` adds an entry, ``settles`` gives
            the one of its ``entry_id`` another status, ``leaves`` takes it out.
        path: The quarantine.
        transaction: Who writes.
    """
    shown = {name for name, _ in log.schema(path)} & set(changes.columns)
    values: dict[str, str | Column] = {quoted(c): F.expr(f"n.{quoted(c)}") for c in shown}
    told: dict[str, str | Column] = {c: F.expr(v) for c, v in SETTLED.items() if c in shown}
    with signed(changes.sparkSession, transaction):
        into = DeltaTable.forPath(changes.sparkSession, str(path)).alias("t")
        merge = into.merge(changes.alias("n"), f"t.entry_id = n.entry_id AND n.{STEP} <> '{COMES}'")
        merge = merge.whenMatchedUpdate(condition=f"n.{STEP} = '{SETTLES}'", set=told).whenMatchedDelete()
        merge.whenNotMatchedInsert(condition=f"n.{STEP} = '{COMES}'", values=values).execute()


def with_history(refused: DataFrame, there: DataFrame, schema: StructType, known_by: Identity) -> DataFrame:
    """Return refused rows under the entries they had: when first seen, how often tried, and as what.

    A row that was given up stays so while all that upstream says of it is the same.
    """
    # An entry's number is drawn where it is read: it has to be the same wherever it is read from now on.
    rows = refused.localCheckpoint()
    kept = ("entry_id", "quarantined_at", "attempts", "tried_at", "replay_id", "repaired", "note")
    entries = there.select(*kept, "row", "status", (F.col("status") != DISCARDED).alias("by_key"))
    entries = entries.localCheckpoint()
    placed = rows.select(F.col("entry_id").alias(ROW_ID), F.col("row").alias(TEXT))
    pairs = paired(placed, entries, schema, known_by)
    before = pairs.join(entries.drop("row", "by_key"), "entry_id")
    renamed = before.select(ROW_ID, *(F.col(c).alias(f"_was_{c}") for c in (*kept, "status")))
    joined = rows.withColumn(ROW_ID, F.col("entry_id")).join(renamed, ROW_ID, "left")
    told = {c: F.coalesce(F.col(f"_was_{c}"), F.col(c)) for c in (*kept, "status")}
    return joined.withColumns(told).select(refused.columns)


def leaving(there: DataFrame, keys: DataFrame | None) -> DataFrame:
    """Return the entries of these keys, all for None, as they leave: ``entry_id`` and ``working.STEP``."""
    if keys is not None:
        parsed = there.withColumn("_row", F.from_json("row", keys.schema, FROM_JSON))
        same = F.lit(True)
        for name in keys.columns:
            same = same & F.col(f"_row.{quoted(name)}").eqNullSafe(F.col(f"_key.{quoted(name)}"))
        there = parsed.join(keys.alias("_key"), same, "left_semi")
    return there.select("entry_id", F.lit(LEAVES).alias(STEP))
