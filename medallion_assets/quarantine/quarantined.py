"""Rows that a table's rules quarantined, as entries of the quarantine, and the status of these entries."""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, working
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.quarantine.entries import (
    COMES,
    SETTLES,
    STEP,
    Identity,
    leaving,
    move_entries,
    with_history,
)
from medallion_assets.quarantine.repairs import as_text, text_columns
from medallion_assets.sources.quarantine import (
    ENTRY,
    JOIN,
    KEY,
    NEW_REPAIRED,
    NEW_ROW,
    OPEN,
    QUERY,
    REPLAYED,
    RULE,
    shaped,
)

JUDGED = f"status <> '{REPLAYED}' AND reason_class <> '{QUERY}'"
"""SQL predicate of entries for rows the query returned; entries of rows it failed on are kept apart."""


def append_refused(
    verdict: DataFrame, counts: Mapping[str, int], table: Table, path: Path, transaction: Transaction
) -> None:
    """Append the rows that a batch's rules quarantined."""
    if counts["quarantine"]:
        entries = from_rules(verdict, table, transaction.version, transaction.run_id)
        append(entries, path, transaction.of_quarantine)


def from_rules(judged: DataFrame, table: Table, batch_id: int, run_id: str) -> DataFrame:
    """Return entries for a judged frame's quarantined rows, each with every quarantining rule it broke."""
    refused = judged.where(F.col(working.OUTCOME) == "quarantine")
    rules = _quarantining(table)
    kind = F.when(_any_of(rules, table, JOIN), JOIN).when(_any_of(rules, table, KEY), KEY).otherwise(RULE)
    return shaped(refused, as_text(judged), rules, kind, batch_id, run_id)


def _any_of(rules: Column, table: Table, reason: str) -> Column:
    named = F.array(*(F.lit(e.name) for e in table.expectations if e.reason == reason))
    return F.arrays_overlap(rules, named.cast("array<string>"))


def settled(judged: DataFrame, table: Table) -> DataFrame:
    """Return the new status of entries whose rows were judged: open or replayed."""
    outcome = F.when(F.col(working.OUTCOME) == "quarantine", OPEN).otherwise(REPLAYED)
    texts = {"row": NEW_ROW, "repaired": NEW_REPAIRED}
    return (
        judged.where(F.col(ENTRY).isNotNull())
        .select(
            F.col(ENTRY).alias("entry_id"),
            outcome.alias("status"),
            F.when(outcome == REPLAYED, F.current_timestamp()).alias("replayed_at"),
            _quarantining(table).alias("rules"),
            F.lit(SETTLES).alias(STEP),
            *(F.col(of).alias(name) for name, of in texts.items() if of in judged.columns),
        )
        .dropDuplicates(["entry_id"])
    )


def replace_quarantined(
    judged: DataFrame,
    table: Table,
    path: Path,
    keys: DataFrame | None,
    transaction: Transaction,
    known_by: Identity,
) -> None:
    """Replace the entries of these keys by those of the judged rows, in one commit.

    A row that is quarantined again keeps its entry: first seen, attempts, discarded or not. Entries that a
    replay settled are kept as its record.
    """
    refused = from_rules(judged, table, transaction.version, transaction.run_id)
    if not log.exists(path):
        if not refused.isEmpty():
            append(refused, path, transaction.of_quarantine)
    elif log.row_count(path) or not refused.isEmpty():
        ends = settled(judged, table) if ENTRY in judged.columns else None
        changes = _changes(judged, refused, ends, path, keys, known_by)
        move_entries(changes, path, transaction.of_quarantine)


def _changes(
    judged: DataFrame,
    refused: DataFrame,
    ends: DataFrame | None,
    path: Path,
    keys: DataFrame | None,
    known_by: Identity,
) -> DataFrame:
    """Return how the quarantine changes, in the columns of ``move_entries``."""
    there = judged.sparkSession.read.format("delta").load(str(path)).where(JUDGED)
    if ends is not None:
        refused = refused.join(ends.select("entry_id"), "entry_id", "left_anti")
        there = there.join(ends.select("entry_id"), "entry_id", "left_anti")
    affected = there if keys is None else there.join(leaving(there, keys), "entry_id", "left_semi")
    schema = StructType([judged.schema[c] for c in text_columns(judged)])
    changes = with_history(refused, affected, schema, known_by).withColumn(STEP, F.lit(COMES))
    changes = changes.unionByName(leaving(there, keys), allowMissingColumns=True)
    return changes if ends is None else changes.unionByName(ends, allowMissingColumns=True)


def _quarantining(table: Table) -> Column:
    names = [F.lit(e.name) for e in table.expectations if e.on_violation == "quarantine"]
    return F.array_intersect(working.BROKEN, F.array(*names)) if names else F.col(working.BROKEN)
