"""Rows that a query cannot take at all: found by halving the batch, held in quarantine, the rest goes on.

One value no cast was tried on fails a whole micro-batch, and with it every later one, for ever.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.delta.commit import Stamp, append
from medallion_assets.delta.names import literal, quoted
from medallion_assets.ingestion.errors import BatchRefused
from medallion_assets.ingestion.quarantine import FROM_JSON, QUERY, REPLAYED, shaped
from medallion_assets.tables.entries import LEAVES, STEP, move_entries
from medallion_assets.tables.errors import ExpectationFailed, RepeatedKeys, SchemaRefused
from medallion_assets.tables.pins import at_version
from medallion_assets.tables.repairs import as_text, numbered
from medallion_assets.tables.table import Table

MOST = 20
"""Rows a batch may lose to quarantine in this way: more, and it is the query that is wrong."""

QUERY_FAILED = "query_failed"
OURS = (BatchRefused, ExpectationFailed, RepeatedKeys, SchemaRefused)


Runs = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Poison:
    """Numbers of rows the query fails on, and what it says of the last one."""

    rows: tuple[int, ...]
    why: str


def isolated(rows: DataFrame, runs: Runs, quarantine: Path, stamp: Stamp) -> DataFrame | None:
    """Gives the rows the query can take, with the others in quarantine; None where the fault is not theirs.

    Args:
        rows: Upstream's columns: the batch.
        runs: Takes rows through the table's query, and raises what it raises.
        quarantine: Where the others go, as upstream has them, under ``query_failed``.
        stamp: Who writes.
    """
    placed = rows.withColumn("_place", F.row_number().over(Window.orderBy(as_text(rows)))).persist()
    try:
        count = placed.count()
        found = _poison(placed, runs, 1, count, Poison((), ""))
        if not found.rows or len(found.rows) in (count, MOST + 1):
            return None
        is_poison = F.col("_place").isin(list(found.rows))
        bad = placed.where(is_poison).drop("_place")
        text, rule = as_text(bad), F.array(F.lit(QUERY_FAILED))
        entries = shaped(bad, text, rule, F.lit(QUERY), stamp.batch_id, stamp.run_id)
        entries = entries.withColumn("note", F.lit(found.why[:500]))
        append(entries, quarantine, replace(stamp, app_id=f"{stamp.app_id}/poison"))
        return placed.where(~is_poison).drop("_place").localCheckpoint()
    finally:
        placed.unpersist()


def may_be_poisoned(error: BaseException, table: Table) -> bool:
    """True where a row may be the cause: not for what we raise ourselves, nor for a rule that says fail."""
    rules = (f"expectation {rule.name} (" for rule in table.expectations if rule.otherwise == "fail")
    return not isinstance(error, OURS) and not any(rule in str(error) for rule in rules)


def sound(rows: DataFrame, spark: SparkSession, quarantine: Path, replay: str = "") -> DataFrame:
    """Gives upstream's rows without those held as poison; one that was mended stands in for itself.

    As many rows of one text go as there are entries of it.
    """
    held = f"reason_class = '{QUERY}'"
    if not log.rows(quarantine, f"SELECT 1 FROM t WHERE {held} LIMIT 1"):
        return rows
    entries = at_version(spark, quarantine, log.version(quarantine) or 0).where(held)
    mended = F.expr(f"status = '{REPLAYED}' OR coalesce(replay_id = {literal(replay)}, false)")
    ready = numbered(
        entries.select(F.col("row").alias("_text"), mended.alias("_mended"), "repaired"), "_text"
    )
    paired = numbered(rows.withColumn("_text", as_text(rows)), "_text")
    paired = paired.join(F.broadcast(ready), ["_text", "_nth"], "left").where("_mended IS NULL OR _mended")
    new = F.from_json("repaired", rows.schema, FROM_JSON)
    kept = [
        F.when(F.col("_mended"), new[name]).otherwise(F.col(quoted(name))).alias(name)
        for name in rows.columns
    ]
    return paired.select(*kept)


def parted(removed: DataFrame, quarantine: Path) -> tuple[DataFrame, DataFrame | None]:
    """Parts the rows that went upstream into those the query can take, and the entries of the others."""
    held = f"reason_class = '{QUERY}'"
    if not log.rows(quarantine, f"SELECT 1 FROM t WHERE {held} LIMIT 1"):
        return removed, None
    entries = at_version(removed.sparkSession, quarantine, log.version(quarantine) or 0).where(held)
    ready = numbered(entries.select(F.col("row").alias("_text"), "entry_id"), "_text")
    placed = numbered(removed.withColumn("_text", as_text(removed)), "_text")
    paired = placed.join(F.broadcast(ready), ["_text", "_nth"], "left").localCheckpoint()
    going = paired.where("entry_id IS NOT NULL").select("entry_id", F.lit(LEAVES).alias(STEP))
    return paired.where("entry_id IS NULL").drop("_text", "_nth", "entry_id"), going


def take_out_gone(going: DataFrame | None, quarantine: Path, stamp: Stamp) -> None:
    """Takes the entries of rows that went upstream out, once what they were kept from is written."""
    if going is not None:
        move_entries(going, quarantine, replace(stamp, app_id=f"{stamp.app_id}/went"))


def _poison(placed: DataFrame, runs: Runs, first: int, last: int, so_far: Poison) -> Poison:
    why = _failure(placed.where(F.col("_place").between(first, last)).drop("_place"), runs)
    if not why or len(so_far.rows) > MOST:
        return so_far
    if first == last:
        return Poison((*so_far.rows, first), why)
    middle = (first + last) // 2
    left = _poison(placed, runs, first, middle, so_far)
    return _poison(placed, runs, middle + 1, last, left)


def _failure(rows: DataFrame, runs: Runs) -> str:
    try:
        runs(rows).write.format("noop").mode("overwrite").save()
    except Exception as error:
        return str(error).strip().splitlines()[0]
    return ""
