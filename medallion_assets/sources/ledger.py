"""The file ledger: an append-only Delta table with a row for every file ever seen.

Only discovery writes it, through ``deltalake``, so a look costs milliseconds and no JVM.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
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

ONE_FILE = 1 << 40
"""More bytes than a commit of the ledger ever has."""

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
    # One file: the stream takes a commit file by file, and a position is a whole commit.
    write_deltalake(str(ledger), rows, mode="append", target_file_size=ONE_FILE)


def admitted_between(ledger: Path, after: int, upto: int) -> list[Entry]:
    """Return the files that the ledger's commits after a version, up to another, admitted; oldest first.

    Only where the log still has the entries of these commits.
    """
    found: list[Entry] = []
    for version in range(after + 1, upto + 1):
        added = [a["add"] for a in log.actions(ledger, version) or [] if "add" in a]
        paths = [ledger / unquote(add["path"]) for add in added if add.get("dataChange", True)]
        listed = [row for path in paths if path.exists() for row in pq.read_table(path).to_pylist()]
        files = [Entry(**row) for row in listed if row["status"] == ADMITTED]
        found += sorted(files, key=lambda file: (file.modified_at, file.path))
    return found


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
