"""The frames of a replay: quarantined rows as they are tried again, judged, and what becomes of each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, StringType, StructType

from medallion_assets.delta import log
from medallion_assets.delta.commit import Stamp
from medallion_assets.delta.names import quoted
from medallion_assets.ingestion.quarantine import AS_JSON, ENTRY, FROM_JSON, OPEN, PARSE, QUERY, REPLAYED
from medallion_assets.ingestion.reparse import read_again
from medallion_assets.tables.bronze import place_of, with_provenance
from medallion_assets.tables.choice import fixes_of, mended
from medallion_assets.tables.derive import derived, with_matches_told
from medallion_assets.tables.entries import COMES, SETTLES, STEP
from medallion_assets.tables.errors import ReplayRefused
from medallion_assets.tables.judge import CHECK_NAME, judged
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.pins import at_version
from medallion_assets.tables.quarantined import from_rules, settled
from medallion_assets.tables.repairs import from_entries
from medallion_assets.tables.table import Table

UNFIT = "_unfit"
NO_LONGER = "does not fit the table's columns"


@dataclass(frozen=True)
class Trial:
    """One replay, fixed before it begins.

    Attributes:
        id: Names it in commits and entries.
        version: Of the quarantine: which entries there are.
        condition: SQL true of the entries chosen.
        fix: ``column = expression``, separated by commas; empty for none.
        pins: Version of each static input, and under the table's key its own.
        upto: Upstream version the table has taken.
        run_id: Who asked.
    """

    id: str
    version: int
    condition: str
    fix: str
    pins: Mapping[str, int]
    upto: int
    run_id: str

    def stamp(self, table: Table, step: str = "") -> Stamp:
        """Gives what its commits are signed with."""
        note = {"run_id": self.run_id, "table": table.key, "query": f"replay-{self.id}", "replay": self.id}
        return Stamp(f"{table.key}/replay/{self.id}{step}", 0, note)


def chosen(spark: SparkSession, table: Table, lake: Lake, trial: Trial) -> DataFrame:
    """Gives the entries a replay is of, in the quarantine's columns.

    A fix of ``row`` is of raw records, one of columns of typed rows: the others are left alone.
    """
    entries = at_version(spark, lake.quarantine(table), trial.version).where(trial.condition)
    fixed = fixes_of(trial.fix)
    if not fixed:
        return entries
    return entries.where((F.col("reason_class") == PARSE) == F.lit("row" in fixed))


def repaired(entries: DataFrame, table: Table, lake: Lake, trial: Trial) -> DataFrame:
    """Gives typed entries as tried: ``entry_id``, ``was`` and ``now`` STRUCT, ``repaired``, ``_unfit``.

    Raises:
        ReplayRefused: The fix speaks of columns the rows have not.
    """
    return _as_tried(entries, row_schema(table, lake, entries.sparkSession, trial), trial)


def repaired_inputs(entries: DataFrame, table: Table, lake: Lake, trial: Trial) -> DataFrame:
    """Gives entries the query failed on, rows of upstream, in the columns of ``repaired``."""
    upstream = at_version(entries.sparkSession, lake.upstream_log(table), trial.upto)
    return _as_tried(entries, upstream.schema, trial)


def _as_tried(entries: DataFrame, schema: StructType, trial: Trial) -> DataFrame:
    wanted = StructType([*schema.fields]).add(UNFIT, StringType())
    options = {**FROM_JSON, "columnNameOfCorruptRecord": UNFIT}
    rows = entries.select("entry_id", F.from_json("row", wanted, options).alias("was"))
    fixed = mended(rows.select("entry_id", "was", "was.*"), fixes_of(trial.fix))
    now = F.struct(*(F.col(quoted(name)) for name in schema.names))
    return fixed.select(
        "entry_id", "was", now.alias("now"), F.to_json(now, AS_JSON).alias("repaired"), F.col(UNFIT)
    )


def repaired_typed(entries: DataFrame, table: Table, lake: Lake, trial: Trial) -> DataFrame:
    """Gives ``repaired`` of those entries that are rows, and none where the fix is of raw records."""
    of_records = "row" in fixes_of(trial.fix)
    typed = entries.where(f"reason_class NOT IN ('{PARSE}', '{QUERY}')").where(F.lit(not of_records))
    return repaired(typed, table, lake, replace(trial, fix="") if of_records else trial)


def row_schema(table: Table, lake: Lake, spark: SparkSession, trial: Trial) -> StructType:
    """Gives the columns the table's query gives today, those made for rules among them.

    Raises:
        ReplayRefused: A bronze table has no row yet, so that its columns are unknown.
    """
    if table.source is None:
        none = at_version(spark, lake.upstream_log(table), trial.upto).limit(0)
        # Whether a static row is known is found out anew.
        matches = [f"_check_{name}_matched" for name, read in table.reads if read.unmatched]
        return derived(none, table, lake, trial.pins).drop(*matches).schema
    if not log.exists(lake.path(table)):
        raise ReplayRefused(f"{table.key} has no row yet, so its columns are unknown; nothing was moved")
    schema = StructType([*spark.read.format("delta").load(str(lake.path(table))).schema.fields])
    for name in sorted({n for e in table.expectations for n in CHECK_NAME.findall(e.predicate)}):
        schema = schema.add(name, BooleanType())
    return schema


def verdict_of(entries: DataFrame, table: Table, lake: Lake, trial: Trial) -> tuple[DataFrame, DataFrame]:
    """Gives the rows of the entries judged by today's rules, and how each entry was tried.

    Returns:
        The judged rows (``_check_entry`` names the entry of a typed one); and ``entry_id``,
        ``repaired``, ``status`` and ``rules`` of what is settled without judging: records read again.
    """
    spark = entries.sparkSession
    raw = entries.where(F.col("reason_class") == PARSE)
    taken = entries.where(F.col("reason_class") == QUERY)
    typed = repaired_typed(entries, table, lake, trial)
    rows = from_entries(typed.where(f"{UNFIT} IS NULL"), typed.schema["now"].dataType)  # type: ignore[arg-type]
    rows = with_matches_told(rows, table, lake, trial.pins, spark)
    misfits = _ends(typed.where(f"{UNFIT} IS NOT NULL"), OPEN, F.array(F.lit(NO_LONGER)))
    if table.source and not raw.isEmpty():
        again, read = _read_again(raw, table, lake, trial)
        rows, misfits = rows.unionByName(again, allowMissingColumns=True), misfits.unionByName(read)
    if not table.source and not taken.isEmpty():
        inputs = repaired_inputs(taken, table, lake, trial)
        again = derived(inputs.select("now.*"), table, lake, trial.pins)
        again = again.withColumn(ENTRY, F.lit(None).cast("string"))
        rows = rows.unionByName(again, allowMissingColumns=True)
        misfits = misfits.unionByName(_ends(inputs, REPLAYED, F.array().cast("array<string>")))
    own = trial.pins.get(table.key)
    known = bool(table.counted_once_by or table.unique_within) and not table.keeps
    existing = at_version(spark, lake.path(table), own) if known and own is not None else None
    return judged(rows, table, existing), misfits


def changes_of(
    verdict: DataFrame, misfits: DataFrame, entries: DataFrame, table: Table, lake: Lake, trial: Trial
) -> DataFrame:
    """Gives how the quarantine changes: each entry settled, records that parse and break a rule new."""
    ends = settled(verdict, table).drop(STEP)
    typed = repaired_typed(entries, table, lake, trial)
    ends = ends.join(typed.select("entry_id", "repaired"), "entry_id", "left")
    ends = ends.unionByName(misfits)
    stamp = trial.stamp(table)
    new = from_rules(verdict.where(F.col(ENTRY).isNull()), table, 0, stamp.run_id)
    return _signed(ends, trial).unionByName(new.withColumn(STEP, F.lit(COMES)), allowMissingColumns=True)


def tries_of(typed: DataFrame, trial: Trial) -> DataFrame:
    """Gives entries as tried, their status as it was until their rows are judged."""
    open_still = F.lit(None).cast("string").alias("status")
    none = F.array().cast("array<string>").alias("rules")
    return _signed(typed.select("entry_id", open_still, none, "repaired"), trial)


def ended(inputs: DataFrame, trial: Trial) -> DataFrame:
    """Gives entries the query took this time as replayed."""
    ends = _ends(inputs, REPLAYED, F.array().cast("array<string>"))
    return _signed(ends, trial).withColumn("attempts", F.lit(0))


def _signed(ends: DataFrame, trial: Trial) -> DataFrame:
    return ends.withColumns(
        {
            STEP: F.lit(SETTLES),
            "attempts": F.lit(1),
            "tried_at": F.current_timestamp(),
            "replay_id": F.lit(trial.id),
        }
    )


def _read_again(raw: DataFrame, table: Table, lake: Lake, trial: Trial) -> tuple[DataFrame, DataFrame]:
    """Gives the rows of raw records through the table's query, and what became of each record's entry."""
    place, stamp = place_of(table, lake), trial.stamp(table)
    texts = mended(raw.select("row", "entry_id", "source_file"), fixes_of(trial.fix))
    texts = texts.withColumnRenamed("row", "repaired")
    records = read_again(raw.sparkSession, texts, place).persist()
    rows = records.where("_reason IS NULL").drop("_raw", "_reason", "entry_id")
    shaped = with_provenance(table(rows), replace(stamp, batch_id=-1))
    told = records.select(
        "entry_id",
        F.when(F.col("_reason").isNull(), REPLAYED).otherwise(OPEN).alias("status"),
        _reasons().alias("rules"),
    )
    ends = told.join(texts.select("entry_id", "repaired"), "entry_id")
    return shaped.withColumn(ENTRY, F.lit(None).cast("string")), ends


def _reasons() -> Column:
    return F.array_compact(F.array("_reason"))


def _ends(typed: DataFrame, status: str, rules: Column) -> DataFrame:
    told = {"status": F.lit(status), "rules": rules}
    return typed.select("entry_id", *(c.alias(n) for n, c in told.items()), "repaired")
