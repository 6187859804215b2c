"""The file ledger: an append-only Delta table with a row for every file ever seen.

Only discovery writes it, through ``deltalake``, so a look costs milliseconds and no JVM.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from deltalake import QueryBuilder, write_deltalake

from medallion_assets.delta import log

COLUMNS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("tag", pa.string()),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("layout", pa.string()),
        pa.field("header", pa.string()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("discovered_at", pa.timestamp("us", "UTC"), nullable=False),
    ]
)

ADMITTED, REFUSED, CHANGED, SKIPPED = "admitted", "refused", "changed", "skipped"
DENIED = "denied"
"""The user this runs as may not read it. It is looked at again once that user may: the file is as it was."""

Seen = tuple[int, int, str]
"""A file's size, modification time in microseconds since 1970, and status."""


@dataclass(frozen=True)
class Entry:
    """One file as it was when it was seen; ``status`` says whether it is for loading."""

    path: str
    size: int
    modified_at: datetime
    tag: str
    records: int
    layout: str
    header: str
    status: str
    reason: str
    discovered_at: datetime


def append(ledger: Path, entries: Iterable[Entry]) -> None:
    """Add the entries in one commit, which is one micro-batch of the stream over the ledger."""
    rows = pa.Table.from_pylist([asdict(entry) for entry in entries], schema=COLUMNS)
    write_deltalake(str(ledger), rows, mode="append")


def rows(
    ledger: Path, sql: str = "SELECT * FROM ledger", version: int | None = None
) -> list[dict[str, object]]:
    """Return what a query over the table ``ledger`` answers, an empty list where there is none yet."""
    if not log.exists(ledger):
        return []
    answer = QueryBuilder().register("ledger", log.opened(ledger, version)).execute(sql)
    return pa.table(answer).to_pylist()  # type: ignore[no-any-return]


def last_seen(ledger: Path) -> dict[str, Seen]:
    """Return size, modification time and status of each path as the ledger last saw it."""
    if not log.exists(ledger):
        return {}
    sql = "SELECT path, size, modified_at, status FROM ledger ORDER BY discovered_at"
    answer = pa.table(QueryBuilder().register("ledger", log.opened(ledger)).execute(sql))
    # Column by column, and times as numbers: rows and dates take five times as long for 100,000 files.
    path, size, at, status = (answer.column(i) for i in range(4))
    columns = [column.to_pylist() for column in (path, size, at.cast(pa.int64()), status)]
    return {path: (size, at, status) for path, size, at, status in zip(*columns, strict=True)}
