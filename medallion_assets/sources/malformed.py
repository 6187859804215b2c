"""Records that could not be rows: kept with their reason and place, and read again once mended."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, NumericType, StructField, StructType

from medallion_assets.delta.commit import Transaction, append, signed
from medallion_assets.delta.names import literal, quoted
from medallion_assets.session.frames import frame_of, frame_of_table, is_local
from medallion_assets.sources import ledger as ledgers
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
from medallion_assets.sources.formats.parsed_files import JUDGED, Parsed
from medallion_assets.sources.formats.parsed_frames import finished
from medallion_assets.sources.ledger import Entry, export
from medallion_assets.sources.load_target import PROVENANCE, LoadTarget
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import FIELDS, OF_REFUSED, from_records, named_as
from medallion_assets.sources.schema_versions import newest
from medallion_assets.sources.select_list import selected


def refuse_malformed(records: DataFrame, source: Source) -> None:
    """Raise a ``MalformedRecord`` that names the first one, where there is any."""
    first = records.where("_reason IS NOT NULL").select("_source_file", "_reason", "_raw").first()
    if first is not None:
        raise MalformedRecord(source.name, first["_source_file"], first["_reason"], first["_raw"] or "")


def write_malformed(
    records: DataFrame, files: Sequence[Entry], place: LoadTarget, transaction: Transaction
) -> None:
    """Write malformed records to where the source wants them besides the table."""
    source = place.source
    bad = records.where("_reason IS NOT NULL").select(*OF_REFUSED, "_source_file")
    bad = bad if is_local(bad) else bad.persist()
    if source.bad_records_path and source.malformed != "DROPMALFORMED":
        # A relative path lies in the pipeline's folder of the lake.
        export(bad, place.path.parent.parent / source.bad_records_path, files)
    if source.malformed == "QUARANTINE":
        entries = from_records(bad, transaction.version, transaction.run_id)
        append(entries, place.quarantine, transaction.of_quarantine)
    bad.unpersist()


OURS = (*PROVENANCE, "_ingested_at", "_batch_id")
KEPT = "'_file_path'"
EXACT = "DECIMAL(38, 18)"
"""What numbers are compared in; those with more digits stay rescued."""


def unrescue(
    spark: SparkSession,
    path: Path,
    rescued: str,
    files: Sequence[str],
    transaction: Transaction,
    dry_run: bool,
) -> int:
    """Fills columns that are NULL from their row's rescued data where the value fits; gives how many rows.

    A field that went into its column leaves the rescued data; a row that has none left has NULL there.

    Args:
        spark: The session.
        path: The table.
        rescued: Its rescued data column.
        files: Ends of the paths of the landing files concerned; all where there are none.
        transaction: Who writes.
        dry_run: Only count.
    """
    table = DeltaTable.forPath(spark, str(path))
    fields = [f for f in table.toDF().schema.fields if f.name not in (*OURS, rescued)]
    told = f"from_json({quoted(rescued)}, '{FIELDS}')"
    placed = F.expr(f"array_compact(array({', '.join(_placed(f, told) for f in fields)}))")
    ends = [F.expr(named_as("_source_file", name)) for name in files]
    # A map holds one value of a key: what has a key twice would lose one by being written again.
    keys = F.json_object_keys(quoted(rescued))
    single = F.size(F.array_distinct(keys)) == F.size(keys)
    chosen = F.col(quoted(rescued)).isNotNull() & single & (F.size(placed) > 0)
    if ends:
        chosen = chosen & F.greatest(F.lit(False), *ends)
    rows = table.toDF().where(chosen).count()
    if rows and not dry_run:
        left = f"map_filter({told}, (k, v) -> NOT array_contains(array_compact(array("
        left += f"{', '.join(_placed(f, told) for f in fields)})), k))"
        empty = f"size(map_filter({left}, (k, v) -> k <> {KEPT})) = 0"
        sets: dict[str, str | Column] = {quoted(f.name): F.expr(_value(f, told)) for f in fields}
        sets[quoted(rescued)] = F.expr(f"if({empty}, NULL, to_json({left}))")
        with signed(spark, transaction):
            table.update(chosen, sets)
    return rows


def _placed(field: StructField, told: str) -> str:
    name = literal(field.name)
    return f"if({quoted(field.name)} IS NULL AND {_fitting(field, told)} IS NOT NULL, {name}, NULL)"


def _value(field: StructField, told: str) -> str:
    return f"coalesce({quoted(field.name)}, {_fitting(field, told)})"


def _fitting(field: StructField, told: str) -> str:
    """Return the SQL of the rescued value in the column's type, NULL where that would be another value."""
    found = f"try_element_at({told}, {literal(field.name)})"
    value = f"try_variant_get({found}, '$', '{field.dataType.simpleString()}')"
    text = f"try_variant_get({found}, '$', 'string')"
    if isinstance(field.dataType, NumericType):
        # A variant's cast cuts 1.9 to 1 and rounds what has too many digits.
        return f"if(try_cast({text} AS {EXACT}) = try_cast({value} AS {EXACT}), {value}, NULL)"
    if isinstance(field.dataType, BooleanType):
        return f"if(lower({text}) IN ('true', 'false'), {value}, NULL)"
    return value


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
    if source.format == "csv":
        records = _csv_records(spark, entries, place, schema)
    else:
        when = F.lit(None).cast("timestamp").alias("_source_modified_at")
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
    none = _again(reader).append(pa.field(ID, pa.string())).empty_table()
    tables = [
        _records_again(reader, records, column_names(headers.get(path, ""), place.source), path, not_text)
        for path, records in texts.items()
    ]
    when = F.lit(None).cast("timestamp").alias("_source_modified_at")
    records = frame_of_table(spark, pa.concat_tables([none, *tables])).select("*", when)
    return finished(records, place.source, schema)


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
        # A record that a select list failed on was kept by its columns.
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
    """Return a record that is kept as a JSON object as CSV; any other as it is."""
    try:
        cells = json.loads(text)
    except ValueError:
        return text
    if not isinstance(cells, dict):
        return text
    q, e = dialect.quote, dialect.escape
    values = (cells.get(name) for name in names)
    escaped = (
        None if v is None else str(v).replace(e, e * 2).replace(q, e + q if e != q else q) for v in values
    )
    return dialect.sep.join("" if value is None else q + value + q for value in escaped)


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
