"""CSV by header name, file by file: columns in any order, missing or surplus."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from medallion_assets.delta.names import among
from medallion_assets.sources.formats.csv_cells import columns_of
from medallion_assets.sources.formats.csv_header import header_names
from medallion_assets.sources.formats.csv_text import WIDTH
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.staging import Staging

CORRUPT = "_corrupt_record"
READER = {"header": "true", "quote": "", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
"""For files without a single quote; the others are cut into cells before Spark sees them."""

NO_COLUMN = "no column is called as the header has it: "


def csv_records(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Return one row per record of files that share a reader; its columns are those of ``reading``.

    Everything is read as text under the header's own names and cast after, so that a value that
    does not fit its column is rescued or quarantined with its text instead of becoming NULL.
    """
    if files[0].layout == "cells":
        lines = spark.read.text([staging.readable(file) for file in files])
        lines = lines.select("value", *_origin(staging))
        return typed_cells(lines, source, schema)
    names = header_names(files[0].header)
    return columns_of(_split(spark, files, source, schema, staging), names, source, schema)


def _split(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Return files of one header: ``_row`` STRUCT of the schema's cells, ``_unknown`` the others."""
    names = header_names(files[0].header)
    cells = StructType([StructField(f"_c{i}", StringType()) for i in range(len(names))])
    reader = spark.read.schema(cells.add(CORRUPT, StringType())).options(**READER)
    reader = reader.option("sep", source.option("sep", "delimiter", default=","))
    rows = reader.option("recursiveFileLookup", "true").csv([staging.readable(file) for file in files])
    at = {name: F.col(f"_c{i}") for i, name in enumerate(names)}
    left = [F.struct(F.lit(n).alias("key"), c.alias("value")) for n, c in at.items() if n not in schema.names]
    kept = [c.alias(n) for n, c in at.items() if n in schema.names]
    unknown = F.filter(F.array(*left), lambda e: e["value"].isNotNull()) if left else _no_pair()
    row = F.struct(*kept) if kept else F.lit(None).cast("struct<a string>")
    # Not as a plain literal: Spark would see that no row is good, drop the plan, and with it the counting.
    foreign = (F.coalesce(F.length("_c0"), F.lit(0)) >= 0) & F.lit(not kept)
    wrong = F.when(foreign, F.lit(_unless_known(names)))
    whole = F.to_json(F.struct(*(c.alias(n) for n, c in at.items())))
    problem = F.when(F.col(CORRUPT).isNotNull(), F.lit(WIDTH)).otherwise(wrong)
    return _parts(rows, row, unknown, F.coalesce(F.col(CORRUPT), whole), problem, _origin(staging))


def typed_cells(lines: DataFrame, source: Source, schema: StructType) -> DataFrame:
    """Return one row per line of cells; its columns are those of ``reading``.

    Args:
        lines: ``value`` STRING: a JSON object of ``f`` (cells by their names), ``r`` (the record's text
            where it differs) and ``p`` (what is wrong with it); ``_source_file``, ``_source_modified_at``.
        source: How it is read.
        schema: The columns wanted.
    """
    return columns_of(_cut(lines, schema), schema.names, source, schema)


def _cut(lines: DataFrame, schema: StructType) -> DataFrame:
    """Return lines of cells in the columns of ``_split``."""
    strings = StructType([StructField(name, StringType()) for name in schema.names])
    row = F.from_json("value", StructType([StructField("f", strings)]))["f"]
    cells = lines.withColumn("_m", F.from_json("value", "f MAP<STRING, STRING>, r STRING, p STRING"))
    unknown = F.expr(
        f"filter(map_entries(_m.f), e -> e.value IS NOT NULL AND NOT {among('e.key', schema.names)})"
    )
    names = F.concat_ws(", ", F.map_keys("_m.f"))
    foreign = F.expr(f"NOT exists(map_keys(_m.f), k -> {among('k', schema.names)})")
    wrong = F.when(foreign, F.concat(F.lit(NO_COLUMN), F.substring(names, 1, 500)))
    problem = F.coalesce(F.col("_m.p"), wrong)
    text = F.coalesce(F.col("_m.r"), F.to_json("_m.f"))
    return _parts(cells, row, unknown, text, problem, [F.col("_source_file"), F.col("_source_modified_at")])


def _parts(
    frame: DataFrame, row: Column, unknown: Column, text: Column, problem: Column, origin: list[Column]
) -> DataFrame:
    named = {"_row": row, "_unknown": unknown, "_text": text, "_problem": problem}
    return frame.select(*(c.alias(name) for name, c in named.items()), *origin)


def _origin(staging: Staging) -> list[Column]:
    time = F.col("_metadata.file_modification_time").alias("_source_modified_at")
    return [staging.original().alias("_source_file"), time]


def _unless_known(names: list[str]) -> str:
    """Say what is wrong with a header that names no column: it is most likely a record itself."""
    return (NO_COLUMN + ", ".join(names))[:500] if names else "the file has no header"


def _no_pair() -> Column:
    return F.array().cast("array<struct<key: string, value: string>>")
