"""JSON records, one to a line of ``plain_pieces``, as frames; XML elements come as JSON, and are read alike.

``json_typed`` takes what surely fits, ``json_careful`` decides the rest, both outside Spark. Spark parses the
values of columns whose type or time format only Spark knows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from io import BytesIO
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from medallion_assets.delta.names import no_pattern, quoted
from medallion_assets.sources.formats.json_careful import (
    JUDGED,
    LEFT,
    CarefulReader,
    Judged,
    refused_bytes,
)
from medallion_assets.sources.formats.json_typed import TypedReader
from medallion_assets.sources.formats.json_types import FORMATS, as_read
from medallion_assets.sources.formats.json_values import JsonText
from medallion_assets.sources.formats.parsed_files import (
    Parsed,
    ParsedFiles,
    parse_files,
    with_positions,
    written_as,
)
from medallion_assets.sources.formats.xml import elements
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import BYTES, FILE_PATH, NO_FIT, POSITION, CutRecord, as_json

FROM = StructType(
    [StructField("_source_file", StringType()), StructField("_source_modified_at", TimestampType())]
)
TEXTS = StructType([StructField(name, StringType()) for name in JUDGED.names])
BY_ARROW = {"datetimeRebaseMode": "CORRECTED"}
"""Dates before 1582 that Arrow writes are those of Spark's own calendar."""

UNITS = {"lines": "line", "recoded": "line"}
"""What a record is called in its position, by the file's layout; elsewhere ``record``."""


def parse_json_files(files: Sequence[Entry], schema: StructType, source: Source, folder: Path) -> ParsedFiles:
    """Write the files' records to Parquet files in a folder, typed by the schema."""
    read = as_read(schema, source)
    typed = TypedReader(read)
    careful = careful_reader(read, source)

    def parse(file: Entry, block: bytes, first: int, cut: list[CutRecord]) -> Parsed:
        lines = typed.read(block)
        unit = UNITS.get(file.layout, "record")
        parsed = Parsed([file], lines.rows, size=len(block))
        if source.select:
            numbered = zip(lines.rows, lines.numbers, strict=True)
            parsed.rows = [with_positions(rows, unit, first, numbers) for rows, numbers in numbered]
        if lines.others:
            reader = _of_file(careful, file, source)
            judged = [
                _judge_cut(reader, cut[number], line, file.path) if cut else reader.judge(line, file.path)
                for number, line in lines.others
            ]
            places = [f"{unit} {first + number}" for number, _ in lines.others]
            parsed.judged.append(reader.table(judged, places))
        return parsed

    return parse_files(files, source, parse, folder)


def _judge_cut(reader: CarefulReader, record: CutRecord, line: bytes, file: str) -> Judged:
    """Return what a record is that was cut out of its file; one that is none keeps its text there."""
    judged = Judged(reason=record.reason) if record.reason else reader.judge(line, file)
    if not judged.reason:
        return judged
    text = record.text.encode("utf-8", reader.errors)
    refused = refused_bytes(text, judged.reason, reader.encoding, reader.errors)
    return refused if refused.raw != record.text else replace(refused, encoded=None)


def careful_reader(read: StructType, source: Source) -> CarefulReader:
    """Return what decides the source's records; ``read`` is its schema as by ``as_read``."""
    return CarefulReader(read, bool(source.rescued), source.rescues_values, bool(_texts(read)))


def _of_file(careful: CarefulReader, file: Entry, source: Source) -> CarefulReader:
    encoding, errors = written_as(file, source)
    return replace(careful, encoding=encoding, errors=errors)


def json_frame(spark: SparkSession, parts: ParsedFiles, source: Source, schema: StructType) -> DataFrame:
    """Return the records of parsed files; the frame's columns are those of ``reading``."""
    read = as_read(schema, source)
    frames = []
    if parts.rows:
        frames.append(rows_frame(spark, parts, _stored(read), source))
    if parts.judged:
        columns = [*_stored(read).fields, *TEXTS.fields, *FROM.fields]
        reader = spark.read.schema(StructType(columns)).options(**BY_ARROW)
        frames.append(reader.parquet(*map(no_pattern, parts.judged)))
    return finished(reduce(DataFrame.unionByName, frames), source, schema)


def rows_frame(spark: SparkSession, parts: ParsedFiles, stored: StructType, source: Source) -> DataFrame:
    """Return the rows of parsed files that fit, with ``JUDGED``, which is NULL but for positions."""
    placed = [StructField(POSITION, StringType())] if source.select else []
    rows = (
        spark.read.schema(StructType([*stored.fields, *placed, *FROM.fields]))
        .options(**BY_ARROW)
        .parquet(*map(no_pattern, parts.rows))
    )
    missing = [name for name in JUDGED.names if name not in rows.columns]
    return rows.withColumns({name: F.lit(None).cast("string") for name in missing})


def finished(judged: DataFrame, source: Source, schema: StructType) -> DataFrame:
    """Return records in the columns of ``reading``, with values that Spark parses from their text.

    Args:
        judged: The columns as by ``as_read``, ``JUDGED``, ``_source_file`` and ``_source_modified_at``.
        source: What the records come from.
        schema: The columns wanted.
    """
    texts = set(_texts(as_read(schema, source)))
    times = {name: text for name, text in source.reader_options.items() if name in FORMATS}
    columns, left = [], []
    for field in schema.fields:
        text = F.col(quoted(field.name))
        if field.name not in texts:
            columns.append(text)
            continue
        wrapped = F.concat(F.lit('{"v":'), text, F.lit("}"))
        kind = StructType([StructField("v", field.dataType)])
        value = F.from_json(wrapped, kind, {"mode": "PERMISSIVE", **times})["v"]
        columns.append(value.alias(field.name))
        name = as_json(F.lit(field.name))
        left.append(F.when(text.isNotNull() & value.isNull(), F.concat(name, F.lit(":"), text)))
    misfits = F.concat_ws(",", *left) if left else F.lit("")
    return judged.select(
        *columns,
        *_rescued(misfits, bool(left) and source.rescues_values, source.rescued),
        *_refused(misfits, bool(left) and not source.rescues_values, bool(source.select)),
        *FROM.names,
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


def _texts(read: StructType) -> list[str]:
    return [field.name for field in read.fields if isinstance(field.dataType, JsonText)]


def _stored(read: StructType) -> StructType:
    kinds = {f.name: StringType() if isinstance(f.dataType, JsonText) else f.dataType for f in read.fields}
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def _judge_text(reader: CarefulReader, text: str, file: str, source: Source) -> Judged:
    if source.format != "xml":
        return reader.judge(text.encode(), file)
    found = list(elements(BytesIO(text.encode()), source))
    if len(found) != 1:
        return Judged(
            raw=text, reason=f"{len(found)} elements {source.option('rowTag', default='')} in one record"
        )
    return _judge_cut(reader, replace(found[0], text=text), found[0].line.encode(), file)


def judged_texts(lines: DataFrame, source: Source, schema: StructType) -> DataFrame:
    """Return records that a frame holds as text, in the columns of ``reading``.

    Args:
        lines: ``value`` STRING: a record; ``_source_file`` STRING, ``_source_modified_at`` TIMESTAMP.
        source: What the records come from.
        schema: The columns wanted.
    """
    read = as_read(schema, source)
    careful = careful_reader(read, source)

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts, files = batch["value"].to_pylist(), batch["_source_file"].to_pylist()
            records = zip(texts, files, strict=True)
            judged = [_judge_text(careful, text or "", file, source) for text, file in records]
            table = careful.table(judged, [None] * len(judged))
            for name in FROM.names:
                table = table.append_column(name, batch[name])
            yield from table.combine_chunks().to_batches()

    columns = StructType([*_stored(read).fields, *TEXTS.fields, *FROM.fields])
    return finished(lines.select("value", *FROM.names).mapInArrow(judge, columns), source, schema)
