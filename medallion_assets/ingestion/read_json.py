"""JSON, one value a line: what fits the schema, and what is wrong with the rest."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructType

from medallion_assets.ingestion.ledger import Entry
from medallion_assets.ingestion.staging import Staging

CORRUPT = "_corrupt_record"
PARSER = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "allowNonNumericNumbers": "false"}


def json_records(
    spark: SparkSession, files: Sequence[Entry], schema: StructType, staging: Staging
) -> DataFrame:
    """Gives one row per non-blank line; the frame's columns are those of ``reading``.

    Read as text and parsed after, since Spark's JSON reader drops the second value of a line,
    what follows a value, and lines that hold no object, all without a word.
    """
    paths = [staging.readable(file) for file in files]
    lines = spark.read.option("recursiveFileLookup", "true").text(paths)
    lines = lines.select(
        "value",
        staging.original().alias("_source_file"),
        F.col("_metadata.file_modification_time").alias("_source_modified_at"),
    ).where(F.trim("value", F.lit(" \t\r\n")) != "")
    wanted = StructType([*schema.fields]).add(CORRUPT, StringType())
    parsed = lines.withColumn("_row", F.from_json("value", wanted, PARSER))
    return parsed.withColumn("_reason", _reason()).select(
        *(F.col("_row")[name].alias(name) for name in schema.names),
        F.when(F.col("_reason").isNotNull(), F.col("value")).alias("_raw"),
        "_reason",
        "_source_file",
        "_source_modified_at",
    )


def _reason() -> Column:
    # As an array of one: NULL for text that is no JSON, 2 and more where a line holds several values.
    values = F.json_array_length(F.concat(F.lit("["), F.col("value"), F.lit("]")))
    starts_as_object = F.ltrim(F.col("value"), F.lit(" \t\ufeff")).startswith("{")
    return (
        F.when(values.isNull(), F.lit("malformed JSON"))
        .when(values > 1, F.lit("several values on one line"))
        .when(~starts_as_object, F.lit("not a JSON object"))
        .when(F.col("_row").isNull() | F.col("_row")[CORRUPT].isNotNull(), F.lit("does not fit the schema"))
    )
