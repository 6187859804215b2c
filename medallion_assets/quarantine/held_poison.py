"""Rows held as poison, met again in upstream: what a query is given in their place."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta import log, working
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import literal, quoted
from medallion_assets.lake.static_versions import at_version
from medallion_assets.quarantine.entries import LEAVES, STEP, move_entries
from medallion_assets.quarantine.repairs import as_text, numbered
from medallion_assets.session.frames import frame_of
from medallion_assets.sources.quarantine import FROM_JSON, QUERY, REPLAYED

HELD = f"reason_class = '{QUERY}'"


def holds_poison(quarantine: Path) -> bool:
    """Return true where a row the query failed on ever went there, told by the log's reader."""
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
    # As values: the join's other side must not change under a stream that goes on.
    held = frame_of(
        spark, by_text.collect(), f"{working.TEXT} STRING, {working.MENDED} BOOLEAN, repaired STRING"
    )
    told = rows.withColumn(working.TEXT, as_text(rows)).join(F.broadcast(held), working.TEXT, "left")
    return _with_stand_ins(told, rows.schema)


def sound(rows: DataFrame, spark: SparkSession, quarantine: Path, replay: str = "") -> DataFrame:
    """Return upstream's rows without those held as poison; one that was mended stands in for itself.

    As many rows of one text go as there are entries of it.
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
    return _with_stand_ins(paired.join(F.broadcast(ready), [working.TEXT, working.NTH], "left"), rows.schema)


def _with_stand_ins(told: DataFrame, schema: StructType) -> DataFrame:
    """Return rows without those held; of those with ``working.MENDED`` what ``repaired`` says."""
    new = F.from_json("repaired", schema, FROM_JSON)
    kept = [F.when(F.col(working.MENDED), new[n]).otherwise(F.col(quoted(n))).alias(n) for n in schema.names]
    return told.where(f"{working.MENDED} IS NULL OR {working.MENDED}").select(*kept)


def parted(removed: DataFrame, quarantine: Path) -> tuple[DataFrame, DataFrame | None]:
    """Return the rows that went upstream as the query took them, and the entries of those that were held.

    A row that was mended goes as what stood in for it: that is what the table has of it.
    """
    if not holds_poison(quarantine):
        return removed, None
    entries = poison_in(removed.sparkSession, quarantine)
    mended = (F.col("status") == REPLAYED).alias(working.MENDED)
    ready = entries.select(F.col("row").alias(working.TEXT), "entry_id", mended, "repaired")
    ready = numbered(ready, working.TEXT)
    placed = numbered(removed.withColumn(working.TEXT, as_text(removed)), working.TEXT)
    paired = placed.join(F.broadcast(ready), [working.TEXT, working.NTH], "left").localCheckpoint()
    going = paired.where("entry_id IS NOT NULL").select("entry_id", F.lit(LEAVES).alias(STEP))
    return _with_stand_ins(paired, removed.schema), going


def take_out_gone(going: DataFrame | None, quarantine: Path, transaction: Transaction) -> None:
    """Take out the entries of rows that are gone upstream."""
    if going is not None:
        move_entries(going, quarantine, transaction.of_quarantine)
