"""Records of parsed text files as frames; Spark parses columns whose type or time format only it knows."""

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.names import no_pattern, quoted
from medallion_assets.sources.formats.json_values import FORMATS, JsonText, as_read
from medallion_assets.sources.formats.messages import COLUMNS as OF_MESSAGES
from medallion_assets.sources.formats.parsed_files import JUDGED, LEFT, ParsedFiles
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import BYTES, FILE_PATH, NO_FIT, POSITION, as_json
from medallion_assets.sources.row_json import read_row

FROM = types.StructType(
    [
        types.StructField("_source_file", types.StringType()),
        types.StructField("_source_modified_at", types.TimestampType()),
    ]
)
TEXTS = types.StructType([types.StructField(name, types.StringType()) for name in JUDGED.names])
CORRUPT = "corrupt"
"""The field that says of a text that a part of it does not fit."""
BY_ARROW = {"datetimeRebaseMode": "CORRECTED"}
"""Dates before 1582 that Arrow writes are those of Spark's own calendar."""


def parsed_frame(
    spark: SparkSession, parts: ParsedFiles, source: Source, schema: types.StructType
) -> DataFrame:
    """Return the records of parsed text files; the frame's columns are those of ``reading``."""
    read = as_read(schema, source)
    frames = []
    if parts.rows:
        frames.append(rows_frame(spark, parts, stored_columns(read), source))
    if parts.judged:
        columns = [*stored_columns(read).fields, *TEXTS.fields, *origin(source)]
        reader = spark.read.schema(types.StructType(columns)).options(**BY_ARROW)
        frames.append(reader.parquet(*map(no_pattern, parts.judged)))
    return finished(reduce(DataFrame.unionByName, frames), source, schema)


def origin(source: Source) -> list[types.StructField]:
    """Return the columns that say where a record came from."""
    return [*FROM.fields, *(OF_MESSAGES.fields if source.kafka else ())]


def rows_frame(
    spark: SparkSession, parts: ParsedFiles, stored: types.StructType, source: Source
) -> DataFrame:
    """Return the rows of parsed files that fit, with ``JUDGED``, which is NULL but for positions."""
    placed = [types.StructField(POSITION, types.StringType())] if source.select else []
    rows = (
        spark.read.schema(types.StructType([*stored.fields, *placed, *origin(source)]))
        .options(**BY_ARROW)
        .parquet(*map(no_pattern, parts.rows))
    )
    missing = [name for name in JUDGED.names if name not in rows.columns]
    return rows.withColumns({name: F.lit(None).cast("string") for name in missing})


def finished(judged: DataFrame, source: Source, schema: types.StructType) -> DataFrame:
    """Return records in the columns of ``reading``, with values that Spark parses from their text.

    Args:
        judged: The columns as by ``as_read``, ``JUDGED``, ``_source_file`` and ``_source_modified_at``.
        source: What the records come from.
        schema: The columns wanted.
    """
    texts = set(parsed_by_spark(as_read(schema, source)))
    times = {name: text for name, text in source.reader_options.items() if name in FORMATS}
    columns, left = [], []
    for field in schema.fields:
        text = F.col(quoted(field.name))
        if field.name not in texts:
            columns.append(text)
            continue
        wrapped = F.concat(F.lit('{"v":'), text, F.lit("}"))
        parsed = read_row(wrapped, types.StructType([types.StructField("v", field.dataType)]), CORRUPT, times)
        # Of a value inside that does not fit Spark makes NULL, and says so of the whole record alone.
        value = F.when(parsed[CORRUPT].isNull(), parsed["v"])
        columns.append(value.alias(field.name))
        name = as_json(F.lit(field.name))
        left.append(F.when(text.isNotNull() & value.isNull(), F.concat(name, F.lit(":"), text)))
    misfits = F.concat_ws(",", *left) if left else F.lit("")
    return judged.select(
        *columns,
        *_rescued(misfits, bool(left) and source.rescues_values, source.rescued),
        *_refused(misfits, bool(left) and not source.rescues_values, bool(source.select)),
        *(field.name for field in origin(source)),
    )


def _rescued(misfits: Column, some: bool, name: str) -> list[Column]:
    if not name or not some:
        return [F.col(LEFT).alias(name)] if name else []
    path = F.concat(F.lit(FILE_PATH), as_json(F.col("_source_file")), F.lit("}"))
    end = F.coalesce(F.substring(LEFT, 2, 1 << 30), path)
    whole = F.concat(F.lit("{"), misfits, F.lit(","), end)
    return [F.when(misfits == "", F.col(LEFT)).otherwise(whole).alias(name)]


def _refused(misfits: Column, refuse: bool, all_positions: bool) -> list[Column]:
    unfit = F.when(misfits != "", F.lit(NO_FIT)) if refuse else F.lit(None).cast("string")
    reason = F.coalesce("_reason", unfit)
    of_refused = [F.when(reason.isNotNull(), F.col(name)).alias(name) for name in ("_raw", POSITION, BYTES)]
    if all_positions:
        # Which rows a select list refuses is not known yet.
        of_refused[1] = F.col(POSITION)
    return [of_refused[0], reason.alias("_reason"), *of_refused[1:]]


def parsed_by_spark(read: types.StructType) -> list[str]:
    """Return the columns whose texts Spark parses."""
    return [field.name for field in read.fields if isinstance(field.dataType, JsonText)]


def stored_columns(read: types.StructType) -> types.StructType:
    """Return the columns of parsed files, in which texts for Spark are STRINGs."""
    kinds = {
        f.name: types.StringType() if isinstance(f.dataType, JsonText) else f.dataType for f in read.fields
    }
    return types.StructType([types.StructField(name, kind) for name, kind in kinds.items()])
