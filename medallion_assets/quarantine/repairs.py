"""Rows a person mended: what a replay made of a quarantined row stands in for it when it is met again.

A table's rows can be recomputed from upstream long after a replay, for a correction or a full refresh.
Upstream still holds the row as it was refused; without this it would be refused again.
"""

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta import log, working
from medallion_assets.delta.names import literal, of_keys, quoted
from medallion_assets.lake.position import at_version
from medallion_assets.quarantine.entries import ROW_ID, TEXT, Identity, paired
from medallion_assets.sources.quarantine import (
    AS_JSON,
    ENTRY,
    FROM_JSON,
    NEW_REPAIRED,
    NEW_ROW,
    QUERY,
    RAW,
    REPLAYED,
    TRIED,
)

CHECK = "_check_"
JUDGED = (working.BROKEN, working.OUTCOME)
"""Columns the judge adds."""


def as_text(rows: DataFrame) -> Column:
    """Return a row's text, as the quarantine holds it: its columns but those made for rules."""
    return F.to_json(F.struct(*map(quoted, text_columns(rows))), AS_JSON)


def text_columns(rows: DataFrame) -> list[str]:
    """Return the columns of a row's text."""
    return [c for c in rows.columns if not c.startswith(CHECK) and c not in JUDGED]


def in_force(
    spark: SparkSession, quarantine: Path, replay: str = "", as_it_stood: bool = False
) -> DataFrame | None:
    """Return the entries of rows, with what stands in for each where its repair is in force.

    In force are the repairs of entries that were replayed, and of those of the replay under way. With
    ``as_it_stood`` every other entry stands in for itself, so that a frame can tell which of its rows are
    in quarantine.

    Returns:
        ``entry_id``, ``row``, ``repaired`` STRING (NULL where nothing stands in), ``tried`` BOOLEAN (not
        replayed before); None where no repair is in force, by the log alone.
    """
    told = f"status = '{REPLAYED}'" + (f" OR replay_id = {literal(replay)}" if replay else "")
    applies = "true" if as_it_stood else told
    known = {name for name, _ in log.schema(quarantine)}
    if "repaired" not in known or not log.rows(quarantine, f"SELECT 1 FROM t WHERE {applies} LIMIT 1"):
        return None
    # At its version: a cached frame is read anew when its table moves on, and would say something else then.
    held = at_version(spark, quarantine, log.version(quarantine) or 0)
    open_still = F.col("status") != REPLAYED
    becomes = F.when(F.lit(as_it_stood) & open_still, F.col("row")).when(F.expr(applies), F.col("repaired"))
    typed = held.where(f"NOT {RAW} AND reason_class <> '{QUERY}'")
    return typed.select("entry_id", "row", becomes.alias("repaired"), open_still.alias("tried"))


def mended(rows: DataFrame, repairs: DataFrame | None, known_by: Identity) -> DataFrame:
    """Return the rows, each changed as the repair of its entry changed it, with ``_check_entry``.

    A repair changes the columns it was made of; the others stay as they are now. It is let go where a
    replayed row has another value now in a column that was mended. Checks the repair does not speak of stay
    as the query gave them. Beside ``_check_entry``: ``_check_tried``, and ``_check_row`` and
    ``_check_repaired``, the entry's new texts where they differ from those it has.
    """
    if repairs is None:
        return rows
    schema = StructType([f for f in rows.schema.fields if not f.name.startswith(CHECK)])
    placed, others = _candidates(rows, repairs, schema, known_by)
    # A replayed entry's row may be gone; another one of its key is not to be changed in its place.
    entries = repairs.withColumn("by_key", F.col("tried")).localCheckpoint()
    pairs = paired(placed, entries, schema, known_by)
    there = pairs.join(entries.where("repaired IS NOT NULL"), "entry_id")
    fixed = _with_repair(placed.join(there, ROW_ID, "left"), rows.schema)
    return fixed.unionByName(others, allowMissingColumns=True)


def _candidates(
    rows: DataFrame, repairs: DataFrame, schema: StructType, known_by: Identity
) -> tuple[DataFrame, DataFrame]:
    """Return the rows that may be an entry's, with ``_row_id`` and ``_text``, and the others."""
    names = known_by.keys or known_by.lasting
    told = rows.withColumn(TEXT, as_text(rows))
    if names:
        read = F.from_json("row", schema, FROM_JSON)
        wanted = repairs.select(*(read[c].alias(c) for c in names)).distinct()
    else:
        wanted = repairs.select(F.col("row").alias(TEXT)).distinct()
    near = of_keys(told, wanted).withColumn(ROW_ID, F.monotonically_increasing_id())
    # Cut off from what made them: their numbers have to stay.
    return near.localCheckpoint(), of_keys(told, wanted, "left_anti").drop(TEXT)


def _with_repair(placed: DataFrame, schema: StructType) -> DataFrame:
    """Return rows with the repair of their entry, where they have one and it fits them still."""
    values = {of: F.from_json(F.col(of), "MAP<STRING, STRING>") for of in ("row", "repaired", TEXT)}
    told = placed.withColumns({f"{working.MAP}_{of}": value for of, value in values.items()})
    told = told.withColumn(working.NEW, F.from_json("repaired", schema, FROM_JSON))
    names = [name for name in schema.names if not name.startswith(CHECK)]

    def differs(of: str, name: Column) -> Column:
        return ~F.col(f"{working.MAP}_{of}")[name].eqNullSafe(F.col(f"{working.MAP}_row")[name])

    listed = F.array(*map(F.lit, names))
    moved = F.exists(listed, lambda name: differs("repaired", name) & differs(TEXT, name))
    told = told.withColumn(working.FITS, F.col("entry_id").isNotNull() & (F.col("tried") | ~moved))
    fixed, whole = {}, []
    for name in schema.names:
        new, now, fits = F.col(working.NEW)[name], F.col(quoted(name)), F.col(working.FITS)
        if name in names:
            fixed[name] = F.when(fits & differs("repaired", F.lit(name)), new).otherwise(now)
        else:
            fixed[name] = F.coalesce(F.when(fits, new), now)
        whole.append((fixed[name] if name in names else new).alias(name))
    near = F.col(working.FITS) & (F.col(working.LEVEL) > 0)
    ours = {
        ENTRY: F.when(F.col(working.FITS), F.col("entry_id")),
        TRIED: F.when(F.col(working.FITS), F.col("tried")),
        NEW_ROW: F.when(near, F.col(TEXT)),
        NEW_REPAIRED: F.when(near, F.to_json(F.struct(*whole), AS_JSON)),
    }
    return told.select(*(value.alias(name) for name, value in (fixed | ours).items()))


def from_entries(entries: DataFrame, schema: StructType) -> DataFrame:
    """Return entries' repaired rows: the schema's columns, and ``_check_entry``."""
    parsed = entries.select(F.from_json("repaired", schema, FROM_JSON).alias(working.NEW), "entry_id")
    return parsed.select(f"{working.NEW}.*", F.col("entry_id").alias(ENTRY))


def numbered(rows: DataFrame, by: str) -> DataFrame:
    """Return the rows with ``working.NTH`` INT: 1, 2, ... among those of one text."""
    # Rows of one text are one as good as the other: any order pairs them.
    return rows.withColumn(working.NTH, F.row_number().over(Window.partitionBy(by).orderBy(F.lit(1))))
