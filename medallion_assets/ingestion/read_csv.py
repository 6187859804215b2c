"""CSV by header name, file by file: columns in any order, missing or surplus."""

import csv
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StringType, StructType

from medallion_assets.ingestion.ledger import Entry
from medallion_assets.ingestion.options import Source
from medallion_assets.ingestion.staging import Staging

CORRUPT = "_corrupt_record"
# RFC 4180 doubles a quote inside quotes; Spark's default escape is a backslash.
READER = {"header": "true", "escape": '"', "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def csv_records(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Gives one row per record of files that share a header; its columns are those of ``reading``.

    Everything is read as text under the header's own names and cast after, so that a value that
    does not fit its column is quarantined with its text instead of becoming NULL.
    """
    header = next(csv.reader([files[0].header]), [])
    cells = StructType()
    for position in range(len(header)):
        cells = cells.add(f"_c{position}", StringType())
    reader = spark.read.schema(cells.add(CORRUPT, StringType())).options(**READER, **source.reader_options)
    several_lines = str(files[0].layout == "document").lower()
    frame = (
        reader.option("multiLine", several_lines)
        .option("recursiveFileLookup", "true")
        .csv([staging.readable(file) for file in files])
    )
    positions = {name.strip(): f"_c{i}" for i, name in reversed(list(enumerate(header)))}
    return _typed(frame.select("*", _origin(staging), _modified()), positions, schema)


def _origin(staging: Staging) -> Column:
    return staging.original().alias("_source_file")


def _modified() -> Column:
    return F.col("_metadata.file_modification_time").alias("_source_modified_at")


def _typed(frame: DataFrame, positions: dict[str, str], schema: StructType) -> DataFrame:
    cells = {f.name: F.col(positions[f.name]) for f in schema.fields if f.name in positions}
    casts = {f.name: _cast(cells.get(f.name), f.dataType) for f in schema.fields}
    misfits = [F.when(cells[n].isNotNull() & casts[n].isNull(), F.lit(n)) for n in cells]
    wrong = F.concat_ws(", ", *misfits) if misfits else F.lit("")
    reason = (
        F.when(F.col(CORRUPT).isNotNull(), F.lit("malformed CSV: not as many cells as the header"))
        .when(F.lit(not positions), F.lit("the file has no header"))
        .when(wrong != "", F.concat(F.lit("does not fit the schema: "), wrong))
    )
    text = F.coalesce(F.col(CORRUPT), F.to_json(F.struct(*(c.alias(n) for n, c in cells.items()))))
    return frame.select(
        *(cast.alias(name) for name, cast in casts.items()),
        F.when(reason.isNotNull(), text).alias("_raw"),
        reason.alias("_reason"),
        "_source_file",
        "_source_modified_at",
    )


def _cast(cell: Column | None, wanted: DataType) -> Column:
    return F.lit(None).cast(wanted) if cell is None else F.trim(cell).try_cast(wanted)
