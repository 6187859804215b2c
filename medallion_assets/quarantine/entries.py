"""Entries of a quarantine: matching recomputed rows with them, and changing them in one commit."""

from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta import log, working
from medallion_assets.delta.commit import Transaction, signed
from medallion_assets.delta.names import quoted
from medallion_assets.session.frames import cut_off
from medallion_assets.sources.quarantine import DISCARDED
from medallion_assets.sources.row_json import read_row, row_json

TEXT = working.TEXT
ROW_ID = working.ROW_ID
BY_KEY = 2
RELOADED = ("_batch_id", "_ingested_at", "_source_modified_at")
"""Columns whose values change when a file is loaded again."""


class Identity(NamedTuple):
    """The columns by which a row is matched with its entry, besides its whole text.

    Attributes:
        lasting: What the query gives under names upstream has, and the keys: a changed static row or a file
            loaded again leaves them as they were. Empty where that would be the keys alone.
        keys: The columns by which the table is recomputed; none where rows have no key.
    """

    lasting: tuple[str, ...]
    keys: tuple[str, ...]


def identity_of(columns: Iterable[str], upstream: Iterable[str], keys: Sequence[str]) -> Identity:
    """Return the columns by which rows computed from upstream rows are matched with their entries."""
    columns, stays = list(columns), {*keys, *upstream} - {*RELOADED}
    lasting = tuple(c for c in columns if c in stays)
    return Identity(lasting if {*lasting} - {*keys} else (), tuple(c for c in columns if c in keys))


def paired(rows: DataFrame, entries: DataFrame, schema: StructType, known_by: Identity) -> DataFrame:
    """Return which entry each row is: one of its text, else of its lasting columns, else of its key.

    Each entry is at most one row's, and each row at most one entry's. Both frames are read several times:
    they are small, and cut off from what they were made of.

    Args:
        rows: ``working.ROW_ID`` and ``working.TEXT`` STRING.
        entries: ``entry_id``, ``row`` STRING, ``by_key`` BOOLEAN: its key alone may say which row it is.
        schema: Of the rows the texts are.
        known_by: ``identity_of``.

    Returns:
        ``ROW_ID``, ``entry_id``, ``working.LEVEL`` INT (0 of the same text, 1 of the same lasting columns,
        2 of the same key).
    """
    left, right = rows.select(ROW_ID, TEXT), entries.select("entry_id", F.col("row").alias(TEXT), "by_key")
    pairs: list[DataFrame] = []
    for level, columns in enumerate(((), *known_by)):
        if level and not columns:
            continue
        asked = right.where("by_key") if level == BY_KEY else right
        known = _numbered(asked, columns, schema, "entry_id").drop(TEXT)
        found = _numbered(left, columns, schema, ROW_ID).join(known, [working.IDENTITY, working.NTH])
        pairs.append(cut_off(found.select(ROW_ID, "entry_id", F.lit(level).alias(working.LEVEL))))
        left = left.join(pairs[-1].select(ROW_ID), ROW_ID, "left_anti")
        right = cut_off(right.join(pairs[-1].select("entry_id"), "entry_id", "left_anti"))
        if right.isEmpty():
            break
    return reduce(DataFrame.unionByName, pairs)


def _numbered(rows: DataFrame, columns: Sequence[str], schema: StructType, name: str) -> DataFrame:
    """Return rows with ``working.IDENTITY`` STRING, and ``working.NTH`` INT among those of one identity."""
    row = read_row(F.col(TEXT), schema)
    known = row_json({c: row[c] for c in columns}, schema) if columns else F.col(TEXT)
    identified = rows.withColumn(working.IDENTITY, known)
    turn = Window.partitionBy(working.IDENTITY).orderBy(TEXT, name)
    return identified.withColumn(working.NTH, F.row_number().over(turn))


STEP = working.STEP
COMES, LEAVES, SETTLES = "comes", "leaves", "settles"

SETTLED = {
    "rules": "if(size(n.rules) > 0, n.rules, t.rules)",
    "attempts": "t.attempts + coalesce(n.attempts, 0)",
    "replayed_at": "coalesce(t.replayed_at, n.replayed_at)",
    **{c: f"coalesce(n.{c}, t.{c})" for c in ("row", "status", "repaired", "replay_id", "tried_at", "note")},
}
"""The values of a settled entry; columns that a change leaves NULL keep their value."""


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
    settled: dict[str, str | Column] = {c: F.expr(v) for c, v in SETTLED.items() if c in shown}
    with signed(changes.sparkSession, path, transaction):
        into = DeltaTable.forPath(changes.sparkSession, str(path)).alias("t")
        merge = into.merge(changes.alias("n"), f"t.entry_id = n.entry_id AND n.{STEP} <> '{COMES}'")
        merge = merge.whenMatchedUpdate(condition=f"n.{STEP} = '{SETTLES}'", set=settled).whenMatchedDelete()
        merge.whenNotMatchedInsert(condition=f"n.{STEP} = '{COMES}'", values=values).execute()


def with_history(refused: DataFrame, there: DataFrame, schema: StructType, known_by: Identity) -> DataFrame:
    """Return quarantined rows with the history of the entries they had: first seen, attempts, status.

    A discarded row stays discarded while its upstream row is unchanged.
    """
    # Entry ids are random: a checkpoint keeps them the same for every later read of the frame.
    rows = cut_off(refused)
    tries = ("attempts", "tried_at", "replayed_at", "replay_id", "repaired")
    kept = ("entry_id", "quarantined_at", *tries, "note")
    entries = there.select(*kept, "row", "status", (F.col("status") != DISCARDED).alias("by_key"))
    entries = cut_off(entries)
    placed = rows.select(F.col("entry_id").alias(ROW_ID), F.col("row").alias(TEXT))
    pairs = paired(placed, entries, schema, known_by)
    before = pairs.join(entries.drop("row", "by_key"), "entry_id")
    renamed = before.select(ROW_ID, *(F.col(c).alias(f"_was_{c}") for c in (*kept, "status")))
    joined = rows.withColumn(ROW_ID, F.col("entry_id")).join(renamed, ROW_ID, "left")
    history = {c: F.coalesce(F.col(f"_was_{c}"), F.col(c)) for c in (*kept, "status")}
    return joined.withColumns(history).select(refused.columns)


def leaving(there: DataFrame, keys: DataFrame | None) -> DataFrame:
    """Return the entries of these keys, all for None, as they leave: ``entry_id`` and ``working.STEP``."""
    if keys is not None:
        parsed = there.withColumn("_row", read_row(F.col("row"), keys.schema))
        same = F.lit(True)
        for name in keys.columns:
            same = same & F.col(f"_row.{quoted(name)}").eqNullSafe(F.col(f"_key.{quoted(name)}"))
        there = parsed.join(keys.alias("_key"), same, "left_semi")
    return there.select("entry_id", F.lit(LEAVES).alias(STEP))
