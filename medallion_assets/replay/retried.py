"""The frames of a replay: quarantined rows as they are tried again, judged, and what becomes of each."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, StringType, StructType

from medallion_assets.declare.errors import ReplayRefused
from medallion_assets.declare.table import SOURCE_ROW, Table
from medallion_assets.delta import log, working
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import quoted
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.static_versions import at_version
from medallion_assets.quality.derive import derived
from medallion_assets.quality.judge import CHECK_NAME
from medallion_assets.quarantine.choice import fixes_of, mended
from medallion_assets.quarantine.entries import SETTLES, STEP
from medallion_assets.sources.quarantine import AS_JSON, FROM_JSON, LATE, QUERY, RAW

UNFIT = working.UNFIT
NO_LONGER = "does not fit the table's columns"


@dataclass(frozen=True)
class ReplayPlan:
    """One replay, fixed before it begins.

    Attributes:
        id: Names it in commits and entries.
        version: Of the quarantine: which entries there are.
        condition: SQL true of the entries chosen.
        fix: ``column = expression``, separated by commas; empty for none.
        static_versions: Version of each static input, and under the table's key its own.
        upto: Upstream version the table has taken.
        run_id: Who asked.
    """

    id: str
    version: int
    condition: str
    fix: str
    static_versions: Mapping[str, int]
    upto: int
    run_id: str

    def transaction(self, table: Table) -> Transaction:
        """Return what its commit on the table is."""
        metadata = {"run_id": self.run_id, "table": table.key, "replay": self.id}
        return Transaction(f"{table.key}/replay/{self.id}", 0, metadata, self.version)


def chosen(spark: SparkSession, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return the entries a replay is of, in the quarantine's columns.

    A fix of ``row`` is of raw records, one of columns of the rows that have them: what the query gave, or
    upstream's rows that the query could not take. The others are left alone. So is a late row, which is as
    upstream has it.
    """
    entries = at_version(spark, lake.quarantine(table), trial.version).where(trial.condition)
    fixed = fixes_of(trial.fix)
    if not fixed:
        return entries
    entries = entries.where(F.expr(RAW) == F.lit("row" in fixed)).where(F.col("reason_class") != LATE)
    if "row" in fixed or table.source:
        return entries
    given = fixed.keys() <= {*row_schema(table, lake, spark, trial).names}
    upstream = fixed.keys() <= {name for name, _ in log.schema(lake.upstream_log(table))}
    if given == upstream:
        return entries
    return entries.where((F.col("reason_class") == QUERY) == F.lit(upstream))


def repaired(entries: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return typed entries as tried: ``entry_id``, ``was`` and ``now`` STRUCT, ``repaired``, ``UNFIT``.

    Raises:
        ReplayRefused: The fix speaks of columns the rows have not.
    """
    return as_tried(entries, row_schema(table, lake, entries.sparkSession, trial), trial)


def as_tried(entries: DataFrame, schema: StructType, trial: ReplayPlan) -> DataFrame:
    """Return entries of rows of a schema as tried; see ``repaired``."""
    wanted = StructType([*schema.fields]).add(UNFIT, StringType())
    options = {**FROM_JSON, "columnNameOfCorruptRecord": UNFIT}
    rows = entries.select("entry_id", F.from_json("row", wanted, options).alias("was"))
    fixes = fixes_of(trial.fix)
    if not fixes.keys() <= {*schema.names} and entries.isEmpty():
        # The fix is of the other kind of rows, upstream's or the query's.
        fixes = {}
    fixed = mended(rows.select("entry_id", "was", "was.*"), fixes)
    now = F.struct(*(F.col(quoted(name)) for name in schema.names))
    return fixed.select(
        "entry_id", "was", now.alias("now"), F.to_json(now, AS_JSON).alias("repaired"), F.col(UNFIT)
    )


def repaired_typed(entries: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return ``repaired`` of those entries that are rows, and none where the fix is of raw records."""
    of_records = "row" in fixes_of(trial.fix)
    typed = entries.where(f"NOT {RAW} AND reason_class <> '{QUERY}'").where(F.lit(not of_records))
    return repaired(typed, table, lake, replace(trial, fix="") if of_records else trial)


def row_schema(table: Table, lake: Lake, spark: SparkSession, trial: ReplayPlan) -> StructType:
    """Return the columns the table's query gives today, those made for rules among them.

    Raises:
        ReplayRefused: A bronze table has no row yet, so that its columns are unknown.
    """
    if table.source is None:
        none = at_version(spark, lake.upstream_log(table), trial.upto).limit(0)
        # Whether a static row is known is found out anew.
        matches = [f"_check_{name}_matched" for name, read in table.reads if read.unmatched]
        return derived(none, table, lake, trial.static_versions).drop(*matches, SOURCE_ROW).schema
    if not log.exists(lake.path(table)):
        raise ReplayRefused(f"{table.key} has no row yet, so its columns are unknown; nothing was moved")
    schema = StructType([*spark.read.format("delta").load(str(lake.path(table))).schema.fields])
    for name in sorted({n for e in table.expectations for n in CHECK_NAME.findall(e.predicate)}):
        schema = schema.add(name, BooleanType())
    return schema


def tries_of(typed: DataFrame, trial: ReplayPlan) -> DataFrame:
    """Return entries as tried, their status as it was until their rows are judged."""
    open_still = F.lit(None).cast("string").alias("status")
    none = F.array().cast("array<string>").alias("rules")
    return signed(typed.select("entry_id", open_still, none, "repaired"), trial)


def signed(tried: DataFrame, trial: ReplayPlan) -> DataFrame:
    """Return entries with what says that this replay tried them."""
    return tried.withColumns(
        {
            STEP: F.lit(SETTLES),
            "attempts": F.lit(1),
            "tried_at": F.current_timestamp(),
            "replay_id": F.lit(trial.id),
        }
    )


def ends(typed: DataFrame, status: str, rules: Column) -> DataFrame:
    """Return how entries end: ``entry_id``, ``status``, ``rules`` and ``repaired``."""
    told = {"status": F.lit(status), "rules": rules}
    return typed.select("entry_id", *(c.alias(n) for n, c in told.items()), "repaired")
