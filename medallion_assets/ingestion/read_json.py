"""JSON, one value a line: what fits the schema, and what is wrong with the rest."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from medallion_assets.delta.names import quoted
from medallion_assets.ingestion.ledger import Entry
from medallion_assets.ingestion.line_parts import LineParts
from medallion_assets.ingestion.options import Source
from medallion_assets.ingestion.quarantine import NO_FIT
from medallion_assets.ingestion.rescue import FIELDS, rescued_from_json, something_left_over
from medallion_assets.ingestion.staging import Staging

UNFIT = "_unfit"
STRICT = {"allowNonNumericNumbers": "false", "allowSingleQuotes": "false"}
PARSER = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNFIT, **STRICT}
MALFORMED_INSIDE = "malformed JSON, or a nested object that repeats a key"
FROM = StructType(
    [StructField("_source_file", StringType()), StructField("_source_modified_at", TimestampType())]
)
TEXTS, EXACT = "texts", "_exact"
LONGEST = 8 << 20
"""Characters of one record; a VARIANT, which rescue reads fields through, holds 16 MiB."""


def json_lines(spark: SparkSession, files: Sequence[Entry], staging: Staging) -> DataFrame:
    """Gives one row per non-blank line.

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


def judged_lines(lines: DataFrame, *kept: str) -> DataFrame:
    """Gives ``json_lines`` of texts: ``value``, ``_source_file``, ``_source_modified_at``, and those kept."""
    # Bytes that are no UTF-8 would pass through Spark and break what reads the table after it.
    valid = F.make_valid_utf8("value")
    return lines.select(valid.alias("value"), _why().alias("_why"), *FROM.names, *kept)


def json_records(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Gives one row per non-blank line; the frame's columns are those of ``reading``.

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
        .parquet(*paths)
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
    rows = spark.read.schema(StructType([*told, *FROM.fields])).parquet(*paths)
    return rows.withColumn("value", F.col("value").cast("string"))


def parsed_lines(lines: DataFrame, source: Source, schema: StructType) -> DataFrame:
    """Gives one row per line of ``json_lines``, which may have ``texts`` STRING (``exact_texts``) beside it.

    The frame's columns are those of ``reading``.
    """
    sound = F.when(F.col("_why").isNull(), F.col("value"))
    wanted = StructType([*schema.fields]).add(UNFIT, StringType())
    parsed = lines.withColumn("_row", F.from_json(sound, wanted, PARSER | _times(source)))
    if source.rescued:
        odd = parsed.withColumn("_odd", something_left_over(schema, UNFIT))
        parsed = odd.withColumn("_fields", F.when(F.col("_odd"), F.from_json(sound, FIELDS, STRICT)))
    if TEXTS in lines.columns:
        parsed = parsed.withColumn(EXACT, F.from_json(TEXTS, "map<string,string>"))
    return parsed.withColumn("_reason", _reason(source, schema)).select(
        *(_column(field, EXACT in parsed.columns) for field in schema.fields),
        *_rescued(source, schema),
        F.when(F.col("_reason").isNotNull(), F.col("value")).alias("_raw"),
        "_reason",
        *FROM.names,
    )


def _column(field: StructField, exact: bool) -> Column:
    value = F.col("_row")[field.name]
    if exact and isinstance(field.dataType, StringType):
        # from_json reads a number and writes it again; NULL it only makes of what it cannot take.
        text = F.coalesce(F.try_element_at(F.col(EXACT), F.lit(field.name)), value)
        value = F.when(value.isNotNull(), text)
    return value.alias(field.name)


def _rescued(source: Source, schema: StructType) -> list[Column]:
    if not source.rescued:
        return []
    found = rescued_from_json("_fields", F.col("_row"), schema, F.col("_source_file"))
    return [found.alias(source.rescued)]


def _times(source: Source) -> dict[str, str]:
    kept = ("dateFormat", "timestampFormat", "timestampNTZFormat", "locale")
    return {name: value for name, value in source.reader_options.items() if name in kept}


def _reason(source: Source, schema: StructType) -> Column:
    if source.rescued:
        # json_array_length lets single quotes and bare control characters through; this parser does not.
        return F.coalesce("_why", F.when(F.col("_odd") & F.col("_fields").isNull(), F.lit(MALFORMED_INSIDE)))
    # JSON has no infinity: an infinite value was a number too large for its column.
    doubles = [f.name for f in schema.fields if isinstance(f.dataType, (DoubleType, FloatType))]
    huge = [F.abs(F.col("_row")[name]).eqNullSafe(float("inf")) for name in doubles]
    unfit = reduce(Column.__or__, huge, F.col("_row").isNull() | F.col("_row")[UNFIT].isNotNull())
    return F.coalesce("_why", F.when(unfit, F.lit(NO_FIT)))


def _why() -> Column:
    # As an array of one: NULL for text that is no JSON, 2 and more where a line holds several values.
    values = F.json_array_length(F.concat(F.lit("["), F.col("value"), F.lit("]")))
    starts_as_object = F.ltrim(F.col("value"), F.lit(" \t")).startswith("{")
    return (
        F.when(~F.is_valid_utf8("value"), F.lit("not valid UTF-8"))
        .when(F.length("value") > LONGEST, F.lit(f"a record of more than {LONGEST} characters"))
        .when(values.isNull(), F.lit("malformed JSON"))
        .when(values > 1, F.lit("several values on one line"))
        .when(~starts_as_object, F.lit("not a JSON object"))
    )
