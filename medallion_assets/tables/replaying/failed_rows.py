"""Entries a query failed on, tried again: rows of upstream, or the records a bronze table was given."""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.ingestion.batch_records import records_read
from medallion_assets.ingestion.evolution import Growth
from medallion_assets.ingestion.inference import declared
from medallion_assets.ingestion.load_records import kept_records
from medallion_assets.ingestion.quarantine import REPLAYED
from medallion_assets.ingestion.schema_versions import newest
from medallion_assets.ingestion.staging import Staging
from medallion_assets.tables.declaration.table import Table
from medallion_assets.tables.judgement.derive import derived
from medallion_assets.tables.replaying.retried import Trial, as_tried, ends
from medallion_assets.tables.standing.lake import Lake
from medallion_assets.tables.standing.pins import at_version
from medallion_assets.tables.writing.bronze import place_of, shaped_records


def repaired_inputs(entries: DataFrame, table: Table, lake: Lake, trial: Trial) -> DataFrame:
    """Gives entries the query failed on, rows of upstream, in the columns of ``repaired``."""
    if table.source:
        return as_tried(entries, _record_schema(entries, table, lake), trial)
    upstream = at_version(entries.sparkSession, lake.upstream_log(table), trial.upto)
    return as_tried(entries, upstream.schema, trial)


def through_query(inputs: DataFrame, table: Table, lake: Lake, trial: Trial) -> DataFrame:
    """Gives what the table's query makes of such rows as they are now."""
    rows = inputs.select("now.*")
    if table.source:
        return brought_back(rows, table, trial)
    return derived(rows, table, lake, trial.pins)


def brought_back(records: DataFrame, table: Table, trial: Trial) -> DataFrame:
    """Gives what a bronze table's query makes of records a replay brings; of no batch, which is -1."""
    return shaped_records(records, table, replace(trial.stamp(table), batch_id=-1))


def ended(inputs: DataFrame) -> DataFrame:
    """Gives entries the query took this time as replayed."""
    return ends(inputs, REPLAYED, F.array().cast("array<string>"))


def _record_schema(entries: DataFrame, table: Table, lake: Lake) -> StructType:
    """Gives the columns of the records a bronze table's query is given."""
    place = place_of(table, lake)
    schema = newest(place.state / "schemas") or declared(place.source)
    staging = Staging(place.state / "staging-of-none", place.source)
    records = records_read(entries.sparkSession, [], place.source, Growth(schema), staging)
    return kept_records(records, place.source).schema
