"""What became of each file: the status table beside the ledger, under ``cloud_files_state``'s names.

An append-only Delta table; a file's newest row is how it stands.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, QueryBuilder, write_deltalake
from deltalake import Transaction as DeltaTransaction

from medallion_assets.delta import log
from medallion_assets.delta.commit import Transaction
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.value_books import ValueBooks

LOADED, MISSING, CORRUPT, POSTPONED = "LOADED", "MISSING", "CORRUPT", "POSTPONED"
UNTAKEN = (MISSING, CORRUPT, POSTPONED)
LAST_FILES = 1000
"""Files of the last load that a report looks at."""
GONE = "it was removed or changed between discovery and reading"

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
        pa.field("values_read", pa.int64()),
        pa.field("values_unaccounted", pa.string()),
        pa.field("values_uncounted", pa.string()),
        pa.field("values_unkept", pa.string()),
        pa.field("batch_id", pa.int64()),
        pa.field("run_id", pa.string()),
    ]
)


@dataclass(frozen=True)
class Found:
    """What a batch's commits hold of each file: rows, refused records, rows with rescued data, values."""

    rows: Counter[str]
    refused: Counter[str]
    rescued: Counter[str]
    values: Mapping[str, ValueBooks]


def record(
    ledger: Path,
    files: Sequence[Entry],
    found: Found,
    transaction: Transaction,
    started: datetime,
    untaken: Mapping[Entry, str],
    drops: bool = False,
) -> None:
    """Append a row for each file of a batch; ``drops`` where malformed records are let go on request.

    A file of ``untaken`` is missing where the reason says that it is gone, and corrupt otherwise.
    """
    now = datetime.now(timezone.utc)
    told = {
        "processed_time": started,
        "commit_time": now,
        "batch_id": transaction.batch_id,
        "run_id": transaction.run_id,
    }
    loaded = [
        _fixed(f) | told | {
            "status": LOADED, "rows_read": f.records, "rows_loaded": found.rows[f.path],
            "rows_quarantined": found.refused[f.path], "rows_rescued": found.rescued[f.path],
            "rows_dropped": f.records - found.rows[f.path] - found.refused[f.path] if drops else 0,
            **_values(found.values[f.path]),
        }
        for f in files
    ]  # fmt: skip
    lost = [
        _fixed(f) | told | {"status": MISSING if why == GONE else CORRUPT, "reason": why, "commit_time": None}
        for f, why in untaken.items()
    ]
    add(ledger, [*loaded, *lost], transaction)


def postpone(ledger: Path, files: Sequence[Entry], transaction: Transaction) -> None:
    """Append a row for each file of an earlier call's batch that this call does not choose.

    The file counts as unknown from then on, so that the next call that chooses it takes it.
    """
    why = "its load failed, and the call after it chose other files"
    signed = {"batch_id": transaction.batch_id, "run_id": transaction.run_id}
    now = {"processed_time": datetime.now(timezone.utc), "status": POSTPONED, "reason": why}
    add(ledger, [_fixed(file) | now | signed for file in files])


def add(ledger: Path, rows: Sequence[dict[str, Any]], batch: Transaction | None = None) -> None:
    """Append rows under ``COLUMNS``; missing ones are NULL.

    The commit carries the batch's own identifier, so that ``recorded_upto`` knows which batches are told.
    """
    if rows:
        table = pa.Table.from_pylist(list(rows), schema=COLUMNS)
        told = [DeltaTransaction(batch.app_id, batch.version)] if batch else None
        properties = CommitProperties(app_transactions=told)
        write_deltalake(str(outcomes_of(ledger)), table, mode="append", commit_properties=properties)


def recorded_upto(ledger: Path, app_id: str) -> int:
    """Return the version of a stream's last batch whose files are in the status table, -1 for none."""
    return log.committed_version(outcomes_of(ledger), app_id)


def outcomes_of(ledger: Path) -> Path:
    """Return the status table of a ledger."""
    return ledger.with_name(f"{ledger.name}_files")


def rows(ledger: Path) -> list[dict[str, Any]]:
    """Return every row, oldest first."""
    path = outcomes_of(ledger)
    if not log.exists(path):
        return []
    query = QueryBuilder().register("files", log.opened(path))
    found = query.execute("SELECT * FROM files ORDER BY processed_time, archive_time NULLS FIRST")
    return pa.table(found).to_pylist()  # type: ignore[no-any-return]


def last_rows(ledger: Path, limit: int) -> list[dict[str, Any]]:
    """Return the newest rows, newest first."""
    path = outcomes_of(ledger)
    if not log.exists(path):
        return []
    query = QueryBuilder().register("files", log.opened(path))
    found = query.execute(f"SELECT * FROM files ORDER BY processed_time DESC, path LIMIT {int(limit)}")
    return pa.table(found).to_pylist()  # type: ignore[no-any-return]


def newest(ledger: Path) -> dict[str, dict[str, Any]]:
    """Return each file's newest row, by its path."""
    return {row["path"]: row for row in rows(ledger)}


def any_loaded(ledger: Path) -> bool:
    """Return true where records of a file were ever written to the table."""
    return bool(log.rows(outcomes_of(ledger), f"SELECT path FROM t WHERE status = '{LOADED}' LIMIT 1"))


def lost(ledger: Path) -> dict[str, dict[str, Any]]:
    """Return the newest row of each file that it says was missing or corrupt, by path."""
    path = outcomes_of(ledger)
    if not log.exists(path):
        return {}
    turn = "row_number() OVER (PARTITION BY path ORDER BY processed_time DESC) AS turn"
    # Only paths that ever were are looked at: they are few, whatever the history.
    ever = f"SELECT path FROM files WHERE status IN {UNTAKEN}"
    newest = f"SELECT *, {turn} FROM files WHERE path IN ({ever})"
    query = QueryBuilder().register("files", log.opened(path))
    found = pa.table(query.execute(f"SELECT * FROM ({newest}) WHERE turn = 1 AND status IN {UNTAKEN}"))
    return {row["path"]: row for row in found.to_pylist()}


def unaccounted_values(ledger: Path) -> dict[str, dict[str, int]]:
    """Return, by landing file, the columns whose values do not balance as the file was loaded last."""
    wrong = log.rows(outcomes_of(ledger), "SELECT DISTINCT path FROM t WHERE values_unaccounted IS NOT NULL")
    if not wrong:
        return {}
    known = newest(ledger)
    texts = {row["path"]: known[row["path"]]["values_unaccounted"] for row in wrong}
    return {path: json.loads(text) for path, text in texts.items() if text}


def last_values(ledger: Path) -> tuple[int, dict[str, str], dict[str, int]]:
    """Return, of the files loaded last together, values read, and by column those not counted or not kept."""
    rows = [row for row in last_rows(ledger, LAST_FILES) if row["status"] == LOADED]
    rows = [row for row in rows if row["run_id"] == rows[0]["run_id"]]
    uncounted: dict[str, str] = {}
    unkept: Counter[str] = Counter()
    for row in rows:
        uncounted |= json.loads(row["values_uncounted"] or "{}")
        unkept.update(json.loads(row["values_unkept"] or "{}"))
    return sum(row["values_read"] or 0 for row in rows), uncounted, dict(unkept)


def _values(books: ValueBooks) -> dict[str, Any]:
    texts = {
        f"values_{name}": json.dumps(found, ensure_ascii=False) if found else None
        for name in ("unaccounted", "uncounted", "unkept")
        for found in [getattr(books, name)]
    }
    return {"values_read": books.read, **texts}


def _fixed(file: Entry) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "create_time": file.modified_at,
        "discovery_time": file.discovered_at,
    }
