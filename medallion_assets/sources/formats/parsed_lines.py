"""JSON lines as text: what is wrong with each, and what a sound one says in the schema's columns."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DoubleType, FloatType, StringType, StructField, StructType, TimestampType

from medallion_assets.delta import working
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import NO_FIT
from medallion_assets.sources.rescue import FIELDS, rescued_from_json, something_left_over

UNFIT = working.UNFIT
STRICT = {"allowNonNumericNumbers": "false", "allowSingleQuotes": "false"}
PARSER = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNFIT, **STRICT}
MALFORMED_INSIDE = "malformed JSON, or a nested object that repeats a key"
FROM = StructType(
    [StructField("_source_file", StringType()), StructField("_source_modified_at", TimestampType())]
)
TEXTS, EXACT = "texts", "_exact"
LONGEST = 8 << 20
"""Characters of one record; a VARIANT, which rescue reads fields through, holds 16 MiB."""


def judged_lines(lines: DataFrame, *kept: str) -> DataFrame:
    """Return ``json_lines`` of texts: ``value``, ``_source_file``, ``_source_modified_at`` and ``kept``."""
    # Bytes that are no UTF-8 would pass through Spark and break what reads the table after it.
    valid = F.make_valid_utf8("value")
    return lines.select(valid.alias("value"), _why().alias("_why"), *FROM.names, *kept)


def parsed_lines(lines: DataFrame, source: Source, schema: StructType) -> DataFrame:
    """Return one row per line of ``json_lines``, which may have ``texts`` STRING (``exact_texts``) beside it.

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
    reasons = [F.col("_why")]
    if source.rescued:
        # json_array_length lets single quotes and bare control characters through; this parser does not.
        reasons += [F.when(F.col("_odd") & F.col("_fields").isNull(), F.lit(MALFORMED_INSIDE))]
    if source.rescues_values:
        return F.coalesce(*reasons)
    # JSON has no infinity: an infinite value was a number too large for its column.
    doubles = [f.name for f in schema.fields if isinstance(f.dataType, (DoubleType, FloatType))]
    huge = [F.abs(F.col("_row")[name]).eqNullSafe(float("inf")) for name in doubles]
    unfit = reduce(Column.__or__, huge, F.col("_row").isNull() | F.col("_row")[UNFIT].isNotNull())
    return F.coalesce(*reasons, F.when(unfit, F.lit(NO_FIT)))


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
