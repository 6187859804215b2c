"""Which files are there, which are new, and what is inside them: decided without a JVM."""

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from medallion_assets.ingestion import ledger as ledgers
from medallion_assets.ingestion.counting import Contents, contents
from medallion_assets.ingestion.errors import UnreadableFile
from medallion_assets.ingestion.ledger import ADMITTED, CHANGED, REFUSED, Entry
from medallion_assets.ingestion.options import Source

LONG_AGO = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Arrivals:
    """What one look at a landing zone added to its ledger."""

    admitted: int
    refused: int
    records: int


@dataclass(frozen=True)
class Sighting:
    """A file as the listing shows it."""

    path: str
    size: int
    modified_at: datetime
    refusal: str = ""


def listed(folder: Path, source: Source) -> Iterator[Sighting]:
    """Gives every file meant for loading, and every other thing under a name that is."""
    for entry in sorted(os.scandir(folder), key=lambda e: e.name) if folder.is_dir() else ():
        if entry.is_dir(follow_symlinks=False):
            if source.recursive_file_lookup and not entry.name.startswith(("_", ".")):
                yield from listed(Path(entry.path), source)
        elif source.takes(entry.name):
            yield _sighting(entry)


def unseen_files(folder: Path, ledger: Path, source: Source, settle_seconds: float = 0) -> list[Sighting]:
    """Gives the files the ledger does not know as they are now, oldest first; writes nothing.

    A file younger than ``settle_seconds`` may still be being written: it waits for a later look.
    """
    known = ledgers.last_seen(ledger)
    settled = time.time() - settle_seconds
    new = [
        s for s in listed(folder, source) if known.get(s.path, (None, None))[:2] != (s.size, s.modified_at)
    ]
    ripe = [s for s in new if not settle_seconds or s.modified_at.timestamp() <= settled]
    return sorted(ripe, key=lambda s: (s.modified_at, s.path))


def discover(folder: Path, ledger: Path, source: Source, settle_seconds: float = 0) -> Arrivals:
    """Adds what is new in the landing zone to the ledger, a commit for each micro-batch to come."""
    known = ledgers.last_seen(ledger)
    new = unseen_files(folder, ledger, source, settle_seconds)
    entries = [e for e in (_entry(s, source, known.get(s.path)) for s in new) if e]
    for chunk in _chunks(entries, source):
        ledgers.append(ledger, chunk)
    admitted = [e for e in entries if e.status == ADMITTED]
    return Arrivals(len(admitted), len(entries) - len(admitted), sum(e.records for e in admitted))


def _sighting(entry: "os.DirEntry[str]") -> Sighting:
    found = entry.stat(follow_symlinks=False)
    # Whole microseconds: what Delta's timestamps hold.
    modified = LONG_AGO.fromtimestamp(found.st_mtime_ns // 1000 / 1e6, tz=timezone.utc)
    refusal = (
        "" if stat.S_ISREG(found.st_mode) else "not a regular file: a link could lead out of the landing zone"
    )
    path = os.fsencode(entry.path).decode("utf-8", "backslashreplace")
    if path != entry.path:
        refusal = "its name is not UTF-8"
    return Sighting(path, found.st_size, modified, refusal)


def _entry(seen: Sighting, source: Source, known: tuple[int, datetime, str] | None) -> Entry | None:
    if seen.refusal:
        return _refused(seen, REFUSED, seen.refusal)
    if known and known[2] != REFUSED:
        return _refused(seen, CHANGED, "overwritten after it was taken: its first contents stay loaded")
    try:
        inside = contents(Path(seen.path), source)
    except (UnreadableFile, OSError) as problem:
        return _refused(seen, REFUSED, str(problem))
    if _moved_on(seen):
        return None
    return _admitted(seen, inside)


def _moved_on(seen: Sighting) -> bool:
    """True where the file changed while it was being counted: it is half written, and waits."""
    try:
        found = Path(seen.path).lstat()
    except OSError:
        return True
    return found.st_size != seen.size or found.st_mtime_ns // 1000 / 1e6 != seen.modified_at.timestamp()


def _admitted(seen: Sighting, inside: Contents) -> Entry:
    facts = (inside.tag, inside.records, inside.layout, inside.header, ADMITTED, "")
    return Entry(seen.path, seen.size, seen.modified_at, *facts, datetime.now(timezone.utc))


def _refused(seen: Sighting, status: str, reason: str) -> Entry:
    facts = ("", 0, "", "", status, reason)
    return Entry(seen.path, seen.size, seen.modified_at, *facts, datetime.now(timezone.utc))


def _chunks(entries: list[Entry], source: Source) -> Iterator[list[Entry]]:
    chunk: list[Entry] = []
    for entry in entries:
        size = sum(e.size for e in chunk) + entry.size
        if chunk and (len(chunk) >= source.max_files_per_trigger or size > source.max_bytes_per_trigger):
            yield chunk
            chunk = []
        chunk.append(entry)
    if chunk:
        yield chunk
