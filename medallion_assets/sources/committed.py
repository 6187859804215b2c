"""Count the rows and values of each landing file in the Parquet files that a batch's commits added.

Not by what Spark said it wrote: the counts made of a file outside Spark need others to be held against.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from medallion_assets.delta import log
from medallion_assets.delta.changes import new_files
from medallion_assets.delta.commit import PENDING, Transaction
from medallion_assets.sources.counting import BROKEN
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.file_status import Found
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.refused_values import refused_values
from medallion_assets.sources.value_books import (
    FileColumns,
    QueryColumns,
    ValueBooks,
    books_of,
    columns_of,
)
from medallion_assets.sources.value_counts import ValueCounts
from medallion_assets.storage import for_reader, is_still

FILE = "_source_file"


def account_of(
    place: LoadTarget,
    files: Sequence[Entry],
    transaction: Transaction,
    values: "Mapping[str, Future[ValueCounts]]",
    query: QueryColumns,
) -> Found:
    """Return the rows and values of each file in a batch's commits.

    Args:
        place: The table and its quarantine.
        files: The files the batch loaded.
        transaction: What was committed.
        values: By path, the values of each file.
        query: How the table's query uses the columns.
    """
    fields = _fields(place.path)
    names = {f["name"]: f["metadata"].get("delta.columnMapping.physicalName", f["name"]) for f in fields}
    all_parts = _added(place.path, transaction), _added(place.quarantine, transaction.of_quarantine)
    parts, refused_parts = ([part for part in found if part.exists()] for found in all_parts)
    removed = (parts, refused_parts) != all_parts
    rescued = place.source.rescued
    rows, rescues = _counted(parts, names.get(FILE, FILE), names.get(rescued, ""))
    refused, _ = _counted(refused_parts, "source_file", "")
    if removed:
        rows = Counter({file.path: file.records - refused[file.path] for file in files})
    there = columns_of(fields)
    there.add_rows(parts, names, FileColumns(FILE, rescued, place.source.corrupt_column))
    own = {name: is_text for name, is_text in there.columns.items() if name in query.read}
    there.add_refused(refused_parts, rescued, refused_values(files, place.source, own))
    if place.source.format == "text":
        # A refused line is the one value of its record.
        for path, count in refused.items():
            there.quarantined[path] = Counter({"value": count})
    books = {}
    for file in files:
        dropped = file.records - rows[file.path] - refused[file.path]
        counts, why = _counts_of(file, values[file.path])
        why = "the table's data files were removed before they were counted" if removed else why
        books[file.path] = (
            ValueBooks(uncounted={"*": why}) if why else books_of(file, counts, there, query, dropped)
        )
    return Found(rows, refused, rescues, books, place.source.malformed == "DROPMALFORMED")


def _counts_of(file: Entry, counting: "Future[ValueCounts]") -> tuple[ValueCounts, str]:
    """Return the values of a file, or why they are unknown.

    The next run accounts for a batch that crashed; the file may have been replaced by then.
    """
    counts, why = ValueCounts(), ""
    try:
        counts = counting.result()
    except (UnreadableFile, *BROKEN) as error:
        why = f"the file could not be read again: {error}"
    except Exception:
        if is_as_counted(file):
            raise
    return counts, why if is_as_counted(file) else "the file changed since it was loaded"


def is_as_counted(file: Entry) -> bool:
    """Return true where a file has the size and time that discovery counted it with."""
    return is_still(str(file.location), file.size, file.modified_at)


def _counted(parts: Sequence[Path], file_column: str, rescued: str) -> tuple[Counter[str], Counter[str]]:
    """Return, by landing file, the number of rows, and of rows with rescued data, in data files."""
    rows: Counter[str] = Counter()
    rescues: Counter[str] = Counter()
    for part in parts:
        file = pq.ParquetFile(for_reader(part))
        there = [n for n in (file_column, rescued) if n in file.schema_arrow.names]
        for batch in file.iter_batches(columns=there):
            rows.update(_by_value(batch.column(file_column)))
            if rescued in there:
                kept = batch.filter(batch.column(rescued).is_valid())
                rescues.update(_by_value(kept.column(file_column)))
    return rows, rescues


def _by_value(files: pa.Array) -> dict[str, int]:
    return {pair["values"]: pair["counts"] for pair in files.value_counts().to_pylist()}


def _added(path: Path, transaction: Transaction) -> list[Path]:
    """Return the data files that a batch's commits added: the table's one, or the quarantine's several."""
    pending = transaction.commit_metadata.get(PENDING)
    oldest = -1 if pending is None or transaction.before is None else transaction.before
    found: list[Path] = []
    if pending is None and log.committed_version(path, transaction.app_id) < transaction.version:
        # The log's snapshot says so; its entries would all have to be read.
        return []
    for info in log.newest_commits(path):
        if int(info["version"]) <= oldest:
            break
        actions = log.actions(path, int(info["version"])) or []
        added = [path / unquote(file["path"]) for file in new_files(actions)]
        signed = [(a["txn"]["appId"], a["txn"]["version"]) for a in actions if "txn" in a]
        if pending is None and (transaction.app_id, transaction.version) in signed:
            return added
        # What a batch took out of the quarantine rewrote files, too; only appends brought entries.
        if pending and log.commit_metadata_of(info).get(PENDING) == pending and info["operation"] == "WRITE":
            found += added
    return found


def _fields(path: Path) -> list[dict[str, Any]]:
    """Return the table's schema as the Delta log writes its fields, empty where there is no table."""
    if not log.exists(path):
        return []
    fields: list[dict[str, Any]] = json.loads(log.opened(path).schema().to_json())["fields"]
    return fields
