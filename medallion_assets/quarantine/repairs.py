"""Rows a person mended: what a replay made of a quarantined row stands in for it when it is met again.

A table's rows can be recomputed from upstream long after a replay, for a correction or a full refresh.
Upstream still holds the row as it was refused; without this it would be refused again.
"""

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta import log
from medallion_assets.delta.names import literal, quoted
from medallion_assets.lake.static_versions import at_version
from medallion_assets.sources.quarantine import AS_JSON, ENTRY, FROM_JSON, QUERY, RAW, REPLAYED, TRIED

CHECK = "_check_"
JUDGED = ("_broken", "_outcome")
"""Columns the judge adds."""


def as_text(rows: DataFrame) -> Column:
    """Return a row's text, as the quarantine holds it: its columns but those made for rules."""
    kept = [F.col(quoted(c)) for c in rows.columns if not c.startswith(CHECK) and c not in JUDGED]
    return F.to_json(F.struct(*kept), AS_JSON)


def in_force(
    spark: SparkSession, quarantine: Path, replay: str = "", as_it_stood: bool = False
) -> DataFrame | None:
    """Return the entries whose repair stands: those replayed, and those of the replay under way.

    With ``as_it_stood`` also every other entry, as the row it is, so that a frame can tell which of its
    rows stand in quarantine.

    Returns:
        ``entry_id``, ``row``, ``repaired`` STRING, ``tried`` BOOLEAN (not replayed before); None where
        there are none, told by the log alone.
    """
    told = f"status = '{REPLAYED}'" + (f" OR replay_id = {literal(replay)}" if replay else "")
    told = "true" if as_it_stood else told
    known = {name for name, _ in log.schema(quarantine)}
    if "repaired" not in known or not log.rows(quarantine, f"SELECT 1 FROM t WHERE {told} LIMIT 1"):
        return None
    # At its version: a cached frame is read anew when its table moves on, and would say something else then.
    held = at_version(spark, quarantine, log.version(quarantine) or 0).where(told)
    open_still = F.col("status") != REPLAYED
    becomes = F.when(F.lit(as_it_stood) & open_still, F.col("row")).otherwise(F.col("repaired"))
    typed = held.withColumn("repaired", becomes).where("repaired IS NOT NULL")
    typed = typed.where(f"NOT {RAW} AND reason_class <> '{QUERY}'")
    return typed.select("entry_id", "row", "repaired", open_still.alias("tried"))


def mended(rows: DataFrame, repairs: DataFrame | None) -> DataFrame:
    """Return the rows, each that a repair is of replaced by it, with ``_check_entry`` and ``_check_tried``.

    As many rows of one text are replaced as there are repairs of it. Checks the repair does not speak
    of stay as the query gave them.
    """
    if repairs is None:
        return rows
    told = rows.withColumn("_text", as_text(rows))
    wanted = F.broadcast(repairs.select(F.col("row").alias("_text")).distinct())
    others = told.join(wanted, "_text", "left_anti")
    those = numbered(told.join(wanted, "_text", "left_semi"), "_text")
    ready = numbered(repairs.withColumnRenamed("row", "_text"), "_text")
    paired = those.join(F.broadcast(ready), ["_text", "_nth"], "left")
    parsed = paired.withColumn("_new", F.from_json("repaired", rows.schema, FROM_JSON))
    columns = [_mended(name).alias(name) for name in rows.columns]
    fixed = parsed.select(*columns, F.col("entry_id").alias(ENTRY), F.col("tried").alias(TRIED))
    none = (F.lit(None).cast("string").alias(ENTRY), F.lit(None).cast("boolean").alias(TRIED))
    plain = others.select(*map(quoted, rows.columns), *none)
    return fixed.unionByName(plain)


def from_entries(entries: DataFrame, schema: StructType) -> DataFrame:
    """Return entries' repaired rows: the schema's columns, and ``_check_entry``."""
    parsed = entries.select(F.from_json("repaired", schema, FROM_JSON).alias("_new"), "entry_id")
    return parsed.select("_new.*", F.col("entry_id").alias(ENTRY))


def _mended(name: str) -> Column:
    new, old = F.col(f"_new.{quoted(name)}"), F.col(quoted(name))
    if name.startswith(CHECK):
        return F.coalesce(new, old)
    return F.when(F.col("entry_id").isNotNull(), new).otherwise(old)


def numbered(rows: DataFrame, by: str) -> DataFrame:
    """Return the rows with ``_nth`` INT: 1, 2, ... among those of one text."""
    # Rows of one text are one as good as the other: any order pairs them.
    return rows.withColumn("_nth", F.row_number().over(Window.partitionBy(by).orderBy(F.lit(1))))
