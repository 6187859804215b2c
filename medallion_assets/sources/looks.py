"""What a look at a source goes over: everything that lies there, what file events name, or names after one.

The note of the last whole listing (``Listed``) may be lost or older: the next look lists everything then.
"""

import logging
import time
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from medallion_assets.delta import log
from medallion_assets.delta.batches import read_json, write_json
from medallion_assets.sources.errors import BatchRefused, seconds_of, some_of
from medallion_assets.sources.file_events import Message, Queue, objects_of
from medallion_assets.sources.ledger import NUMBER, TEXT, TIME
from medallion_assets.sources.options import Source
from medallion_assets.sources.walking import NamedFiles, fixed_part
from medallion_assets.storage import FILE, Stored, is_object, storage_of

IN_S3 = "s3://"
ASKED_AT_ONCE = 32
"""Objects whose facts are asked for side by side."""

COLUMNS = pa.schema(pa.field(*column) for column in (
    ("at", TIME, False), ("kind", TEXT, False), ("path", TEXT, True), ("reason", TEXT, False),
    ("times", NUMBER, False), ("text", TEXT, True),
))  # fmt: skip

MALFORMED, ELSEWHERE, LATE, UNORDERED = "malformed event", "event of elsewhere", "late name", "not ordered"
BEFORE_CURSOR = "its name comes before names that were taken: found by the listing of the whole source"


@dataclass(frozen=True)
class Notice:
    """What a look has to tell beside the files it takes: a row of the table of notices."""

    kind: str
    path: str
    reason: str
    times: int = 1
    text: str = ""


@dataclass(frozen=True)
class Listed:
    """The note of the last listing of a whole source.

    Attributes:
        at: When it began, in seconds since 1970; 0 for never.
        ledger: The ledger's id; ``version`` its newest version then, or after a later look.
        cursor: The object up to whose name all are in the ledger, with ``cursor_at``, its time; empty where
            names do not follow times.
        unordered: The object by which they do not.
    """

    at: float = 0.0
    ledger: str = ""
    version: int = -1
    cursor: str = ""
    cursor_at: int = 0
    unordered: str = ""


@dataclass(frozen=True)
class Scope:
    """What one look goes over.

    Attributes:
        among: The objects it looks at; None for all.
        paths: Their addresses.
        queue: Where ``messages`` are from, each with the objects it names.
        notices: What it has to tell.
        began: When it began.
        listed: The note before it.
    """

    among: NamedFiles | None = None
    paths: Sequence[str] = ()
    queue: Queue | None = None
    messages: Sequence[tuple[Message, Sequence[str]]] = ()
    notices: Sequence[Notice] = ()
    began: float = field(default_factory=time.time)
    listed: Listed = field(default_factory=Listed)


class NoEventsOfThere(BatchRefused):
    """A source has ``file_events``, and its files do not land in S3."""

    def __init__(self, source: Source, location: str) -> None:
        """Name the source and the place."""
        super().__init__(
            f"source {source.name!r}: file_events is a queue of S3's notifications, and {location} is not in "
            "S3. Nothing was read or changed: leave file_events out, or let the files land in S3."
        )


def looks_of(ledger: Path) -> Path:
    """Return the folder of a ledger's notes of its looks; the notices are a Delta table in it."""
    return ledger.with_name(f"{ledger.name}_looks")


def last_listed(ledger: Path) -> Listed:
    """Return the note of the last whole listing, an empty one where the ledger is not the one of then."""
    said = read_json(looks_of(ledger) / "listed.json")
    if said is None or said.keys() != asdict(Listed()).keys():
        return Listed()
    # An older copy of the ledger lacks files whose events were acknowledged.
    is_of_now = said["ledger"] == log.table_id(ledger) and _version(ledger) >= said["version"]
    return Listed(**said) if is_of_now else Listed()


def _version(ledger: Path) -> int:
    version = log.version(ledger)
    return -1 if version is None else version


def is_due(ledger: Path, source: Source) -> bool:
    """Return true where the whole source is to be listed."""
    # Of a clock that was put back, too.
    return not 0 <= time.time() - last_listed(ledger).at < seconds_of(source.backfill or "1 day")


def scope_of(location: Path | str, ledger: Path, source: Source, takes_events: bool) -> Scope:
    """Return what a look goes over.

    Args:
        location: The source's folder, file or glob.
        ledger: Its ledger.
        source: Its options.
        takes_events: False for a look that writes nothing: it lists instead.

    Raises:
        NoEventsOfThere: The source has events, and is not in S3.
        QueueUnreachable: The queue does not answer.
    """
    place = str(location)
    if source.file_events and not place.startswith(IN_S3):
        raise NoEventsOfThere(source, place)
    if not (source.file_events or source.use_incremental_listing):
        return Scope()
    listed = last_listed(ledger)
    if is_due(ledger, source) or not is_object(place):
        return Scope(listed=listed)
    if source.file_events and takes_events:
        return _named(place, source, Scope(listed=listed))
    if listed.cursor:
        found = [*storage_of(place).list_after(fixed_part(place), listed.cursor)]
        return Scope(NamedFiles(found), [file.path for file in found], listed=listed)
    return Scope(listed=listed)


def _named(location: str, source: Source, scope: Scope) -> Scope:
    """Return the scope of the objects below the location that the queue's messages name."""
    queue, folder = Queue(source.file_events), fixed_part(location)
    messages, notices, elsewhere = [], [], []
    for message in queue.receive():
        try:
            objects = objects_of(message.body)
        except ValueError as wrong:
            objects = []
            notices.append(Notice(MALFORMED, message.id, str(wrong), text=message.body))
        messages.append((message, objects))
        elsewhere += [path for path in objects if not f"{path}/".startswith(f"{folder}/")]
    if elsewhere:
        why = f"not below {folder}: give each table's source a queue of its own"
        notices.append(Notice(ELSEWHERE, elsewhere[0], why, len(elsewhere)))
    wanted = {path for _, objects in messages for path in objects}.difference(elsewhere)
    taken = sorted(path for path in wanted if source.takes(path.rpartition("/")[2]))
    with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
        facts = [*threads.map(_facts, taken)]
    odd = zip(taken, facts, strict=True)
    notices += [Notice(MALFORMED, path, why) for path, why in odd if isinstance(why, str)]
    found = [each for each in facts if isinstance(each, Stored) and each.kind == FILE]
    paths = [file.path for file in found]
    return replace(
        scope, among=NamedFiles(found), paths=paths, queue=queue, messages=messages, notices=notices
    )


def _facts(path: str) -> Stored | str | None:
    """Return an object's facts, None where there is none by now, or why its name cannot be asked for."""
    try:
        return storage_of(path).stat(path)
    except PermissionError:
        # Reading it will be denied, and the ledger says so.
        return Stored(path, path.rpartition("/")[2], FILE)
    except ValueError as error:
        return f"no name of an object that can be read: {error}"


def finish(
    ledger: Path, source: Source, scope: Scope, seen: Iterable[tuple[str, int]], held: Collection[str]
) -> None:
    """Write the notices and the note of a look, and acknowledge its messages: once the ledger has its files.

    Args:
        ledger: The ledger, with the commits of the look.
        source: Its options.
        scope: What the look went over.
        seen: Address and time of each file that matches, where names are to be proved ordered.
        held: Addresses of files that wait for a later look.
    """
    if not source.backfill:
        return
    before, notices = scope.listed, [*scope.notices]
    start = (before.cursor, before.cursor_at) if scope.among else ("", 0)
    cursor, at, unordered = ordered(seen, held, *start) if source.use_incremental_listing else ("", 0, "")
    if unordered and unordered != before.unordered:
        why = "it is older than a file of an earlier name: every look lists the whole source"
        notices.append(Notice(UNORDERED, unordered, why))
    _tell(ledger, source, notices)
    note = {"version": _version(ledger), "ledger": log.table_id(ledger)}
    if source.use_incremental_listing:
        note |= {"cursor": cursor, "cursor_at": at, "unordered": unordered}
    whole = {} if scope.among else {"at": scope.began}
    write_json(looks_of(ledger) / "listed.json", asdict(replace(before, **note, **whole)))  # type: ignore[arg-type]
    if scope.queue:
        waits = set(held)
        scope.queue.acknowledge([message for message, named in scope.messages if waits.isdisjoint(named)])


def ordered(
    seen: Iterable[tuple[str, int]], held: Collection[str], cursor: str, at: int
) -> tuple[str, int, str]:
    """Return how far all files are taken, in the order of names, where that is the order of times as well.

    Args:
        seen: Address and time of files.
        held: Addresses of those that are not taken yet.
        cursor: The file up to whose name all are taken; empty for none.
        at: Its time.

    Returns:
        The last file before the first that waits, its time, and the first file that is older than one of an
        earlier name: with such a file the other two are empty.
    """
    waits = set(held)
    newest, stopped = at, False
    for path, time_of in sorted(seen):
        if time_of < newest:
            return "", 0, path
        newest, stopped = time_of, stopped or path in waits
        if not stopped:
            cursor, at = path, time_of
    return cursor, at, ""


def late_names(scope: Scope, found: Iterable[str]) -> list[Notice]:
    """Return a notice of each new file that a look after the cursor would not have found."""
    cursor = "" if scope.among else scope.listed.cursor
    return [Notice(LATE, path, BEFORE_CURSOR) for path in found if path <= cursor]


def _tell(ledger: Path, source: Source, notices: Sequence[Notice]) -> None:
    if not notices:
        return
    now = datetime.now(timezone.utc)
    rows = pa.Table.from_pylist([{"at": now, **asdict(each)} for each in notices], schema=COLUMNS)
    write_deltalake(str(looks_of(ledger) / "notices"), rows, mode="append")
    told = some_of([f"{n.kind} {n.path} ({n.reason})" for n in notices])
    logging.getLogger(__name__).warning("source %s: %s", source.name, told)


def notices(ledger: Path, limit: int = 100) -> list[dict[str, Any]]:
    """Return what the looks had to tell, the newest first."""
    return log.rows(looks_of(ledger) / "notices", f"SELECT * FROM t ORDER BY at DESC LIMIT {limit}")
