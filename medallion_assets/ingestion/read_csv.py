"""CSV by header name, file by file: columns in any order, missing or surplus."""

import csv
import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StringType, StructType, TimestampType

from medallion_assets.ingestion.csv_text import WIDTH
from medallion_assets.ingestion.ledger import Entry
from medallion_assets.ingestion.options import Source
from medallion_assets.ingestion.rescue import as_json, rescued_from_cells
from medallion_assets.ingestion.staging import Staging

CORRUPT = "_corrupt_record"
READER = {"header": "true", "quote": "", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
"""For files without a single quote; the others are cut into cells before Spark sees them."""

CUT = "c array<string>, r string, p string"


def header_names(header: str) -> list[str]:
    """Gives a header's names: trimmed, ``_c1`` where empty, with ``_2`` where one stands a second time."""
    names: list[str] = []
    for position, cell in enumerate(next(csv.reader([header], strict=False), [])):
        name = cell.strip() or f"_c{position}"
        turn = 2
        while name in names:
            name, turn = f"{cell.strip()}_{turn}", turn + 1
        names.append(name)
    return names


def csv_records(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Gives one row per record of files that share a header; its columns are those of ``reading``.

    Everything is read as text under the header's own names and cast after, so that a value that
    does not fit its column is rescued or quarantined with its text instead of becoming NULL.
    """
    names = _names(files[0].header, source, schema)
    read = _cut if files[0].layout == "cells" else _split
    # Columns: _cells ARRAY<STRING>, _text and _problem STRING (NULL where nothing is wrong), provenance.
    return _typed(read(spark, files, source, len(names), staging), names, source, schema)


def _names(header: str, source: Source, schema: StructType) -> list[str]:
    names = header_names(header)
    if source.option("header", default="true") == "true" or not source.schema:
        return names
    return [*schema.names[: len(names)], *names[len(schema.names) :]]


def _split(
    spark: SparkSession, files: Sequence[Entry], source: Source, width: int, staging: Staging
) -> DataFrame:
    cells = StructType()
    for position in range(width):
        cells = cells.add(f"_c{position}", StringType())
    reader = spark.read.schema(cells.add(CORRUPT, StringType())).options(**READER)
    reader = reader.option("sep", source.option("sep", "delimiter", default=","))
    frame = reader.option("maxColumns", "30000").option("recursiveFileLookup", "true")
    rows = frame.csv([staging.readable(file) for file in files])
    array = F.array(*(F.col(f"_c{i}") for i in range(width))) if width else F.array().cast("array<string>")
    problem = F.when(F.col(CORRUPT).isNotNull(), F.lit(WIDTH))
    return _with_origin(rows, array, F.col(CORRUPT), problem, staging)


def _cut(
    spark: SparkSession, files: Sequence[Entry], source: Source, width: int, staging: Staging
) -> DataFrame:
    lines = spark.read.text([staging.readable(file) for file in files])
    row = F.from_json("value", CUT)
    return _with_origin(lines, row["c"], row["r"], row["p"], staging)


def _with_origin(
    frame: DataFrame, cells: Column, text: Column, problem: Column, staging: Staging
) -> DataFrame:
    return frame.select(
        cells.alias("_cells"),
        text.alias("_text"),
        problem.alias("_problem"),
        staging.original().alias("_source_file"),
        F.col("_metadata.file_modification_time").alias("_source_modified_at"),
    )


def _typed(frame: DataFrame, names: list[str], source: Source, schema: StructType) -> DataFrame:
    null = source.option("nullValue", default="")
    cells = {name: F.nullif(F.get("_cells", F.lit(i)), F.lit(null)) if null else F.get("_cells", F.lit(i))
             for i, name in enumerate(names) if name in schema.names}  # fmt: skip
    casts = {f.name: _cast(cells.get(f.name), f.dataType, source) for f in schema.fields}
    misfit = {n: cells[n].isNotNull() & (cells[n] != "") & casts[n].isNull() for n in cells
              if not isinstance(schema[n].dataType, StringType)}  # fmt: skip
    all_names = F.array(*(F.lit(name) for name in names)) if names else F.array().cast("array<string>")
    wrong = _unless_known(names, schema)
    if not source.rescued and misfit:
        which = F.concat_ws(", ", *(F.when(bad, F.lit(n)) for n, bad in misfit.items()))
        wrong = F.coalesce(wrong, F.when(which != "", F.concat(F.lit("does not fit the schema: "), which)))
    reason = F.coalesce(F.col("_problem"), wrong)
    rescued = []
    if source.rescued:
        left = [name for name in names if name not in schema.names]
        texts = [
            F.when(bad, F.concat(F.lit(json.dumps(n) + ":"), as_json(cells[n]))) for n, bad in misfit.items()
        ]
        found = rescued_from_cells(all_names, F.col("_cells"), left, texts, F.col("_source_file"))
        rescued = [F.when(reason.isNull(), found).alias(source.rescued)]
    record = F.coalesce("_text", F.to_json(F.map_from_arrays(all_names, F.col("_cells"))))
    return frame.select(
        *(cast.alias(name) for name, cast in casts.items()),
        *rescued,
        F.when(reason.isNotNull(), record).alias("_raw"),
        reason.alias("_reason"),
        "_source_file",
        "_source_modified_at",
    )


def _unless_known(names: list[str], schema: StructType) -> Column:
    """Says what is wrong with a header that names no column: it is most likely a record itself."""
    if not names:
        return F.lit("the file has no header")
    if set(names) & set(schema.names):
        return F.lit(None).cast("string")
    return F.lit(f"no column is called as the header has it: {', '.join(names)[:500]}")


def _cast(cell: Column | None, wanted: DataType, source: Source) -> Column:
    if cell is None or isinstance(wanted, StringType):
        return F.lit(None).cast(wanted) if cell is None else cell
    if isinstance(wanted, (StructType, ArrayType, MapType)):
        return F.from_json(cell, wanted)  # type: ignore[arg-type]
    text = F.trim(cell)
    form = source.option("dateFormat" if isinstance(wanted, DateType) else "timestampFormat", default="")
    if form and isinstance(wanted, (DateType, TimestampType)):
        return F.try_to_timestamp(text, F.lit(form)).cast(wanted)
    return text.try_cast(wanted)
