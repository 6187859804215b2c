"""Which text format is parsed how, and text itself, where a line or a whole file is a record."""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from medallion_assets.delta.names import no_pattern
from medallion_assets.sources.cut_records import CutRecord
from medallion_assets.sources.formats.csv import csv_parts
from medallion_assets.sources.formats.json import FROM, TEXTS, parse_json_files, rows_frame
from medallion_assets.sources.formats.json_careful import NOT_UTF8, CarefulReader, refused_bytes
from medallion_assets.sources.formats.parsed_files import (
    Parsed,
    ParsedFiles,
    parse_files,
    with_positions,
    written_as,
)
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import OF_REFUSED

TEXT = StructType([StructField("value", StringType())])
"""Spark's own column for text; it never changes."""


def parse_text_files(files: Sequence[Entry], schema: StructType, source: Source, folder: Path) -> ParsedFiles:
    """Write the records of CSV, JSON, XML or text files to Parquet files in a folder, typed by the schema."""
    if source.format == "csv":
        return ParsedFiles(csv_parts(files, schema, source, folder))
    if source.format != "text":
        return parse_json_files(files, schema, source, folder)
    whole = source.option("wholetext", default="false") == "true"

    def parse(file: Entry, block: bytes, first: int, _: list[CutRecord]) -> Parsed:
        lines = [block] if whole else block.splitlines()
        good, numbers, places, refused = [], [], [], []
        for number, line in enumerate(lines, first):
            if (text := _text_of(line)) is not None:
                good.append(text)
                numbers.append(number - first)
            else:
                places.append("whole file" if whole else f"line {number}")
                refused.append(refused_bytes(line, NOT_UTF8, *written_as(file, source)))
        rows = [pa.table({"value": pa.array(good, pa.string())})] if good else []
        if source.select:
            rows = [with_positions(table, "line", first, numbers) for table in rows]
        judged = [CarefulReader(TEXT, False, False).table(refused, places)] if refused else []
        return Parsed([file], rows, judged, len(block))

    return parse_files(files, source, parse, folder, whole)


def _text_of(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def text_frame(spark: SparkSession, parts: ParsedFiles, source: Source) -> DataFrame:
    """Return one row per line, blank ones too, or per file with ``wholetext``; columns of ``reading``."""
    frames = []
    if parts.rows:
        frames.append(rows_frame(spark, parts, TEXT, source))
    if parts.judged:
        columns = [*TEXT.fields, *TEXTS.fields, *FROM.fields]
        frames.append(spark.read.schema(StructType(columns)).parquet(*map(no_pattern, parts.judged)))
    return reduce(DataFrame.unionByName, frames).select("value", *OF_REFUSED, *FROM.names)
