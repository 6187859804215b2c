"""Malformed records read again, as they are in quarantine or as a person mended them."""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta.names import quoted
from medallion_assets.session.frames import frame_of
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.errors import BatchRefused
from medallion_assets.sources.formats.csv import again_records
from medallion_assets.sources.formats.csv_dialect import column_names
from medallion_assets.sources.formats.csv_rows import RowReader
from medallion_assets.sources.formats.json import judged_texts
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.schema_versions import newest
from medallion_assets.sources.select_list import selected

ID = "_source_file"
"""While a record is read again its entry's id stands where readers keep the file's path."""


def read_again(spark: SparkSession, entries: DataFrame, place: LoadTarget) -> DataFrame:
    """Return each entry's record as its source reads it today.

    Args:
        spark: The session.
        entries: ``entry_id``, ``repaired`` (the record's text) and ``source_file`` STRING; ``raw_base64``
            STRING where a text that still has U+FFFD for lost bytes is to stay refused.
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
        records = _csv_records(spark, entries, place, schema).select("*", when)
    else:
        lines = entries.select(F.col("repaired").alias("value"), F.col("entry_id").alias(ID), when)
        records = judged_texts(lines, source, schema)
    return _from_their_files(selected(records, source) if source.select else records, entries, place)


def _csv_records(spark: SparkSession, entries: DataFrame, place: LoadTarget, schema: StructType) -> DataFrame:
    query = "SELECT path, header FROM ledger WHERE status = 'admitted' ORDER BY sequence"
    headers = {str(row["path"]): str(row["header"] or "") for row in ledgers.rows(place.ledger, query)}
    kept = [name for name in ("raw_base64",) if name in entries.columns]
    found = entries.select("entry_id", "repaired", "source_file", *kept).collect()
    texts: dict[str, dict[str, str]] = {}
    for entry in found:
        texts.setdefault(entry["source_file"], {})[entry["entry_id"]] = entry["repaired"] or ""
    not_text = {entry["entry_id"] for entry in found if kept and entry["raw_base64"]}
    reader = RowReader(place.source, schema)
    tables = [
        reader.again(records, column_names(headers.get(path, ""), place.source), path, not_text)
        for path, records in texts.items()
    ]
    return again_records(spark, pa.concat_tables([reader.none_again(), *tables]), place.source, schema, ID)


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
