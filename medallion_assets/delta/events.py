"""The event log: what every refresh, load and operation did, by micro-batch: a Delta table to query.

Written by ``deltalake`` once for each, after it: no Spark job, and nothing that waits for it or fails by it.
Nothing reads it to go on; it may be deleted.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.rollback import check_format

COUNTS = {"rows_read": "read", "rows_written": "written", "rows_quarantined": "quarantined",
          "duplicates": "duplicates", "dropped": "dropped", "late": "late", "rescued": "rescued",
          "files": "files"}  # fmt: skip
"""Columns, and the number of a micro-batch each holds."""

COLUMNS = pa.schema(
    [
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("event", pa.string()),
        ("run_id", pa.string()),
        ("table", pa.string()),
        ("version", pa.int64()),
        ("position", pa.int64()),
        ("seconds", pa.float64()),
        *((name, pa.int64()) for name in COUNTS),
        ("broken_rules", pa.map_(pa.string(), pa.int64())),
        ("watermark", pa.string()),
        ("open_windows", pa.int64()),
        ("state_bytes", pa.int64()),
        ("strategy", pa.string()),
        ("backlog_seconds", pa.float64()),
        ("backlog_files", pa.int64()),
        ("backlog_bytes", pa.int64()),
        ("error", pa.string()),
    ]
)
REFRESH, LOAD, MICRO_BATCH, FAILURE = "refresh", "load", "micro_batch", "failure"
"""Kinds of events; an operation's is its name."""


def events_of(root: Path) -> Path:
    """Return the event log of the lake in a folder."""
    return root / "_events"


@dataclass(frozen=True)
class Backlog:
    """The upstream rows that were waiting for a table when a refresh began.

    Attributes:
        seconds: Since the oldest of it landed, or was committed upstream; 0 where nothing waited.
        files, bytes: Landing files, or data files of the table upstream.
    """

    seconds: float = 0.0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Work:
    """What was done to a table.

    Attributes:
        run_id: Who did it.
        batches: Its micro-batches.
        seconds: Its duration, waiting for the lease included.
        waited: What waited for the table when it began; None where it takes nothing that waits.
        error: What it failed by.
        kind: The event's name where it did not fail.
    """

    run_id: str
    batches: Sequence[Batch]
    seconds: float
    waited: Backlog | None = None
    error: BaseException | None = None
    kind: str = REFRESH


def append_event(root: Path, table: str, path: Path, work: Work) -> None:
    """Append the events of what was done to a table; an error while appending is only logged.

    Of the work's error only the kind is written: its message may hold a value of a row.

    Args:
        root: The lake.
        table: The table's key.
        path: The table.
        work: What was done.
    """
    try:
        # A lake of another release's format is refused with nothing written, an event neither.
        check_format(root)
        events = pa.Table.from_pylist(list(_rows(table, path, work)), COLUMNS)
        write_deltalake(str(events_of(root)), events, mode="append", partition_by=["day"])
    except Exception as problem:
        logging.getLogger(__name__).warning("the event log was not written: %s", problem)


def _rows(table: str, path: Path, work: Work) -> Iterator[dict[str, Any]]:
    now = datetime.now(timezone.utc)
    every = {"day": now.date(), "at": now, "run_id": work.run_id, "table": table}
    for batch in work.batches:
        yield every | {
            "event": MICRO_BATCH, "position": batch.position, "seconds": batch.seconds,
            "broken_rules": list({k: n for k, n in batch.rules.items() if n}.items()),
            "watermark": batch.watermark or None, "open_windows": batch.open_groups,
            "state_bytes": batch.state_bytes, "strategy": batch.strategy,
        } | {name: getattr(batch, of) for name, of in COUNTS.items()}  # fmt: skip
    error, waited = work.error, work.waited
    yield every | {
        "event": FAILURE if error else work.kind, "version": None if error else log.version(path),
        "seconds": work.seconds, "error": type(error).__name__ if error else None,
        "backlog_seconds": waited.seconds if waited else None,
        "backlog_files": waited.files if waited else None, "backlog_bytes": waited.bytes if waited else None,
    } | {name: sum(getattr(b, of) for b in work.batches) for name, of in COUNTS.items()}  # fmt: skip


def delete_old_events(root: Path, days: int) -> None:
    """Delete events that are older than so many days, and compact the small files.

    An error, as of a damaged log, is only logged, so that the upkeep of a table continues.
    """
    try:
        _delete_old_events(events_of(root), days)
    except Exception as problem:
        logging.getLogger(__name__).warning("%s was not tidied: %s", events_of(root), problem)


def _delete_old_events(path: Path, days: int) -> None:
    if not log.exists(path):
        return
    first = datetime.now(timezone.utc).date() - timedelta(days=days)
    table = DeltaTable(str(path))
    table.delete(f"day < '{first.isoformat()}'")
    table.optimize.compact()
    table.vacuum(retention_hours=24 * 7, dry_run=False)
    table.create_checkpoint()
