"""Entries a query failed on, tried again: rows of upstream, or the records a bronze table was given."""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.declare.table import SOURCE_ROW, Table
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.static_versions import at_version
from medallion_assets.quality.derive import derived
from medallion_assets.replay.retried import ReplayPlan, as_tried, ends
from medallion_assets.runtime.bronze import shaped_records
from medallion_assets.sources.batch_records import records_read
from medallion_assets.sources.evolution import SchemaDiff
from medallion_assets.sources.inference import declared
from medallion_assets.sources.load_records import kept_records
from medallion_assets.sources.quarantine import GAVE_NO_ROW, OPEN, REPLAYED
from medallion_assets.sources.schema_versions import newest
from medallion_assets.sources.staging import Staging


def repaired_inputs(entries: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return entries the query failed on, rows of upstream, in the columns of ``repaired``."""
    if table.source:
        return as_tried(entries, _record_schema(entries, table, lake), trial)
    upstream = at_version(entries.sparkSession, lake.upstream_log(table), trial.upto)
    return as_tried(entries, upstream.schema, trial)


def through_query(inputs: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return what the table's query makes of such rows as they are now."""
    rows = inputs.select("now.*")
    if table.source:
        return brought_back(rows, table, trial)
    return derived(rows, table, lake, trial.static_versions)


def brought_back(records: DataFrame, table: Table, trial: ReplayPlan) -> DataFrame:
    """Return what a bronze table's query makes of records a replay brings; of no batch, which is -1."""
    return shaped_records(records, table, replace(trial.transaction(table), version=-1))


def ended(inputs: DataFrame, given: DataFrame | None = None) -> DataFrame:
    """Return how entries end that the query was given again: replayed, or open where it gave no row of them.

    Args:
        inputs: ``repaired_inputs``.
        given: ``through_query`` of them.
    """
    none = F.array().cast("array<string>")
    if given is None or SOURCE_ROW not in given.columns:
        return ends(inputs, REPLAYED, none)
    there = given.select(F.col(SOURCE_ROW).alias("_id")).distinct()
    told = inputs.join(there, F.md5("repaired") == F.col("_id"), "left")
    silent = F.col("_id").isNull()
    status = F.when(silent, OPEN).otherwise(REPLAYED).alias("status")
    rules = F.when(silent, F.array(F.lit(GAVE_NO_ROW))).otherwise(none).alias("rules")
    return told.select("entry_id", status, rules, "repaired")


def _record_schema(entries: DataFrame, table: Table, lake: Lake) -> StructType:
    """Return the columns of the records a bronze table's query is given."""
    place = load_target_of(table, lake)
    schema = newest(place.state / "schemas") or declared(place.source)
    staging = Staging(place.state / "staging-of-none", place.source)
    records = records_read(entries.sparkSession, [], place.source, SchemaDiff(schema), staging)
    return kept_records(records, place.source).schema
