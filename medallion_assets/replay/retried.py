"""The data frames of a replay: chosen entries, their fixed rows, and how each entry ends."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, StructType

from medallion_assets.declare.errors import ReplayRefused
from medallion_assets.declare.table import SOURCE_ROW, Table
from medallion_assets.delta import log, working
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import quoted
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version
from medallion_assets.quality.derive import derived
from medallion_assets.quality.judge import CHECK_NAME
from medallion_assets.quality.late_rows import without_time
from medallion_assets.quarantine.choice import fixes_of, mended
from medallion_assets.quarantine.entries import SETTLES, STEP
from medallion_assets.runtime.bronze import shaped_records
from medallion_assets.sources.evolution import SchemaDiff
from medallion_assets.sources.load_records import kept_records, records_read
from medallion_assets.sources.quarantine import (
    GAVE_NO_ROW,
    IS_REPAIRED,
    LATE,
    NO_EVENT_TIME,
    OPEN,
    QUERY,
    RAW,
    REPLAYED,
)
from medallion_assets.sources.row_json import read_row, row_json
from medallion_assets.sources.schema_versions import newest
from medallion_assets.sources.schemas import declared
from medallion_assets.sources.staging import Staging

UNFIT = working.UNFIT
NO_LONGER = "does not fit the table's columns"


@dataclass(frozen=True)
class ReplayPlan:
    """The plan of one replay, stored before it begins.

    Attributes:
        id: The id in commits and entries.
        version: Version of the quarantine to read.
        condition: SQL predicate of the chosen entries.
        fix: ``column = expression``, separated by commas; empty for none.
        static_versions: Version of each static input, and the table's own under its key.
        upto: The table's position: the upstream version it has taken.
        run_id: The run that asked for it.
    """

    id: str
    version: int
    condition: str
    fix: str
    static_versions: Mapping[str, int]
    upto: int
    run_id: str

    def transaction(self, table: Table) -> Transaction:
        """Return the transaction of its commit on the table."""
        metadata = {"run_id": self.run_id, "table": table.key, "replay": self.id}
        return Transaction(f"{table.key}/replay/{self.id}", 0, metadata, self.version)


def chosen(spark: SparkSession, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return the entries that a replay works on, in the quarantine's columns.

    A fix of the column ``row`` applies to raw records only. A fix of other columns applies to the entries
    that have these columns: rows the query returned, or upstream rows the query failed on. No fix applies to
    a late row, whose values are good.
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
    """Return typed entries, fixed: ``entry_id``, ``was`` and ``now`` STRUCT, ``repaired``, ``UNFIT``.

    Raises:
        ReplayRefused: The fix names a column that the rows do not have.
    """
    return as_tried(entries, row_schema(table, lake, entries.sparkSession, trial), trial)


def as_tried(entries: DataFrame, schema: StructType, trial: ReplayPlan) -> DataFrame:
    """Return entries whose rows have a schema, with the fix applied; see ``repaired``.

    Without a fix, an entry whose repair is in force is tried as it was repaired.
    """
    fixes = fixes_of(trial.fix)
    expression = "row" if fixes else f"if({IS_REPAIRED}, coalesce(repaired, row), row)"
    read = {"was": "row", "tried": expression}
    texts = {name: read_row(F.expr(text), schema, UNFIT) for name, text in read.items()}
    rows = entries.select("entry_id", *(text.alias(name) for name, text in texts.items()))
    if not fixes.keys() <= {*schema.names} and entries.isEmpty():
        # The fix is for the other kind of rows, upstream's or the query's.
        fixes = {}
    fixed = mended(rows.select("entry_id", "was", "tried.*"), fixes)
    values = {name: F.col(quoted(name)) for name in schema.names}
    now, text = F.struct(*values.values()), row_json(values, schema)
    return fixed.select("entry_id", "was", now.alias("now"), text.alias("repaired"), F.col(UNFIT))


def repaired_typed(entries: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return ``repaired`` for entries of typed rows; empty where the fix is for raw records."""
    of_records = "row" in fixes_of(trial.fix)
    typed = entries.where(f"NOT {RAW} AND reason_class <> '{QUERY}'").where(F.lit(not of_records))
    return repaired(typed, table, lake, replace(trial, fix="") if of_records else trial)


def row_schema(table: Table, lake: Lake, spark: SparkSession, trial: ReplayPlan) -> StructType:
    """Return the schema of the query's result today, with the columns made for rules.

    Raises:
        ReplayRefused: The bronze table has no row yet, so its columns are unknown.
    """
    if table.source is None:
        none = at_version(spark, lake.upstream_log(table), trial.upto).limit(0)
        # Matches with static rows are computed again.
        matches = [f"_check_{name}_matched" for name, read in table.reads if read.unmatched]
        return derived(none, table, lake, trial.static_versions).drop(*matches, SOURCE_ROW).schema
    if not log.exists(lake.path(table)):
        raise ReplayRefused(f"{table.key} has no row yet, so its columns are unknown; nothing was moved")
    schema = StructType([*spark.read.format("delta").load(str(lake.path(table))).schema.fields])
    for name in sorted({n for e in table.expectations for n in CHECK_NAME.findall(e.predicate)}):
        schema = schema.add(name, BooleanType())
    return schema


def tries_of(typed: DataFrame, trial: ReplayPlan) -> DataFrame:
    """Return entries as tried; their status is unchanged until their rows are judged."""
    open_still = F.lit(None).cast("string").alias("status")
    none = F.array().cast("array<string>").alias("rules")
    return signed(typed.select("entry_id", open_still, none, "repaired"), trial)


def signed(tried: DataFrame, trial: ReplayPlan) -> DataFrame:
    """Return entries with the columns that record this replay's attempt."""
    return tried.withColumns(
        {
            STEP: F.lit(SETTLES),
            "attempts": F.lit(1),
            "tried_at": F.current_timestamp(),
            "replay_id": F.lit(trial.id),
        }
    )


def ends(typed: DataFrame, status: str, rules: Column) -> DataFrame:
    """Return the entries with their new status: ``entry_id``, ``status``, ``rules`` and ``repaired``."""
    values = {"status": F.lit(status), "rules": rules}
    return typed.select("entry_id", *(c.alias(n) for n, c in values.items()), "repaired")


def repaired_inputs(entries: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return upstream rows that the query failed on, in the columns of ``repaired``."""
    if table.source:
        return as_tried(entries, _record_schema(entries, table, lake), trial)
    upstream = at_version(entries.sparkSession, lake.upstream_log(table), trial.upto)
    return as_tried(entries, upstream.schema, trial)


def through_query(inputs: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return the result of the table's query on such rows with the fix applied."""
    rows = inputs.select("now.*")
    if table.source:
        return brought_back(rows, table, trial)
    return derived(rows, table, lake, trial.static_versions)


def refuse_what_fails(inputs: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> None:
    """Run the query on the fixed rows, and raise its error where it still fails.

    Raises:
        ReplayRefused: A row still has no time, so that no window takes it; nothing was moved.
    """
    rows = inputs.select("now.*")
    through = derived(rows, table, lake, trial.static_versions)
    timeless = without_time(rows, through)
    if timeless is not None and not timeless.isEmpty():
        raise ReplayRefused(f"{table.key}: a row has no time ({NO_EVENT_TIME}); nothing was moved")
    through.write.format("noop").mode("overwrite").save()


def brought_back(records: DataFrame, table: Table, trial: ReplayPlan) -> DataFrame:
    """Return the result of a bronze table's query on replayed records, under batch id -1."""
    return shaped_records(records, table, replace(trial.transaction(table), version=-1))


def ended(inputs: DataFrame, given: DataFrame | None = None) -> DataFrame:
    """Return the new status of entries given to the query again: replayed, or open without a result row.

    Args:
        inputs: ``repaired_inputs``.
        given: ``through_query`` of them.
    """
    none = F.array().cast("array<string>")
    if given is None or SOURCE_ROW not in given.columns:
        return ends(inputs, REPLAYED, none)
    there = given.select(F.col(SOURCE_ROW).alias("_id")).distinct()
    joined = inputs.join(there, F.md5("repaired") == F.col("_id"), "left")
    silent = F.col("_id").isNull()
    status = F.when(silent, OPEN).otherwise(REPLAYED).alias("status")
    rules = F.when(silent, F.array(F.lit(GAVE_NO_ROW))).otherwise(none).alias("rules")
    return joined.select("entry_id", status, rules, "repaired")


def _record_schema(entries: DataFrame, table: Table, lake: Lake) -> StructType:
    """Return the schema of the records that a bronze table's query reads."""
    place = load_target_of(table, lake)
    schema = newest(place.state / "schemas") or declared(place.source)
    staging = Staging(place.state / "staging-of-none", place.source)
    records = records_read(entries.sparkSession, [], place.source, SchemaDiff(schema), staging)
    return kept_records(records, place.source).schema
