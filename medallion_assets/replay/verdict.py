"""Judge a replay's rows by the current rules and settle their entries."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version
from medallion_assets.quality.derive import with_matches_marked
from medallion_assets.quality.judge import judged
from medallion_assets.quarantine.choice import fixes_of, mended
from medallion_assets.quarantine.entries import COMES, STEP
from medallion_assets.quarantine.poison import HELD
from medallion_assets.quarantine.quarantined import from_rules, settled
from medallion_assets.quarantine.repairs import from_entries
from medallion_assets.replay.retried import (
    NO_LONGER,
    UNFIT,
    ReplayPlan,
    brought_back,
    ended,
    ends,
    repaired_inputs,
    repaired_typed,
    signed,
    through_query,
)
from medallion_assets.session.frames import persisted
from medallion_assets.sources.malformed import read_again
from medallion_assets.sources.quarantine import ENTRY, OF_REFUSED, OPEN, RAW, REPLAYED


def verdict_of(
    entries: DataFrame, table: Table, lake: Lake, trial: ReplayPlan
) -> tuple[DataFrame, DataFrame]:
    """Return the rows of the entries judged by today's rules, and the entries settled without judging.

    Returns:
        The judged rows (``_check_entry`` names the entry of a typed one); and ``entry_id``,
        ``repaired``, ``status`` and ``rules`` of entries settled without judging: records read again.
    """
    spark = entries.sparkSession
    raw = entries.where(RAW)
    taken = entries.where(HELD)
    typed = repaired_typed(entries, table, lake, trial)
    rows = from_entries(typed.where(f"{UNFIT} IS NULL"), typed.schema["now"].dataType)  # type: ignore[arg-type]
    rows = with_matches_marked(rows, table, lake, trial.static_versions, spark)
    misfits = ends(typed.where(f"{UNFIT} IS NOT NULL"), OPEN, F.array(F.lit(NO_LONGER)))
    if table.source and not raw.isEmpty():
        again, read = _read_again(raw, table, lake, trial)
        rows, misfits = rows.unionByName(again, allowMissingColumns=True), misfits.unionByName(read)
    if not taken.isEmpty():
        inputs = repaired_inputs(taken, table, lake, trial)
        given = through_query(inputs, table, lake, trial)
        again = given.withColumn(ENTRY, F.lit(None).cast("string"))
        rows = rows.unionByName(again, allowMissingColumns=True)
        misfits = misfits.unionByName(ended(inputs, given))
    own = trial.static_versions.get(table.key)
    known = bool(table.counted_once_by or table.unique_within or table.one_each) and not table.scd
    existing = at_version(spark, lake.path(table), own) if known and own is not None else None
    return judged(rows, table, existing), misfits


def changes_of(
    verdict: DataFrame, misfits: DataFrame, entries: DataFrame, table: Table, lake: Lake, trial: ReplayPlan
) -> DataFrame:
    """Return the quarantine's changes: settled entries, and new ones for records that now break a rule."""
    ended = settled(verdict, table).drop(STEP)
    typed = repaired_typed(entries, table, lake, trial)
    ended = ended.join(typed.select("entry_id", "repaired"), "entry_id", "left")
    ended = ended.unionByName(misfits, allowMissingColumns=True)
    transaction = trial.transaction(table)
    new = from_rules(verdict.where(F.col(ENTRY).isNull()), table, 0, transaction.run_id)
    return signed(ended, trial).unionByName(new.withColumn(STEP, F.lit(COMES)), allowMissingColumns=True)


def _read_again(raw: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> tuple[DataFrame, DataFrame]:
    """Return the query's result on raw records parsed again, and the new status of each record's entry."""
    place = load_target_of(table, lake)
    texts = mended(
        raw.select("row", "entry_id", "source_file", "position", "raw_base64"), fixes_of(trial.fix)
    )
    texts = texts.withColumnRenamed("row", "repaired")
    records = persisted(read_again(raw.sparkSession, texts, place))
    rows = records.where("_reason IS NULL").drop(*OF_REFUSED, "entry_id")
    shaped = brought_back(rows, table, trial)
    reread = records.select(
        "entry_id",
        F.when(F.col("_reason").isNull(), REPLAYED).otherwise(OPEN).alias("status"),
        _reasons().alias("rules"),
    )
    found = reread.join(texts.select("entry_id", "repaired"), "entry_id")
    return shaped.withColumn(ENTRY, F.lit(None).cast("string")), found


def _reasons() -> Column:
    return F.array_compact(F.array("_reason"))
