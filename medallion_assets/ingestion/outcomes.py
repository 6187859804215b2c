"""What became of each file: the status table beside the ledger, under ``cloud_files_state``'s names.

Counted from the Parquet files a batch's commits added, not from what Spark said it wrote: so that the
count discovery made of a file has another one to be held against. An append-only Delta table; a file's
newest row is how it stands.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from medallion_assets.delta import log
from medallion_assets.delta.commit import Stamp
from medallion_assets.ingestion.ledger import Entry

LOADED, MISSING = "LOADED", "MISSING"

COLUMNS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64()),
        pa.field("create_time", pa.timestamp("us", "UTC")),
        pa.field("discovery_time", pa.timestamp("us", "UTC")),
        pa.field("processed_time", pa.timestamp("us", "UTC")),
        pa.field("commit_time", pa.timestamp("us", "UTC")),
        pa.field("archive_time", pa.timestamp("us", "UTC")),
        pa.field("archive_mode", pa.string()),
        pa.field("move_location", pa.string()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("rows_read", pa.int64()),
        pa.field("rows_loaded", pa.int64()),
        pa.field("rows_quarantined", pa.int64()),
        pa.field("rows_rescued", pa.int64()),
        pa.field("rows_dropped", pa.int64()),
        pa.field("batch_id", pa.int64()),
        pa.field("run_id", pa.string()),
    ]
)


@dataclass(frozen=True)
class Committed:
    """Rows a commit holds, by the file they came from."""

    rows: Counter[str]
    rescued: Counter[str]


@dataclass(frozen=True)
class Found:
    """What a batch's commits hold of each file: rows, refused records, rows with rescued data."""

    rows: Counter[str]
    refused: Counter[str]
    rescued: Counter[str]


def committed_rows(path: Path, app_id: str, batch_id: int, file_column: str, rescued: str = "") -> Committed:
    """Gives what a batch's commit added, by source file; nothing where it made no commit."""
    rows: Counter[str] = Counter()
    rescues: Counter[str] = Counter()
    for part in _added(path, app_id, batch_id):
        names = _physical(path, [file_column, *([rescued] if rescued else [])])
        columns = pq.read_table(
            path / part, columns=[n for n in names if n in pq.read_schema(path / part).names]
        )
        rows.update(_counted(columns.column(0)))
        if columns.num_columns > 1:
            kept = columns.filter(columns.column(1).is_valid())
            rescues.update(_counted(kept.column(0)))
    return Committed(rows, rescues)


def _counted(files: pa.ChunkedArray) -> dict[str, int]:
    counts = files.value_counts()
    return {pair["values"]: pair["counts"] for pair in counts.to_pylist()}


def record(
    ledger: Path,
    files: Sequence[Entry],
    found: Found,
    stamp: Stamp,
    started: datetime,
    missing: Sequence[Entry],
    drops: bool = False,
) -> None:
    """Appends a row for each file of a batch; ``drops`` where malformed records are let go on request."""
    now = datetime.now(timezone.utc)
    told = {"processed_time": started, "commit_time": now, "batch_id": stamp.batch_id, "run_id": stamp.run_id}
    loaded = [
        _fixed(f) | told | {
            "status": LOADED, "rows_read": f.records, "rows_loaded": found.rows[f.path],
            "rows_quarantined": found.refused[f.path], "rows_rescued": found.rescued[f.path],
            "rows_dropped": f.records - found.rows[f.path] - found.refused[f.path] if drops else 0,
        }
        for f in files
    ]  # fmt: skip
    gone = "it was removed or changed between discovery and reading"
    lost = [_fixed(f) | told | {"status": MISSING, "reason": gone, "commit_time": None} for f in missing]
    add(ledger, [*loaded, *lost])


def add(ledger: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Appends rows under ``COLUMNS``; missing ones are NULL."""
    if rows:
        table = pa.Table.from_pylist(list(rows), schema=COLUMNS)
        write_deltalake(str(outcomes_of(ledger)), table, mode="append")


def outcomes_of(ledger: Path) -> Path:
    """Gives the status table of a ledger."""
    return ledger.with_name(f"{ledger.name}_files")


def rows(ledger: Path) -> list[dict[str, Any]]:
    """Gives every row, oldest first."""
    path = outcomes_of(ledger)
    if not log.exists(path):
        return []
    query = QueryBuilder().register("files", DeltaTable(str(path)))
    found = query.execute("SELECT * FROM files ORDER BY processed_time, archive_time NULLS FIRST")
    return pa.table(found).to_pylist()  # type: ignore[no-any-return]


def last_rows(ledger: Path, limit: int) -> list[dict[str, Any]]:
    """Gives the newest rows, newest first."""
    path = outcomes_of(ledger)
    if not log.exists(path):
        return []
    query = QueryBuilder().register("files", DeltaTable(str(path)))
    found = query.execute(f"SELECT * FROM files ORDER BY processed_time DESC, path LIMIT {int(limit)}")
    return pa.table(found).to_pylist()  # type: ignore[no-any-return]


def newest(ledger: Path) -> dict[str, dict[str, Any]]:
    """Gives each file's newest row, by its path."""
    return {row["path"]: row for row in rows(ledger)}


def lost(ledger: Path) -> list[str]:
    """Gives the files whose newest row says they were missing."""
    path = outcomes_of(ledger)
    if not log.exists(path):
        return []
    turn = "row_number() OVER (PARTITION BY path ORDER BY processed_time DESC) AS turn"
    # Only paths that ever were missing are looked at: they are few, whatever the history.
    ever = f"SELECT path FROM files WHERE status = '{MISSING}'"
    newest = f"SELECT path, status, {turn} FROM files WHERE path IN ({ever})"
    query = QueryBuilder().register("files", DeltaTable(str(path)))
    found = pa.table(query.execute(f"SELECT path FROM ({newest}) WHERE turn = 1 AND status = '{MISSING}'"))
    return [str(p) for p in found.column("path").to_pylist()]


def _fixed(file: Entry) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "create_time": file.modified_at,
        "discovery_time": file.discovered_at,
    }


def _added(path: Path, app_id: str, batch_id: int) -> list[str]:
    """Gives the data files of the commit this writer signed with this batch, newest commits first."""
    folder = path / "_delta_log"
    for file in sorted(folder.glob("*.json"), reverse=True) if folder.is_dir() else ():
        actions = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
        writers = [a["txn"] for a in actions if "txn" in a]
        if any(w["appId"] == app_id and w["version"] == batch_id for w in writers):
            return [unquote(a["add"]["path"]) for a in actions if "add" in a]
    return []


def _physical(path: Path, names: list[str]) -> list[str]:
    """Gives the names columns have inside Parquet, which column mapping makes others."""
    fields = json.loads(DeltaTable(str(path)).schema().to_json())["fields"]
    known = {f["name"]: f["metadata"].get("delta.columnMapping.physicalName", f["name"]) for f in fields}
    return [known.get(name, name) for name in names]
