"""The records of a micro-batch's files, read with the schema those files ask for."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.delta.commit import Transaction
from medallion_assets.sources.evolution import SchemaDiff
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.options import Source
from medallion_assets.sources.reading import records_of
from medallion_assets.sources.schemas import schema_for
from medallion_assets.sources.select_list import selected
from medallion_assets.sources.staging import Staging


def records_with_schema(
    spark: SparkSession, files: Sequence[Entry], place: LoadTarget, staging: Staging, transaction: Transaction
) -> tuple[SchemaDiff, DataFrame]:
    """Return what the files ask of the schema, and their records read with it (columns of ``reading``)."""
    growth = schema_for(spark, place.source, files, staging, place.state / "schemas", transaction)
    return growth, records_read(spark, files, place.source, growth, staging)


def records_read(
    spark: SparkSession, files: Sequence[Entry], source: Source, growth: SchemaDiff, staging: Staging
) -> DataFrame:
    """Return the files' records in the columns of ``reading``, through the source's select list."""
    records = records_of(spark, files, source, growth.schema, staging)
    return selected(records, source) if source.select else records


@contextmanager
def noting_nothing(place: LoadTarget) -> Iterator[LoadTarget]:
    """Return the place with its notes in a folder that goes: a schema version is a write too."""
    with tempfile.TemporaryDirectory() as folder:
        versions = place.state / "schemas"
        copied = Path(folder) / "schemas"
        copied.mkdir()
        for file in versions.glob("*.json") if versions.is_dir() else ():
            (copied / file.name).write_bytes(file.read_bytes())
        yield replace(place, state=Path(folder))
