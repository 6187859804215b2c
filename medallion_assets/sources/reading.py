"""Read exactly the files of a micro-batch, each row with the reason where it is malformed.

The frames have the source's columns, its rescued data column where it has one, and then:
    ``_raw`` STRING: the record's text in the file, NULL where it is good;
    ``_reason`` STRING: why it cannot be a row, NULL where it can;
    ``_check_position`` STRING, ``_check_bytes`` STRING: of such a record, where it is in its file and, where
    its text is not exact, its bytes as base64;
    ``_source_file`` STRING, ``_source_modified_at`` TIMESTAMP: where it came from;
    of a Kafka topic, the columns of ``formats.messages`` besides.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.sources.formats.columnar import binary_records, columnar_records
from medallion_assets.sources.formats.parsed_frames import origin, parsed_frame
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.partitions import own_columns, with_partitions, with_refusals
from medallion_assets.sources.quarantine import BYTES, POSITION
from medallion_assets.sources.staging import Staging

PARSED = ("csv", "json", "xml", "text")
"""Formats that are parsed file by file before Spark reads them, whatever their layout."""


def records_of(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Return one row per record of the files; see the module for its columns."""
    paths, files = [file.path for file in files], with_refusals(files, source, schema)
    own = own_columns(schema, paths, source)
    full = [file for file in files if file.records]
    parted = groups(files) if not is_parsed(source) else [full] if full else []
    frames = [_placed(_read(spark, group, source, own, staging)) for group in parted]
    frames = frames or [_placed(_none(spark, own, source))]
    return with_partitions(reduce(DataFrame.unionByName, frames), paths, source, schema, "_source_file")


def is_parsed(source: Source) -> bool:
    """Return true where the source's files are parsed before Spark reads them."""
    return source.format in PARSED or source.kafka is not None


def groups(files: Sequence[Entry], also_empty: bool = False) -> list[list[Entry]]:
    """Return files that can share a reader together: the same layout, and the same schema of their own."""
    # A text file without a record may have no header either, and no reader takes it.
    full = [file for file in files if file.records or also_empty]
    alike: dict[tuple[str, str], list[Entry]] = {}
    for file in full:
        alike.setdefault((file.layout, file.header), []).append(file)
    return [alike[key] for key in sorted(alike)]


def _placed(records: DataFrame) -> DataFrame:
    """Return records with a position and bytes, NULL for readers that have none."""
    missing = [name for name in (POSITION, BYTES) if name not in records.columns]
    return records.withColumns({name: F.lit(None).cast("string") for name in missing})


def _none(spark: SparkSession, schema: StructType, source: Source) -> DataFrame:
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields]
    strings = (*([source.rescued] if source.rescued else []), "_raw", "_reason")
    texts = [F.lit(None).cast("string").alias(name) for name in strings]
    placed = [F.lit(None).cast(field.dataType).alias(field.name) for field in origin(source)]
    return spark.range(0).select(*columns, *texts, *placed)


def _read(
    spark: SparkSession, files: list[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    if is_parsed(source):
        return parsed_frame(spark, staging.parsed(spark, files, schema), source, schema)
    if source.format == "binaryFile":
        return binary_records(spark, files, staging)
    return columnar_records(spark, files, source, schema, staging)
