"""JSON, one value a line: what fits the schema, and what is wrong with the rest."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from medallion_assets.delta.names import no_pattern, quoted
from medallion_assets.sources.formats.line_parts import LineParts
from medallion_assets.sources.formats.parsed_lines import FROM, TEXTS, judged_lines, parsed_lines
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.staging import Staging


def json_lines(spark: SparkSession, files: Sequence[Entry], staging: Staging) -> DataFrame:
    """Return one row per non-blank line.

    Returns:
        ``value`` STRING: the line; ``_why`` STRING: why it is not exactly one JSON object, NULL where it
        is; ``_source_file`` STRING, ``_source_modified_at`` TIMESTAMP.
    """
    paths = [staging.readable(file) for file in files]
    lines = spark.read.option("recursiveFileLookup", "true").text(paths)
    lines = lines.select(
        "value",
        staging.original().alias("_source_file"),
        F.col("_metadata.file_modification_time").alias("_source_modified_at"),
    ).where(F.trim("value", F.lit(" \t\r\n")) != "")
    return judged_lines(lines)


def json_records(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Return one row per non-blank line; the frame's columns are those of ``reading``.

    Lines that fit the schema come typed (``fitting``). The others are read as text and parsed after, since
    Spark's JSON reader drops the second value of a line, what follows a value, and lines that hold no
    object, all without a word.
    """
    parts = staging.in_parts(files, schema) if source.format == "json" else LineParts(whole=list(files))
    frames = [_typed(spark, parts.fitting, source, schema)] if parts.fitting else []
    lines = [judged_lines(_untyped(spark, parts.others), TEXTS)] if parts.others else []
    lines += [json_lines(spark, parts.whole, staging)] if parts.whole else []
    frames += [parsed_lines(reduce(_together, lines), source, schema)] if lines else []
    return reduce(DataFrame.unionByName, frames)


def _together(lines: DataFrame, others: DataFrame) -> DataFrame:
    return lines.unionByName(others, allowMissingColumns=True)


def _typed(spark: SparkSession, paths: list[str], source: Source, schema: StructType) -> DataFrame:
    wanted = StructType([*schema.fields, *FROM.fields])
    return (
        spark.read.schema(wanted)
        .parquet(*map(no_pattern, paths))
        .select(
            *map(quoted, schema.names),
            *([F.lit(None).cast("string").alias(source.rescued)] if source.rescued else []),
            F.lit(None).cast("string").alias("_raw"),
            F.lit(None).cast("string").alias("_reason"),
            *FROM.names,
        )
    )


def _untyped(spark: SparkSession, paths: list[str]) -> DataFrame:
    told = [StructField("value", BinaryType()), StructField(TEXTS, StringType())]
    rows = spark.read.schema(StructType([*told, *FROM.fields])).parquet(*map(no_pattern, paths))
    return rows.withColumn("value", F.col("value").cast("string"))
