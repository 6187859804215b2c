"""The status table of files, beside the ledger, with the column names of ``cloud_files_state``.

An append-only Delta table with a row for each status change of a ledger entry: the newest row of an entry is
its status. Rows are numbered in the order they were written.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa

from medallion_assets.delta import log
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.few_rows import append_next
from medallion_assets.sources.ledger import NUMBER, STEP, TEXT, TIME, Entry, newest_of
from medallion_assets.sources.value_books import ValueBooks

LOADED, MISSING, CORRUPT, SUPERSEDED = "LOADED", "MISSING", "CORRUPT", "SUPERSEDED"
POSTPONED = "POSTPONED"
UNTAKEN = (MISSING, CORRUPT, SUPERSEDED, POSTPONED)
LAST_FILES = 1000
"""The largest number of files of the last load in a report."""
LATER = "later contents of it are loaded in its place"
GONE = "it was removed or changed between discovery and reading"

COLUMNS = pa.schema(pa.field(*column) for column in (
    ("path", TEXT, False), ("size", NUMBER, True), ("create_time", TIME, True),
    ("discovery_time", TIME, True), ("processed_time", TIME, True), ("commit_time", TIME, True),
    ("archive_time", TIME, True), ("archive_mode", TEXT, True), ("move_location", TEXT, True),
    ("status", TEXT, False), ("reason", TEXT, True), ("rows_read", NUMBER, True),
    ("rows_loaded", NUMBER, True), ("rows_quarantined", NUMBER, True), ("rows_rescued", NUMBER, True),
    ("rows_dropped", NUMBER, True), ("values_read", NUMBER, True), ("values_unaccounted", TEXT, True),
    ("values_uncounted", TEXT, True), ("values_unkept", TEXT, True), ("batch_id", NUMBER, True),
    ("run_id", TEXT, True), ("sequence", NUMBER, True), ("recorded", NUMBER, True),
))  # fmt: skip


FAILED_AS = {GONE: MISSING, LATER: SUPERSEDED}
"""The status of an entry that was not loaded, by its reason; with other reasons the file is corrupt."""


@dataclass(frozen=True)
class Found:
    """Rows, refused records, rows with rescued data and values in a batch's commits, by file.

    ``drops`` is true where the source says ``DROPMALFORMED``.
    """

    rows: Counter[str]
    refused: Counter[str]
    rescued: Counter[str]
    values: Mapping[str, ValueBooks]
    drops: bool = False


def record(
    ledger: Path,
    files: Sequence[Entry],
    found: Found,
    transaction: Transaction,
    started: datetime,
    untaken: Mapping[Entry, str],
) -> None:
    """Append a row for each file of a batch.

    Args:
        ledger: The ledger whose files they are.
        files: The files loaded.
        found: What became of their records.
        transaction: Who loaded them.
        started: When the batch began.
        untaken: The files that were not loaded, each with the reason (``FAILED_AS``).
    """
    batch = {"processed_time": started, "batch_id": transaction.batch_id, "run_id": transaction.run_id}
    now = {"status": LOADED, "commit_time": datetime.now(timezone.utc)}
    loaded = [
        _of_entry(file) | batch | now | _counts(file, found) | _values(found.values[file.path])
        for file in files
    ]
    lost = [
        _of_entry(file) | batch | {"status": FAILED_AS.get(why, CORRUPT), "reason": why}
        for file, why in untaken.items()
    ]
    add(ledger, [*loaded, *lost], transaction)


def postpone(ledger: Path, files: Sequence[Entry], transaction: Transaction) -> None:
    """Append a row for each file of an earlier call's batch that this call does not choose.

    The file counts as unknown from then on, so that the next call that chooses it takes it.
    """
    why = "its load failed, and the call after it chose other files"
    signed = {"batch_id": transaction.batch_id, "run_id": transaction.run_id}
    _decide(ledger, files, {"status": POSTPONED, "reason": why} | signed)


def know(ledger: Path, files: Sequence[Entry]) -> None:
    """Append a row for each file whose records a ledger before this one brought; no call read them."""
    why = "its records were there before this ledger was made"
    _decide(ledger, files, {"status": LOADED, "reason": why, "commit_time": datetime.now(timezone.utc)})


def _decide(ledger: Path, files: Sequence[Entry], outcome: dict[str, Any]) -> None:
    now = datetime.now(timezone.utc)
    add(ledger, [_of_entry(file) | {"processed_time": now} | outcome for file in files])


def undecided(ledger: Path, files: Sequence[Entry]) -> list[Entry]:
    """Return the files that have no status row yet.

    The status table may have outlived a ledger whose entries had the same sequences.
    """
    recorded = of_entries(ledger, [file.sequence for file in files])
    seen = {(row["path"], row["discovery_time"]) for row in recorded.values()}
    return [file for file in files if (file.path, file.discovered_at) not in seen]


def _of_entry(file: Entry) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "create_time": file.modified_at,
        "discovery_time": file.discovered_at,
        "sequence": file.sequence,
    }


def _counts(file: Entry, found: Found) -> dict[str, int]:
    loaded, refused = found.rows[file.path], found.refused[file.path]
    return {
        "rows_read": file.records,
        "rows_loaded": loaded,
        "rows_quarantined": refused,
        "rows_rescued": found.rescued[file.path],
        "rows_dropped": file.records - loaded - refused if found.drops else 0,
    }


def add(ledger: Path, rows: Sequence[dict[str, Any]], batch: Transaction | None = None) -> None:
    """Append rows under ``COLUMNS``, numbered in their order; missing values are NULL.

    The commit carries the batch's own identifier, so that ``recorded_upto`` knows which batches are recorded.
    """
    if rows:
        path = outcomes_of(ledger)
        version = log.version(path)
        first = 0 if version is None else (version + 1) * STEP
        numbered = [row | {"recorded": first + n} for n, row in enumerate(rows)]
        append_next(path, pa.Table.from_pylist(numbered, schema=COLUMNS), batch)


def recorded_upto(ledger: Path, app_id: str) -> int:
    """Return the version of a stream's last batch whose files are in the status table, -1 for none."""
    return log.committed_version(outcomes_of(ledger), app_id)


def outcomes_of(ledger: Path) -> Path:
    """Return the status table of a ledger."""
    return ledger.with_name(f"{ledger.name}_files")


def rows(ledger: Path, condition: str = "true") -> list[dict[str, Any]]:
    """Return the rows for which a condition holds, oldest first; the log's statistics say where any are."""
    return log.rows(outcomes_of(ledger), f"SELECT * FROM t WHERE {condition} ORDER BY recorded")


def last_rows(ledger: Path, limit: int) -> list[dict[str, Any]]:
    """Return the newest rows, newest first, of as few commits as hold them."""
    version = log.version(outcomes_of(ledger))
    if version is None:
        return []
    # Commits that tidied up the table added no row.
    for commits in (1, limit, version + 1):
        found = rows(ledger, f"recorded >= {max(0, version + 1 - commits) * STEP}")
        if len(found) >= limit:
            break
    return found[::-1][:limit]


def newest(ledger: Path, condition: str = "true") -> dict[int, dict[str, Any]]:
    """Return the newest row of each ledger entry, by its sequence, oldest first."""
    return {row["sequence"]: row for row in rows(ledger, condition)}


def of_entries(ledger: Path, sequences: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return the newest rows of these ledger entries, by sequence."""
    if not sequences:
        return {}
    return newest(ledger, f"sequence IN ({', '.join(map(str, sequences))})")


def any_loaded(ledger: Path) -> bool:
    """Return true where records of a file were ever written to the table."""
    return bool(log.rows(outcomes_of(ledger), f"SELECT path FROM t WHERE status = '{LOADED}' LIMIT 1"))


def lost(ledger: Path) -> dict[int, dict[str, Any]]:
    """Return the newest row of each ledger entry that was never loaded, by its sequence."""
    # Only entries that ever were are looked at: they are few, whatever the history.
    ever = {row["sequence"] for row in rows(ledger, f"status IN {UNTAKEN}")}
    return {s: row for s, row in of_entries(ledger, ever).items() if row["status"] in UNTAKEN}


def corrupt(ledger: Path) -> list[dict[str, Any]]:
    """Return the rows of files whose newest admitted contents no reader could take."""
    found = {row["path"]: row for row in lost(ledger).values() if row["status"] == CORRUPT}
    newest = newest_of(ledger, found)
    return [row for path, row in found.items() if newest.get(path) == row["sequence"]]


def unaccounted_values(ledger: Path) -> dict[str, dict[str, int]]:
    """Return, by landing file, the columns whose values do not balance in the file's last load."""
    wrong = {row["sequence"] for row in rows(ledger, "values_unaccounted IS NOT NULL")}
    found = {row["path"]: row for _, row in sorted(of_entries(ledger, wrong).items())}
    newest = newest_of(ledger, found)
    return {
        path: json.loads(row["values_unaccounted"])
        for path, row in found.items()
        if newest.get(path) == row["sequence"] and row["values_unaccounted"]
    }


def last_values(ledger: Path) -> tuple[int, dict[str, str], dict[str, int]]:
    """Return, for the files of the last load, the values read, and by column those not counted or kept."""
    loaded = [row for row in last_rows(ledger, LAST_FILES) if row["status"] == LOADED]
    loaded = [row for row in loaded if row["run_id"] == loaded[0]["run_id"]]
    uncounted: dict[str, str] = {}
    unkept: Counter[str] = Counter()
    for row in loaded:
        uncounted |= json.loads(row["values_uncounted"] or "{}")
        unkept.update(json.loads(row["values_unkept"] or "{}"))
    return sum(row["values_read"] or 0 for row in loaded), uncounted, dict(unkept)


def _values(books: ValueBooks) -> dict[str, Any]:
    texts = {
        f"values_{name}": json.dumps(found, ensure_ascii=False) if found else None
        for name in ("unaccounted", "uncounted", "unkept")
        for found in [getattr(books, name)]
    }
    return {"values_read": books.read, **texts}
