"""CSV by header name, file by file: columns in any order, missing or surplus."""

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from medallion_assets.delta.names import no_pattern
from medallion_assets.session.frames import frame_of_table
from medallion_assets.sources.counting import BROKEN
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.csv_rows import NOTES, RowReader
from medallion_assets.sources.formats.json import FROM
from medallion_assets.sources.formats.parsed_files import ParquetPart
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import BYTES, POSITION

SHARE = 4 << 20
"""Bytes of CSV worth a thread and a Parquet file of their own."""


def csv_parts(files: Sequence[Entry], schema: StructType, source: Source, folder: Path) -> list[str]:
    """Write the files' records as Parquet, in the columns of ``RowReader``; return the Parquet files.

    Raises:
        UnreadableFile: A file is damaged, or not as it was counted.
    """
    reader, waiting = RowReader(source, schema), deque(files)
    threads = min(os.cpu_count() or 1, len(files), sum(file.size for file in files) // SHARE + 1)

    def write(number: int) -> list[str]:
        with ParquetPart(folder / f"rows-{number}.parquet") as part:
            while waiting:
                try:
                    file = waiting.popleft()
                except IndexError:
                    break
                _write(file, reader, part)
        return part.written

    with ThreadPoolExecutor(max(threads, 1)) as pool:
        return [path for written in pool.map(write, range(threads)) for path in written]


def _write(file: Entry, reader: RowReader, part: ParquetPart) -> None:
    try:
        for rows in reader.tables(file):
            part.add(rows, [file], rows.nbytes)
    except (*BROKEN, UnreadableFile) as broken:
        raise UnreadableFile(f"{file.location} cannot be read: {broken or type(broken).__name__}") from broken


def csv_records(spark: SparkSession, parts: list[str], source: Source, schema: StructType) -> DataFrame:
    """Return one row per record of ``csv_parts``.

    Its columns are those of ``reading``, and ``quarantine.BYTES`` STRING (base64) and ``POSITION`` STRING.
    """
    stored = StructType([*_stored(schema).fields, *FROM.fields])
    # Written by Arrow, whose dates before 1582 are those of the same calendar.
    reader = spark.read.schema(stored).option("datetimeRebaseMode", "CORRECTED")
    return _named(reader.parquet(*map(no_pattern, parts)), source, schema, FROM.names)


def again_records(
    spark: SparkSession, records: pa.Table, source: Source, schema: StructType, key: str
) -> DataFrame:
    """Return one row per record of ``RowReader.again``, its key in a column of this name."""
    names = [*_stored(schema).names, key]
    rows = frame_of_table(spark, records.rename_columns(names))
    return _named(rows, source, schema, [key]).drop(POSITION, BYTES)


def _stored(schema: StructType) -> StructType:
    columns = [StructField(f"c{n}", field.dataType) for n, field in enumerate(schema.fields)]
    return StructType([*columns, *(StructField(name, StringType()) for name in NOTES)])


def _named(rows: DataFrame, source: Source, schema: StructType, origin: list[str]) -> DataFrame:
    rescued = source.rescued or "_check_rescued"
    rows = rows.toDF(*schema.names, rescued, "_raw", BYTES, POSITION, "_reason", *origin)
    return rows if source.rescued else rows.drop(rescued)
