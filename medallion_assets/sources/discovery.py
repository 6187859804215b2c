"""Which files are new, and what is inside them: decided without a JVM, written to the ledger."""

import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from medallion_assets.delta import log
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.contents import Contents
from medallion_assets.sources.counting import contents
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.known_files import known_files
from medallion_assets.sources.ledger import ADMITTED, CHANGED, DENIED, REFUSED, SKIPPED, Entry
from medallion_assets.sources.listing import FoundFile, unknown
from medallion_assets.sources.options import Source

OVERWRITTEN = "overwritten after it was taken: its first contents stay loaded"
LAY_THERE = "it lay there at the first look, and include_existing_files is false"

AT_ONCE = 2
"""Files counted side by side; some are held in memory for it."""


@dataclass(frozen=True)
class DiscoveryResult:
    """What one look at a landing zone added to its ledger."""

    admitted: int
    refused: int
    records: int


@dataclass(frozen=True)
class DiscoveryOptions:
    """How a look is made.

    Attributes:
        settle_seconds: A younger file may still be being written: it waits for a later look.
        only: Paths to look at alone; all where None.
        again: Takes files that were taken before once more.
    """

    settle_seconds: float = 0
    only: Collection[str] | None = None
    again: bool = False
    known: dict[str, ledgers.Seen] = field(default_factory=dict, compare=False)


def unseen_files(
    location: Path, ledger: Path, source: Source, look: DiscoveryOptions | None = None
) -> list[FoundFile]:
    """Return the files the ledger does not know as they are now, oldest first; writes nothing."""
    look = look or DiscoveryOptions()
    known = look.known or known_files(ledger)
    wait = look.settle_seconds if source.settle_seconds is None else source.settle_seconds
    settled = time.time() - wait
    new = unknown(location, source, {} if look.again else known)
    chosen = (s for s in new if look.only is None or s.path in look.only)
    ripe = [s for s in chosen if not wait or s.modified_at.timestamp() <= settled]
    return sorted(ripe, key=lambda s: (s.modified_at, s.path))


def discover(
    location: Path, ledger: Path, source: Source, look: DiscoveryOptions | None = None
) -> DiscoveryResult:
    """Add what is new at a source to its ledger, a commit for each micro-batch to come."""
    entries = entries_of(location, ledger, source, look or DiscoveryOptions())
    for chunk in _chunks(entries, source):
        ledgers.append(ledger, chunk)
    admitted = [e for e in entries if e.status == ADMITTED]
    return DiscoveryResult(len(admitted), len(entries) - len(admitted), sum(e.records for e in admitted))


def entries_of(location: Path, ledger: Path, source: Source, look: DiscoveryOptions) -> list[Entry]:
    """Return the ledger rows a look would add, oldest file first; writes nothing."""
    known = known_files(ledger)
    first = not source.include_existing_files and not log.exists(ledger)
    new = unseen_files(
        location, ledger, source, DiscoveryOptions(look.settle_seconds, look.only, look.again, known)
    )
    if first:
        return [_refused(seen, SKIPPED, LAY_THERE) for seen in new]
    # Python waits for the hash of one file's bytes while it counts another's lines.
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = threads.map(lambda seen: _entry(seen, source, known.get(seen.path), look), new)
        return [entry for entry in found if entry]


def _entry(
    seen: FoundFile, source: Source, known: ledgers.Seen | None, look: DiscoveryOptions
) -> Entry | None:
    if seen.refusal:
        return _refused(seen, REFUSED, seen.refusal)
    taken = known is not None and known[2] in (ADMITTED, CHANGED) and known[0] > 0
    if taken and source.allow_overwrites == "ignore" and not look.again:
        return _refused(seen, CHANGED, OVERWRITTEN)
    try:
        inside = contents(Path(seen.path), source)
    except PermissionError:
        return _refused(seen, DENIED, "the user this runs as may not read it")
    except (UnreadableFile, OSError) as problem:
        return _refused(seen, REFUSED, str(problem))
    if _moved_on(seen):
        return None
    return _admitted(seen, inside)


def _moved_on(seen: FoundFile) -> bool:
    """Return true where the file changed while it was being counted: it is half written, and waits."""
    try:
        found = Path(seen.path).lstat()
    except OSError:
        return True
    return found.st_size != seen.size or found.st_mtime_ns // 1000 / 1e6 != seen.modified_at.timestamp()


def _admitted(seen: FoundFile, inside: Contents) -> Entry:
    facts = (inside.tag, inside.records, inside.layout, inside.header, ADMITTED, "")
    return Entry(seen.path, seen.size, seen.modified_at, *facts, datetime.now(timezone.utc))


def _refused(seen: FoundFile, status: str, reason: str) -> Entry:
    facts = ("", 0, "", "", status, reason)
    return Entry(seen.path, seen.size, seen.modified_at, *facts, datetime.now(timezone.utc))


def _chunks(entries: list[Entry], source: Source) -> Iterator[list[Entry]]:
    chunk: list[Entry] = []
    size = 0
    for entry in entries:
        full = len(chunk) >= source.max_files_per_trigger or size + entry.size > source.max_bytes_per_trigger
        if chunk and full:
            yield chunk
            chunk, size = [], 0
        chunk.append(entry)
        size += entry.size
    if chunk:
        yield chunk
