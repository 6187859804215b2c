"""Malformed records: written to quarantine with reason and position, and read again after a fix."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from medallion_assets.delta.commit import Transaction, append
from medallion_assets.session.frames import frame_of, is_local
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.bad_records import write_bad_records
from medallion_assets.sources.errors import BatchRefused, MalformedRecord
from medallion_assets.sources.formats.csv_blocks import Block, Refused
from medallion_assets.sources.formats.csv_records import (
    NO_HEADER,
    NOT_TEXT,
    OPEN_QUOTE,
    Dialect,
    RecordReader,
    column_names,
)
from medallion_assets.sources.formats.csv_rows import RowReader
from medallion_assets.sources.formats.json_rows import judged_texts
from medallion_assets.sources.formats.json_values import as_read
from medallion_assets.sources.formats.messages import COLUMNS as OF_MESSAGES
from medallion_assets.sources.formats.messages import provenance
from medallion_assets.sources.formats.parsed_files import JUDGED, Parsed
from medallion_assets.sources.formats.parsed_frames import TEXTS, finished, stored_columns
from medallion_assets.sources.kafka import landed_of
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.options import Source
from medallion_assets.sources.partitions import own_columns, with_partitions
from medallion_assets.sources.quarantine import ENTRY, OF_REFUSED, from_records
from medallion_assets.sources.schema_versions import newest
from medallion_assets.sources.select_list import selected
from medallion_assets.storage import storage_of


def refuse_malformed(records: DataFrame, source: Source) -> None:
    """Raise ``MalformedRecord`` for the first malformed record, if there is one."""
    first = records.where("_reason IS NOT NULL").select("_source_file", "_reason", "_raw").first()
    if first is not None:
        raise MalformedRecord(source.name, first["_source_file"], first["_reason"], first["_raw"] or "")


def write_malformed(records: DataFrame, place: LoadTarget, transaction: Transaction) -> None:
    """Write malformed records to quarantine or ``bad_records_path``, as the source declares."""
    source = place.source
    bad = records.where("_reason IS NOT NULL").select(*OF_REFUSED, "_source_file")
    bad = bad if is_local(bad) else bad.persist()
    if source.bad_records_path and source.malformed != "DROPMALFORMED":
        write_bad_records(bad, place, transaction)
    if source.malformed == "QUARANTINE":
        entries = from_records(bad, transaction.version, transaction.run_id)
        append(entries, place.quarantine, transaction.of_quarantine)
    bad.unpersist()


ID = "_source_file"
"""While a record is read again, this column holds its entry's id instead of the file's path."""
PATH, HEADER = "path", "header"
"""Columns beside ``ID``: the file's path, and its header from the ledger."""


def read_again(spark: SparkSession, entries: DataFrame, place: LoadTarget) -> DataFrame:
    """Return each entry's record as its source reads it today.

    Args:
        spark: The session.
        entries: ``entry_id``, ``repaired`` (the record's text), ``source_file``, ``position``; ``raw_base64``
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
    times = _times_of_files(place)
    own = own_columns(schema, times, source)
    if source.format == "csv":
        records = _csv_records(spark, entries, place, own)
    else:
        when = F.lit(None).cast("timestamp").alias("_source_modified_at")
        lines = entries.select(F.col("repaired").alias("value"), F.col("entry_id").alias(ID), when)
        records = judged_texts(lines, source, own)
    files = frame_of(spark, list(times.items()), "source_file STRING, _at TIMESTAMP")
    known = entries.select("entry_id", "source_file").join(files, "source_file", "left")
    whole = records.withColumnRenamed(ID, "entry_id").join(known, "entry_id", "left")
    if source.rescued:
        # What was rescued names the record's file too.
        of_file = F.replace(source.rescued, F.col("entry_id"), F.col("source_file"))
        whole = whole.withColumn(source.rescued, of_file)
    placed = with_partitions(whole, list(times), source, schema, "source_file")
    placed = placed.drop("_source_modified_at").withColumnsRenamed(
        {"source_file": "_source_file", "_at": "_source_modified_at", "entry_id": ENTRY}
    )
    placed = (selected(placed, source) if source.select else placed).withColumnRenamed(ENTRY, "entry_id")
    if source.kafka is None:
        return placed
    return placed.drop(*OF_MESSAGES.names).join(_of_messages(spark, entries, place), "entry_id")


def _of_messages(spark: SparkSession, entries: DataFrame, place: LoadTarget) -> DataFrame:
    """Return which message each entry is of, by ``entry_id``; only its landing file has key and headers."""
    rows = entries.select("source_file", "position", "entry_id").collect()
    found: dict[str, dict[int, Any]] = {}
    for path in {row[0] for row in rows}:
        offsets = [int(row[1].removeprefix("offset ")) for row in rows if row[0] == path]
        try:
            with storage_of(file := ledgers.address(place.root, path)).open(file) as opened:
                found[path] = {message[0]: message for message in provenance(opened, offsets)}
        except (OSError, pa.ArrowException):
            # Taken away by clean_source.
            found[path] = {}
    messages = []
    for path, position, entry in rows:
        landed, offset = landed_of(path), int(position.removeprefix("offset "))
        assert landed is not None
        others = found[path].get(offset, (offset, None, None, None, False))
        messages.append((entry, landed.topic, landed.range.partition, *others))
    id_first = StructType([StructField("entry_id", StringType()), *OF_MESSAGES.fields])
    return frame_of(spark, messages, id_first)


def _csv_records(spark: SparkSession, entries: DataFrame, place: LoadTarget, schema: StructType) -> DataFrame:
    source, reader = place.source, RowReader(place.source, schema)
    query = "SELECT path, header FROM ledger WHERE status = 'admitted' ORDER BY sequence"
    headers = {str(row["path"]): str(row["header"] or "") for row in ledgers.rows(place.ledger, query)}
    known = frame_of(spark, list(headers.items()), f"{PATH} STRING, {HEADER} STRING")
    is_exact = F.lit("raw_base64" not in entries.columns) | F.expr("raw_base64 IS NULL OR raw_base64 = ''")
    texts = entries.select(
        F.col("entry_id").alias(ID), "repaired", F.col("source_file").alias(PATH), is_exact.alias("exact")
    )

    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for rows in _by_file(batch):
                path, header = rows[0][PATH], rows[0][HEADER] or ""
                records = {row[ID]: row["repaired"] or "" for row in rows}
                not_text = {row[ID] for row in rows if not row["exact"]}
                names = column_names(header, source)
                again = _records_again(reader, records, names, path or "", not_text)
                yield from again.combine_chunks().to_batches()

    columns = [*stored_columns(as_read(schema, source)).fields, *TEXTS.fields, StructField(ID, StringType())]
    records = texts.join(F.broadcast(known), PATH, "left").mapInArrow(judge, StructType(columns))
    when = F.lit(None).cast("timestamp").alias("_source_modified_at")
    return finished(records.select("*", when), source, schema)


def _by_file(batch: pa.RecordBatch) -> Iterable[list[dict[str, Any]]]:
    """Return a batch's rows, those of a file together."""
    files: dict[str, list[dict[str, Any]]] = {}
    for row in batch.to_pylist():
        files.setdefault(row[PATH], []).append(row)
    return files.values()


def _records_again(
    rows: RowReader, texts: dict[str, str], names: Sequence[str], path: str, not_text: Collection[str]
) -> pa.Table:
    """Return CSV records read again, each from a text by itself, with ``JUDGED`` and ``ID``.

    Args:
        rows: Reads their cells.
        texts: The records, by their key.
        names: The file's columns.
        path: The file.
        not_text: Keys of records whose text is exact only once nobody finds U+FFFD in it.
    """
    reader, width = RecordReader(rows.dialect), len(names)
    data = bytearray()
    good: list[tuple[str, int, int, tuple[bytes | None, ...]]] = []
    bad: list[tuple[str, Refused]] = []
    for key, text in texts.items():
        text = _as_csv(text, names, reader.dialect) if rows.source.select else text
        begin, line = len(data), text.rstrip("\r\n").encode("utf-8", "replace")
        data += line + b"\n"
        record = reader.read(line, 0, True, width)
        assert record is not None
        several = record.is_blank or record.end < len(line)
        problem = record.problem or (OPEN_QUOTE if several else "" if width else NO_HEADER)
        if key in not_text and "\ufffd" in text:
            problem = NOT_TEXT
        if problem:
            bad.append((key, Refused(begin, len(data), 0, problem)))
        else:
            good.append((key, begin, len(data), record.cells))
    begins, ends = (np.array([row[i] for row in good], np.int64) for i in (1, 2))
    loose, refused = [row[3] for row in good], [record for _, record in bad]
    block = Block(bytes(data), begins, ends, begins, loose, refused)
    parsed = Parsed([])
    if good:
        rows.add_rows(parsed, block, block.by_name(names, reader.dialect), path)
    if bad:
        parsed.judged.append(rows.refused(block, [texts[key] for key, _ in bad], [None] * len(bad)))
    nulls = [[pa.nulls(len(table), kind) for kind in JUDGED.types] for table in parsed.rows]
    whole = [
        pa.table([*table.columns, *n], _again(rows)) for table, n in zip(parsed.rows, nulls, strict=True)
    ]
    keys = [key for key, *_ in good] + [key for key, _ in bad]
    return pa.concat_tables([*whole, *parsed.judged]).append_column(ID, pa.array(keys, pa.string()))


def _again(rows: RowReader) -> pa.Schema:
    return pa.schema([*rows.columns, *JUDGED])


def _as_csv(text: str, names: Sequence[str], dialect: Dialect) -> str:
    """Return a record that is kept by its columns, as a JSON object, as CSV; any other as it is.

    Only records that a select list failed on are kept so: elsewhere a record that looks like JSON is CSV.
    """
    try:
        cells = json.loads(text)
    except ValueError:
        return text
    if not isinstance(cells, dict) or not cells.keys() <= set(names):
        return text
    q, e = dialect.quote, dialect.escape
    values = (cells.get(name) for name in names)
    escaped = (
        None if v is None else str(v).replace(e, e * 2).replace(q, e + q if e != q else q) for v in values
    )
    return dialect.sep.join("" if value is None else q + value + q for value in escaped)


def _times_of_files(place: LoadTarget) -> dict[str, object]:
    """Return when each admitted landing file was last written."""
    turn = "row_number() OVER (PARTITION BY path ORDER BY sequence DESC) AS turn"
    admitted = f"SELECT path, modified_at AS at, {turn} FROM ledger WHERE status = 'admitted'"
    newest_admitted = f"SELECT path, at FROM ({admitted}) WHERE turn = 1"
    return {str(row["path"]): row["at"] for row in ledgers.rows(place.ledger, newest_admitted)}
