"""Rows that a query fails on: found, held in quarantine, and left out when upstream is read again.

One value no cast was tried on fails a whole micro-batch, and with it every later one, for ever.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.declare.errors import ExpectationFailed, RepeatedKeys, SchemaRefused
from medallion_assets.declare.table import Table
from medallion_assets.delta import log, working
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.delta.names import literal, quoted
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version
from medallion_assets.quarantine.entries import LEAVES, STEP, move_entries
from medallion_assets.quarantine.repairs import as_text, numbered
from medallion_assets.session.frames import broadcast_if_few, cut_off, persisted
from medallion_assets.sources.errors import BatchRefused, first_line
from medallion_assets.sources.quarantine import QUERY, REPLAYED, shaped
from medallion_assets.sources.row_json import read_row

MOST = 20
"""The largest number of such rows in a batch: with more, the query itself is considered wrong."""

QUERY_FAILED = "query_failed"
NOT_OF_ROWS = (BatchRefused, ExpectationFailed, RepeatedKeys, SchemaRefused, AnalysisException)
"""Errors that no single row causes; for these the batch is not searched."""


Runs = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Poison:
    """The indexes of rows the query fails on, and the error message of the last one."""

    rows: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class Isolated:
    """The rows the query accepts, and the number of rows moved to quarantine."""

    rest: DataFrame
    held: int


def without_poison(
    rows: DataFrame, runs: Runs, error: Exception, table: Table, lake: Lake, transaction: Transaction
) -> Isolated | None:
    """Return a batch's rows without those the query fails on; None where no row causes the failure.

    Args:
        rows: The batch, as the query is given it.
        runs: Takes rows through the table's query.
        error: Why the batch failed.
        table: The table.
        lake: Where its quarantine is.
        transaction: Who writes.
    """
    quarantine = lake.quarantine(table)
    if not _may_be_poisoned(error, table):
        return None
    return isolated(rows, runs, quarantine, transaction)


def isolated(rows: DataFrame, runs: Runs, quarantine: Path, transaction: Transaction) -> Isolated | None:
    """Return the rows the query can take, with the others in quarantine; None where the fault is not theirs.

    Args:
        rows: Upstream's columns: the batch.
        runs: Takes rows through the table's query, and raises what it raises.
        quarantine: Where the others go, as upstream has them, under ``query_failed``.
        transaction: Who writes.
    """
    placed = persisted(rows.withColumn(working.PLACE, F.row_number().over(Window.orderBy(as_text(rows)))))
    try:
        count = placed.count()
        found = _poison(placed, runs, 1, count, Poison((), ""))
        if not found.rows or len(found.rows) in (count, MOST + 1):
            return None
        is_poison = F.col(working.PLACE).isin(list(found.rows))
        bad = placed.where(is_poison).drop(working.PLACE)
        text, rule = as_text(bad), F.array(F.lit(QUERY_FAILED))
        entries = shaped(bad, text, rule, F.lit(QUERY), transaction.version, transaction.run_id)
        entries = entries.withColumn("note", F.lit(found.why[:500]))
        append(entries, quarantine, transaction.of_quarantine)
        return Isolated(cut_off(placed.where(~is_poison).drop(working.PLACE)), len(found.rows))
    finally:
        placed.unpersist()


def _may_be_poisoned(error: BaseException, table: Table) -> bool:
    """Return true where a row may be the cause: not for errors of ours, nor for a rule that says fail."""
    rules = (f"expectation {rule.name} (" for rule in table.expectations if rule.on_violation == "fail")
    return not isinstance(error, NOT_OF_ROWS) and not any(rule in str(error) for rule in rules)


def _poison(placed: DataFrame, runs: Runs, first: int, last: int, so_far: Poison) -> Poison:
    why = _failure(placed.where(F.col(working.PLACE).between(first, last)).drop(working.PLACE), runs)
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
        return first_line(error)
    return ""


HELD = f"reason_class = '{QUERY}'"


def holds_poison(quarantine: Path) -> bool:
    """Return true where the quarantine has an entry of reason ``query``; reads it without Spark."""
    return bool(log.rows(quarantine, f"SELECT 1 FROM t WHERE {HELD} LIMIT 1"))


def poison_in(spark: SparkSession, quarantine: Path) -> DataFrame:
    """Return the entries of such rows, as they are now."""
    return at_version(spark, quarantine, log.version(quarantine) or 0).where(HELD)


def sound_stream(rows: DataFrame, spark: SparkSession, quarantine: Path) -> DataFrame:
    """Return a stream's rows as ``sound`` does, but by their text alone: a stream numbers no rows.

    All rows of one text are held, or mended, together.
    """
    if not holds_poison(quarantine):
        return rows
    by_text = (
        poison_in(spark, quarantine)
        .groupBy("row")
        .agg(
            F.bool_or(F.col("status") == REPLAYED).alias(working.MENDED), F.max("repaired").alias("repaired")
        )
    )
    # Of one version: the join's other side must not change under a stream that goes on.
    held = broadcast_if_few(by_text.withColumnRenamed("row", working.TEXT))
    joined = rows.withColumn(working.TEXT, as_text(rows)).join(held, working.TEXT, "left")
    return _with_stand_ins(joined, rows.schema)


def sound(rows: DataFrame, spark: SparkSession, quarantine: Path, replay: str = "") -> DataFrame:
    """Return upstream's rows without those held as poison; a repaired row replaces its original.

    Of rows with the same text, as many are removed as there are entries with that text.
    """
    if not holds_poison(quarantine):
        return rows
    entries = poison_in(spark, quarantine)
    mended = F.expr(f"status = '{REPLAYED}' OR coalesce(replay_id = {literal(replay)}, false)")
    ready = numbered(
        entries.select(F.col("row").alias(working.TEXT), mended.alias(working.MENDED), "repaired"),
        working.TEXT,
    )
    paired = numbered(rows.withColumn(working.TEXT, as_text(rows)), working.TEXT)
    return _with_stand_ins(
        paired.join(broadcast_if_few(ready), [working.TEXT, working.NTH], "left"), rows.schema
    )


def _with_stand_ins(joined: DataFrame, schema: StructType) -> DataFrame:
    """Return rows without the held ones; rows with ``working.MENDED`` take the values of ``repaired``."""
    new = read_row(F.col("repaired"), schema)
    kept = [F.when(F.col(working.MENDED), new[n]).otherwise(F.col(quoted(n))).alias(n) for n in schema.names]
    return joined.where(f"{working.MENDED} IS NULL OR {working.MENDED}").select(*kept)


def parted(removed: DataFrame, quarantine: Path) -> tuple[DataFrame, DataFrame | None]:
    """Return the rows removed upstream as the query read them, and the entries of those that were held.

    For a repaired row, the repaired values are returned, because the table was computed from them.
    """
    if not holds_poison(quarantine):
        return removed, None
    entries = poison_in(removed.sparkSession, quarantine)
    mended = (F.col("status") == REPLAYED).alias(working.MENDED)
    ready = entries.select(F.col("row").alias(working.TEXT), "entry_id", mended, "repaired")
    ready = numbered(ready, working.TEXT)
    placed = numbered(removed.withColumn(working.TEXT, as_text(removed)), working.TEXT)
    paired = cut_off(placed.join(broadcast_if_few(ready), [working.TEXT, working.NTH], "left"))
    going = paired.where("entry_id IS NOT NULL").select("entry_id", F.lit(LEAVES).alias(STEP))
    return _with_stand_ins(paired, removed.schema), going


def take_out_gone(going: DataFrame | None, quarantine: Path, transaction: Transaction) -> None:
    """Delete the entries of rows that were removed upstream."""
    if going is not None:
        move_entries(going, quarantine, transaction.of_quarantine)
