"""Binary files: each is a record."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.staging import Staging

BINARY = StructType(
    [
        StructField("path", StringType()),
        StructField("modificationTime", TimestampType()),
        StructField("length", LongType()),
        StructField("content", BinaryType()),
    ]
)
"""Spark's own columns for this format; they never change."""


def binary_records(spark: SparkSession, files: Sequence[Entry], staging: Staging) -> DataFrame:
    """Return one row per file, with its bytes; columns of ``reading``."""
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    found = reader.load([staging.readable(file) for file in files])
    return found.select(
        staging.original().alias("path"),
        "modificationTime",
        "length",
        "content",
        F.lit(None).cast("string").alias("_raw"),
        F.lit(None).cast("string").alias("_reason"),
        staging.original().alias("_source_file"),
        F.col("_metadata.file_modification_time").alias("_source_modified_at"),
    )
