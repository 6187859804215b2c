"""Repaired rows: when rows are recomputed, the repair a replay made is applied to its row again.

A correction or a full refresh recomputes rows from upstream long after a replay. Upstream still holds the row
as it was quarantined; without this step it would be quarantined again.
"""

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, MapType, StructType, VariantType

from medallion_assets.delta import log, working
from medallion_assets.delta.names import literal, of_keys, quoted
from medallion_assets.lake.position import at_version
from medallion_assets.quarantine.entries import ROW_ID, TEXT, Identity, paired
from medallion_assets.session.frames import cut_off
from medallion_assets.sources.formats.json_values import types_in
from medallion_assets.sources.quarantine import (
    ENTRY,
    IS_REPAIRED,
    NEW_REPAIRED,
    NEW_ROW,
    QUERY,
    RAW,
    REPLAYED,
    TRIED,
)
from medallion_assets.sources.row_json import read_row, row_json

CHECK = "_check_"
JUDGED = (working.BROKEN, working.OUTCOME)
"""Columns that ``quality.judge`` adds."""


def as_text(rows: DataFrame) -> Column:
    """Return a row as JSON text, as the quarantine stores it: without the columns made for rules."""
    return row_json({name: F.col(quoted(name)) for name in text_columns(rows)}, rows.schema)


def text_columns(rows: DataFrame) -> list[str]:
    """Return the names of the columns that a row's JSON text has."""
    return [c for c in rows.columns if not c.startswith(CHECK) and c not in JUDGED]


def in_force(
    spark: SparkSession, quarantine: Path, replay: str = "", mark_quarantined: bool = False
) -> DataFrame | None:
    """Return the quarantine's entries of typed rows, each with the repair that applies to it.

    A repair applies where its entry was replayed before, or belongs to the replay under way. One that was
    replayed and waits again, for a static row that went, is repaired when that row is back.

    Args:
        spark: The session.
        quarantine: Path of the quarantine table.
        replay: Id of the replay under way; empty for none.
        mark_quarantined: Give each entry without a repair its own row as repair, so that ``mended`` marks the
            rows of a frame that are in quarantine.

    Returns:
        ``entry_id``, ``row``, ``repaired`` STRING (NULL where no repair applies), ``tried`` BOOLEAN (true
        where the replay under way tries it). None where the log shows that no repair applies.
    """
    of_replay = f"coalesce(replay_id, '') = {literal(replay)}" if replay else "false"
    in_force_now = f"{IS_REPAIRED} OR {of_replay}"
    applies = "true" if mark_quarantined else in_force_now
    known = {name for name, _ in log.schema(quarantine)}
    if "repaired" not in known or not log.rows(quarantine, f"SELECT 1 FROM t WHERE {applies} LIMIT 1"):
        return None
    # At a fixed version: Spark reads a cached frame again when its table has a new one.
    held = at_version(spark, quarantine, log.version(quarantine) or 0)
    open_still = F.col("status") != REPLAYED
    becomes = F.when(F.lit(mark_quarantined) & open_still, F.col("row")).when(
        F.expr(applies), F.col("repaired")
    )
    tried = open_still & (F.lit(mark_quarantined) | ~F.expr(IS_REPAIRED) | F.expr(of_replay))
    typed = held.where(f"NOT {RAW} AND reason_class <> '{QUERY}'")
    return typed.select("entry_id", "row", becomes.alias("repaired"), tried.alias("tried"))


def mended(rows: DataFrame, repairs: DataFrame | None, known_by: Identity) -> DataFrame:
    """Return the rows with the repairs of their entries applied.

    A repair sets only the columns that the fix changed; other columns keep their values of today. It is not
    applied where a replayed row now has another value in a fixed column. Columns made for rules keep the
    query's values unless the repair has them.

    Args:
        rows: Recomputed rows.
        repairs: Result of ``in_force``; None returns the rows unchanged.
        known_by: Columns by which a row is matched with its entry.

    Returns:
        The rows with ``_check_entry`` (its entry's id), ``_check_tried``, and ``_check_row`` and
        ``_check_repaired`` (new texts of the entry where they differ from the stored ones).
    """
    if repairs is None:
        return rows
    schema = StructType([f for f in rows.schema.fields if not f.name.startswith(CHECK)])
    placed, others = _candidates(rows, repairs, schema, known_by)
    # A replayed entry's row may be gone; another row of the same key must not get its repair.
    entries = cut_off(repairs.withColumn("by_key", F.col("tried")))
    pairs = paired(placed, entries, schema, known_by)
    there = pairs.join(entries.where("repaired IS NOT NULL"), "entry_id")
    fixed = _with_repair(placed.join(there, ROW_ID, "left"), rows.schema)
    return fixed.unionByName(others, allowMissingColumns=True)


def _candidates(
    rows: DataFrame, repairs: DataFrame, schema: StructType, known_by: Identity
) -> tuple[DataFrame, DataFrame]:
    """Return the rows that may belong to an entry, with ``_row_id`` and ``_text``, and all other rows."""
    # Spark cannot compare maps and variants; without them a few more rows are candidates.
    names = [c for c in known_by.keys or known_by.lasting if _is_comparable(schema[c].dataType)]
    with_text = rows.withColumn(TEXT, as_text(rows))
    if known_by.lasting and not names:
        return cut_off(with_text.withColumn(ROW_ID, F.monotonically_increasing_id())), rows.limit(0)
    if names:
        read = read_row(F.col("row"), schema)
        wanted = repairs.select(*(read[c].alias(c) for c in names)).distinct()
    else:
        wanted = repairs.select(F.col("row").alias(TEXT)).distinct()
    near = of_keys(with_text, wanted).withColumn(ROW_ID, F.monotonically_increasing_id())
    # A checkpoint, since the numbers must not change when the frame is computed again.
    return cut_off(near), of_keys(with_text, wanted, "left_anti").drop(TEXT)


def _is_comparable(kind: DataType) -> bool:
    return not any(isinstance(inner, (MapType, VariantType)) for inner in types_in(kind))


def _with_repair(placed: DataFrame, schema: StructType) -> DataFrame:
    """Return the rows with their entry's repair applied where it still fits."""
    values = {of: F.from_json(F.col(of), "MAP<STRING, STRING>") for of in ("row", "repaired", TEXT)}
    placed = placed.withColumns({f"{working.MAP}_{of}": value for of, value in values.items()})
    placed = placed.withColumn(working.NEW, read_row(F.col("repaired"), schema))
    names = [name for name in schema.names if not name.startswith(CHECK)]

    def differs(of: str, name: Column) -> Column:
        return ~F.col(f"{working.MAP}_{of}")[name].eqNullSafe(F.col(f"{working.MAP}_row")[name])

    listed = F.array(*map(F.lit, names))
    moved = F.exists(listed, lambda name: differs("repaired", name) & differs(TEXT, name))
    placed = placed.withColumn(working.FITS, F.col("entry_id").isNotNull() & (F.col("tried") | ~moved))
    fixed, whole = {}, {}
    for name in schema.names:
        new, now, fits = F.col(working.NEW)[name], F.col(quoted(name)), F.col(working.FITS)
        if name in names:
            fixed[name] = F.when(fits & differs("repaired", F.lit(name)), new).otherwise(now)
        else:
            fixed[name] = F.coalesce(F.when(fits, new), now)
        whole[name] = fixed[name] if name in names else new
    near = F.col(working.FITS) & (F.col(working.LEVEL) > 0)
    ours = {
        ENTRY: F.when(F.col(working.FITS), F.col("entry_id")),
        TRIED: F.when(F.col(working.FITS), F.col("tried")),
        NEW_ROW: F.when(near, F.col(TEXT)),
        NEW_REPAIRED: F.when(near, row_json(whole, schema)),
    }
    return placed.select(*(value.alias(name) for name, value in (fixed | ours).items()))


def from_entries(entries: DataFrame, schema: StructType) -> DataFrame:
    """Return entries' repaired rows: the schema's columns, and ``_check_entry``."""
    parsed = entries.select(read_row(F.col("repaired"), schema).alias(working.NEW), "entry_id")
    return parsed.select(f"{working.NEW}.*", F.col("entry_id").alias(ENTRY))


def numbered(rows: DataFrame, by: str) -> DataFrame:
    """Return the rows with ``working.NTH`` INT: 1, 2, ... among those of one text."""
    # Rows of the same text are interchangeable, so any order pairs them.
    return rows.withColumn(working.NTH, F.row_number().over(Window.partitionBy(by).orderBy(F.lit(1))))
