"""The file ledger: an append-only Delta table with a row for every file ever seen.

Only discovery writes it, through ``deltalake``, so a look costs milliseconds and no JVM. Files are named
relative to their landing zone: a lake and its landing zone can be copied to another place and go on there.
"""

import os
import posixpath
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from medallion_assets.delta import log
from medallion_assets.delta.few_rows import append_next
from medallion_assets.sources.errors import OldLedger
from medallion_assets.sources.walking import folder_of
from medallion_assets.storage import for_reader, is_object, relative, resolved

TEXT, NUMBER, TIME = pa.string(), pa.int64(), pa.timestamp("us", "UTC")
COLUMNS = pa.schema(pa.field(*column) for column in (
    ("path", TEXT, False), ("size", NUMBER, False), ("modified_at", TIME, False), ("tag", TEXT, True),
    ("records", NUMBER, False), ("layout", TEXT, True), ("header", TEXT, True), ("status", TEXT, False),
    ("reason", TEXT, True), ("discovered_at", TIME, False), ("sequence", NUMBER, False),
    ("supersedes", NUMBER, False),
))  # fmt: skip

ADMITTED, REFUSED, CHANGED, SKIPPED = "admitted", "refused", "changed", "skipped"
DENIED = "denied"
"""The process may not read the file. Discovery checks it again as soon as the permission is given."""

UNCHANGED = "unchanged"
"""Size or time changed, but the bytes equal those of the admitted contents: nothing to load."""

NOT_LOADED = (REFUSED, CHANGED, DENIED)
"""Statuses to report: contents in the landing zone that are not in the table."""

ONE_FILE = 1 << 40
"""A size limit above every commit of the ledger."""

NONE = -1
"""The sequence that means "no entry"."""

OTHER_LEDGER = -2
"""The sequence of contents that an earlier ledger admitted; never stored."""

IN_A_QUERY = 2000
"""Paths that one query names."""

STEP = 1_000_000_000
"""The first sequence of a commit is its version times this number; no commit has as many entries."""

ROOT = "files relative to: "
"""Prefix of the table's description; the root of the first discovery follows, relative to the ledger."""


@dataclass(frozen=True)
class Entry:
    """One file as discovery saw it.

    Attributes:
        path: Its name in every table, relative to the landing zone's root (``root_of``).
        status: Whether the file is to be loaded.
        sequence: The order in which discovery saw files; later contents of a path have a higher one.
        supersedes: The sequence of the contents of this path admitted before it, ``NONE`` for none.
        root: The folder that ``path`` is relative to; never stored.
        refusal: Why none of its well-formed records can be a row, empty where they can; never stored.
    """

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
    sequence: int = NONE
    supersedes: int = NONE
    root: str = field(default="", repr=False)
    refusal: str = ""

    @property
    def location(self) -> Path:
        """The file's path; for an object, valid only after its download (``at_hand``)."""
        return located(self.root, self.path)

    @property
    def address(self) -> str:
        """The path of the file or object, as the storage port takes it."""
        return address(self.root, self.path)


class Known(NamedTuple):
    """The newest state of a file in the ledger.

    Attributes:
        modified_at: Microseconds since 1970.
        admitted: The sequence of its newest admitted contents, ``NONE`` for none.
        tag: The tag of its last contents, if requested.
    """

    size: int
    modified_at: int
    status: str
    sequence: int
    admitted: int
    tag: str = ""


def located(root: str | Path, path: str) -> Path:
    """Return where a file of the ledger lies; ``path`` may climb out of a root that was declared narrower."""
    return Path(os.path.normpath(f"{root}/{path}")) if path.startswith("../") else Path(root, path)


def address(root: str | Path, path: str) -> str:
    """Return the path of a file or an object of the ledger, as the storage port takes it."""
    return posixpath.join(root, path) if is_object(str(root)) else str(located(root, path))


def is_named(path: str, name: str) -> bool:
    """Return true where a person's name for a file means this path: its end, whole parts of it, or more."""
    return f"/{path}".endswith(f"/{name}") or name.endswith(f"/{path}")


COPY_INTO = "copy_into"
"""The folder of a table's COPY INTO state."""


def root_of(location: Path | str, ledger: Path) -> str:
    """Return the folder that the ledger's paths are relative to: the landing zone's root.

    It is the source's folder; for a glob the folder before its first wildcard, for a file the folder it is
    in. A source whose path was declared wider or narrower since keeps the root of its first look, or every
    file would have another name and load again. COPY INTO's ledger belongs to the table and takes files of
    several sources: all are named relative to the first, or files of one name would be taken for one file.
    """
    root = folder_of(location)
    said = (_opened(ledger).metadata().description or "") if log.exists(ledger) else ""
    if said.startswith(ROOT):
        recorded = said.removeprefix(ROOT)
        first = resolved(ledger, recorded)
        if ledger.parent.name == COPY_INTO or _is_within(first, root) or _is_within(root, first):
            return first
    return root


def _is_within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def append(ledger: Path, entries: Iterable[Entry], root: str) -> None:
    """Add the entries in one commit, which is one micro-batch of the stream over the ledger.

    Entries are numbered in their order. Without one the ledger is empty and says that there was a look.
    """
    version = log.version(ledger)
    first = 0 if version is None else (version + 1) * STEP
    numbered = [asdict(replace(entry, sequence=first + n)) for n, entry in enumerate(entries)]
    # As text: the log's reader refuses properties it does not know.
    said = f"{ROOT}{relative(root, ledger)}" if version is None else None
    if not numbered:
        DeltaTable.create(str(ledger), COLUMNS, mode="ignore", description=said)
        return
    rows = pa.Table.from_pylist(numbered, schema=COLUMNS)
    # One file: the stream takes a commit file by file, and a position is a whole commit.
    append_next(ledger, rows, description=said, target_file_size=ONE_FILE)


def admitted_between(ledger: Path, root: str, after: int, upto: int) -> list[Entry]:
    """Return the files that the ledger's commits after a version, up to another, admitted, as they were seen.

    Only where the log still has the entries of these commits.
    """
    found: list[Entry] = []
    for version in range(after + 1, upto + 1):
        added = [a["add"] for a in log.actions(ledger, version) or [] if "add" in a]
        paths = [ledger / unquote(add["path"]) for add in added if add.get("dataChange", True)]
        listed = [
            row for path in paths if path.exists() for row in pq.read_table(for_reader(path)).to_pylist()
        ]
        found += [Entry(**row, root=root) for row in listed if row["status"] == ADMITTED]
    return sorted(found, key=lambda file: file.sequence)


def rows(
    ledger: Path, sql: str = "SELECT * FROM ledger", version: int | None = None
) -> list[dict[str, object]]:
    """Return what a query over the table ``ledger`` answers, an empty list where there is none yet."""
    if not log.exists(ledger):
        return []
    answer = QueryBuilder().register("ledger", _opened(ledger, version)).execute(sql)
    return pa.table(answer).to_pylist()  # type: ignore[no-any-return]


def _opened(ledger: Path, version: int | None = None) -> DeltaTable:
    table = log.opened(ledger, version)
    if lacking := set(COLUMNS.names) - {field.name for field in table.schema().fields}:
        raise OldLedger(ledger, lacking)
    return table


def last_seen(ledger: Path, tags: bool = False, only: Collection[str] | None = None) -> dict[str, Known]:
    """Return the newest entry of each path.

    Args:
        ledger: The ledger.
        tags: True for the tags of the contents as well.
        only: The paths; all where None. Of these, statistics and bloom filters say which files have any.
    """
    if not log.exists(ledger):
        return {}
    if only is not None:
        names = sorted(only)
        parts = [names[first : first + IN_A_QUERY] for first in range(0, len(names), IN_A_QUERY)]
        return {p: seen for part in parts for p, seen in _last_seen(ledger, tags, part).items()}
    return _last_seen(ledger, tags)


def _last_seen(ledger: Path, tags: bool, only: Collection[str] = ()) -> dict[str, Known]:
    admitted = f"CASE WHEN status = '{ADMITTED}' THEN sequence ELSE supersedes END"
    columns = f"path, size, modified_at, status, sequence, {admitted}{', tag' if tags else ''}"
    query = QueryBuilder().register("ledger", _opened(ledger))
    chosen = f"WHERE path IN ({_texts(only)})" if only else ""
    answer = pa.table(query.execute(f"SELECT {columns} FROM ledger {chosen} ORDER BY sequence"))
    # Column by column, and times as numbers: rows and dates take five times as long for 100,000 files.
    path, size, at, status, *others = (answer.column(i) for i in range(answer.num_columns))
    few = status.combine_chunks().dictionary_encode()
    words = few.dictionary.to_pylist()
    statuses = [words[index] for index in few.indices.to_numpy().tolist()]
    sizes, times = (column.cast(pa.int64()).to_numpy().tolist() for column in (size, at))
    sequences, newest = (column.to_numpy().tolist() for column in others[:2])
    tags_of = others[2].to_pylist() if tags else repeat("", len(sizes))
    values = [sizes, times, statuses, sequences, newest, tags_of]
    # As tuples are made, not by the named tuple's own constructor: a third of the time for a million.
    return dict(
        zip(path.to_pylist(), map(partial(tuple.__new__, Known), zip(*values, strict=True)), strict=True)
    )


def entries_at(ledger: Path, sequences: Collection[int]) -> dict[int, dict[str, object]]:
    """Return the entries of these sequences; the log's statistics say which files have any."""
    if not sequences:
        return {}
    found = rows(ledger, f"SELECT * FROM ledger WHERE sequence IN ({', '.join(map(str, sequences))})")
    return {int(str(row["sequence"])): row for row in found}


def newest_of(ledger: Path, paths: Collection[str], above: int = NONE) -> dict[str, int]:
    """Return the sequence of each path's newest admitted contents among those above a sequence."""
    if not paths:
        return {}
    chosen = f"status = '{ADMITTED}' AND sequence > {above} AND path IN ({_texts(paths)})"
    found = rows(ledger, f"SELECT path, max(sequence) AS newest FROM ledger WHERE {chosen} GROUP BY path")
    return {str(row["path"]): int(str(row["newest"])) for row in found}


def _texts(paths: Collection[str]) -> str:
    return ", ".join("'" + path.replace("'", "''") + "'" for path in paths)


def not_loaded(ledger: Path) -> list[dict[str, object]]:
    """Return path, status and reason of files whose newest contents could not be or were not to be loaded."""
    # Only paths that ever were are looked at: they are few, whatever the history.
    ever = f"SELECT path FROM ledger WHERE status IN {NOT_LOADED}"
    turn = "row_number() OVER (PARTITION BY path ORDER BY sequence DESC) AS turn"
    newest = f"SELECT path, status, reason, {turn} FROM ledger WHERE path IN ({ever})"
    sql = f"SELECT path, status, reason FROM ({newest}) WHERE turn = 1 AND status IN {NOT_LOADED}"
    return rows(ledger, f"{sql} ORDER BY path")
