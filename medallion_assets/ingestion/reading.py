"""Reads exactly the files of a micro-batch, each row with what is wrong with it.

Frames out carry the source's columns and then:
    ``_raw`` STRING: the record as it stood, NULL where it was good;
    ``_reason`` STRING: why it cannot be a row, NULL where it can;
    ``_source_file`` STRING, ``_source_modified_at`` TIMESTAMP: where it came from.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from medallion_assets.ingestion.ledger import Entry
from medallion_assets.ingestion.options import Source
from medallion_assets.ingestion.read_csv import csv_records
from medallion_assets.ingestion.read_json import json_records
from medallion_assets.ingestion.staging import Staging


def records_of(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Gives one row per record of the files; see the module for its columns."""
    frames = [_read(spark, group, source, schema, staging) for group in _groups(files)]
    return reduce(DataFrame.unionByName, frames)


def _groups(files: Sequence[Entry]) -> list[list[Entry]]:
    """Files that can share a reader: the same layout and, for CSV, the same header in the same order."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for file in files:
        groups.setdefault((file.layout, file.header), []).append(file)
    return [groups[key] for key in sorted(groups)]


def _read(
    spark: SparkSession, files: list[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    if source.format == "json":
        return json_records(spark, files, schema, staging)
    return csv_records(spark, files, source, schema, staging)
