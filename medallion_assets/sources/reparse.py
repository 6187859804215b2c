"""Malformed records read again, as they are in quarantine or as a person mended them."""

import json
from collections.abc import Iterator

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.names import quoted
from medallion_assets.session.frames import frame_of
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.errors import BatchRefused
from medallion_assets.sources.formats.csv import typed_cells
from medallion_assets.sources.formats.csv_header import column_names
from medallion_assets.sources.formats.csv_text import OPEN_QUOTE, WIDTH, CsvText, Dialect
from medallion_assets.sources.formats.parsed_lines import judged_lines, parsed_lines
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.options import Source
from medallion_assets.sources.schema_versions import newest
from medallion_assets.sources.select_list import selected

ID = "_source_file"
"""While a record is read again its entry's id stands where readers keep the file's path."""


def read_again(spark: SparkSession, entries: DataFrame, place: LoadTarget) -> DataFrame:
    """Return each entry's record as its source reads it today.

    Args:
        spark: The session.
        entries: ``entry_id``, ``repaired`` (the record's text) and ``source_file`` STRING.
        place: The table's source and where its notes are.

    Returns:
        The schema's columns, ``_raw`` and ``_reason`` as in ``reading``, ``_source_file``,
        ``_source_modified_at``, and ``entry_id``.

    Raises:
        BatchRefused: The format's records have no text to read again.
    """
    schema, source = newest(place.state / "schemas"), place.source
    if schema is None or source.format not in ("json", "xml", "csv"):
        raise BatchRefused(f"{place.key}: records of {source.format} files cannot be read again from text")
    when = F.lit(None).cast("timestamp").alias("_source_modified_at")
    if source.format == "csv":
        lines = _cells(spark, entries, place).select("value", ID, when)
        records = typed_cells(lines, source, schema)
    else:
        lines = entries.select(F.col("repaired").alias("value"), F.col("entry_id").alias(ID), when)
        records = parsed_lines(judged_lines(lines), source, schema)
    return _from_their_files(selected(records, source) if source.select else records, entries, place)


def _cells(spark: SparkSession, entries: DataFrame, place: LoadTarget) -> DataFrame:
    """Return CSV records as the lines of cells that ``typed_cells`` reads."""
    told = "SELECT path, header FROM ledger WHERE status = 'admitted' ORDER BY sequence"
    headers = {str(row["path"]): str(row["header"] or "") for row in ledgers.rows(place.ledger, told)}
    found = entries.select("entry_id", "repaired", "source_file").collect()
    lines = list(_lines(found, headers, place.source))
    return frame_of(spark, lines, f"value STRING, {ID} STRING")


def _lines(found: list[Row], headers: dict[str, str], source: Source) -> Iterator[tuple[str, str]]:
    for entry in found:
        names = column_names(headers.get(entry["source_file"], ""), source)
        yield json.dumps(_line(entry["repaired"] or "", names, source)), entry["entry_id"]


def _line(text: str, names: list[str], source: Source) -> dict[str, object]:
    try:
        cells = json.loads(text)
    except ValueError:
        cells = None
    if isinstance(cells, dict):
        # A record whose cells could be cut, and did not fit their types, was kept by its names.
        return {"f": cells, "r": text, "p": None}
    rows = list(CsvText(text, Dialect.of(source)).rows())
    problem = OPEN_QUOTE if len(rows) != 1 else rows[0].problem
    if not problem and len(rows[0].cells) != len(names):
        problem = WIDTH
    values = dict.fromkeys(names) if problem else dict(zip(names, rows[0].cells, strict=True))
    return {"f": values, "r": text, "p": problem or None}


def _from_their_files(records: DataFrame, entries: DataFrame, place: LoadTarget) -> DataFrame:
    turn = "row_number() OVER (PARTITION BY path ORDER BY sequence DESC) AS turn"
    admitted = f"SELECT path, modified_at AS at, {turn} FROM ledger WHERE status = 'admitted'"
    told = f"SELECT path, at FROM ({admitted}) WHERE turn = 1"
    times = [(str(r["path"]), r["at"]) for r in ledgers.rows(place.ledger, told)]
    files = frame_of(entries.sparkSession, times, "source_file STRING, _at TIMESTAMP")
    known = entries.select("entry_id", "source_file").join(files, "source_file", "left")
    whole = records.withColumnRenamed(ID, "entry_id").join(known, "entry_id", "left")
    rescued = place.source.rescued
    if rescued:
        # What was rescued names the record's file too.
        whole = whole.withColumn(rescued, F.replace(rescued, F.col("entry_id"), F.col("source_file")))
    return whole.select(
        *(quoted(c) for c in records.columns if c not in (ID, "_source_modified_at")),
        F.col("source_file").alias("_source_file"),
        F.col("_at").alias("_source_modified_at"),
        "entry_id",
    )
