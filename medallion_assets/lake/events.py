"""The event log: what every refresh and each of its micro-batches did, a Delta table for people to query.

Written by ``deltalake`` once for a refresh, after it: no Spark job, and nothing that a refresh waits for or
fails by. Nothing reads it to go on; it may be deleted.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import position
from medallion_assets.sources.ledger import admitted_between

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
REFRESH, MICRO_BATCH, FAILURE = "refresh", "micro_batch", "failure"


def events_of(lake: Lake) -> Path:
    """Return the event log of a lake."""
    return lake.root / "_events"


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


def backlog(table: Table, lake: Lake) -> Backlog | None:
    """Return a table's backlog upstream, read from logs; None where the logs cannot be read."""
    try:
        return _backlog(table, lake)
    except Exception as problem:
        logging.getLogger(__name__).warning("the backlog is not known: %s", type(problem).__name__)
        return None


def _backlog(table: Table, lake: Lake) -> Backlog:
    upstream, after = lake.upstream_log(table), position(table, lake)
    newest = log.version(upstream)
    if newest is None or newest <= after:
        return Backlog()
    if table.source:
        found = admitted_between(upstream, load_target_of(table, lake).root, after, newest)
        parts = [(file.modified_at.timestamp(), file.size) for file in found]
    else:
        parts = list(_added(upstream, after, newest))
    oldest = min((at for at, _ in parts), default=time.time())
    return Backlog(max(0.0, time.time() - oldest), len(parts), sum(size for _, size in parts))


def _added(upstream: Path, after: int, newest: int) -> Iterator[tuple[float, int]]:
    """Return when each data file of these commits was written, and its bytes."""
    for version in range(after + 1, newest + 1):
        for action in log.actions(upstream, version) or ():
            if added := action.get("add"):
                yield int(added["modificationTime"]) / 1000, int(added["size"])


@dataclass(frozen=True)
class Work:
    """The result of a refresh: its batches, its duration, its backlog, and its error."""

    batches: Sequence[Batch]
    seconds: float
    waited: Backlog
    error: BaseException | None = None


def append_event(lake: Lake, table: Table, run_id: str, work: Work) -> None:
    """Append the event of a refresh that wrote batches or failed. An error while appending is only logged.

    Of the refresh's error only the kind is written: its message may hold a value of a row.
    """
    if not work.batches and work.error is None:
        return
    try:
        rows = list(_rows(lake, table, run_id, work))
        events = pa.Table.from_pylist(rows, COLUMNS)
        write_deltalake(str(events_of(lake)), events, mode="append", partition_by=["day"])
    except Exception as problem:
        logging.getLogger(__name__).warning("the event log was not written: %s", problem)


def _rows(lake: Lake, table: Table, run_id: str, work: Work) -> Iterator[dict[str, Any]]:
    error, waited = work.error, work.waited
    now = datetime.now(timezone.utc)
    every = {"day": now.date(), "at": now, "run_id": run_id, "table": table.key}
    for batch in work.batches:
        yield every | {
            "event": MICRO_BATCH, "position": batch.position, "seconds": batch.seconds,
            "broken_rules": list({k: n for k, n in batch.rules.items() if n}.items()),
            "watermark": batch.watermark or None, "open_windows": batch.open_groups,
            "state_bytes": batch.state_bytes, "strategy": batch.strategy,
        } | {name: getattr(batch, of) for name, of in COUNTS.items()}  # fmt: skip
    yield every | {
        "event": FAILURE if error else REFRESH, "version": None if error else log.version(lake.path(table)),
        "seconds": work.seconds, "error": type(error).__name__ if error else None,
        "backlog_seconds": waited.seconds, "backlog_files": waited.files, "backlog_bytes": waited.bytes,
    } | {name: sum(getattr(b, of) for b in work.batches) for name, of in COUNTS.items()}  # fmt: skip


def delete_old_events(lake: Lake) -> None:
    """Delete events that are older than the setting ``events_days``, and compact the small files.

    An error, as of a damaged log, is only logged, so that the upkeep of a table continues.
    """
    try:
        _delete_old_events(lake, events_of(lake))
    except Exception as problem:
        logging.getLogger(__name__).warning("%s was not tidied: %s", events_of(lake), problem)


def _delete_old_events(lake: Lake, path: Path) -> None:
    if not log.exists(path):
        return
    first = datetime.now(timezone.utc).date() - timedelta(days=lake.settings.events_days)
    table = DeltaTable(str(path))
    table.delete(f"day < '{first.isoformat()}'")
    table.optimize.compact()
    table.vacuum(retention_hours=24 * 7, dry_run=False)
    table.create_checkpoint()
