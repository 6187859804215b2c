"""Discover new files, count their records without a JVM, and write them to the ledger."""

import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from medallion_assets.delta import log
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources import looks
from medallion_assets.sources.counted_lines import Contents, tag_of
from medallion_assets.sources.counting import contents
from medallion_assets.sources.errors import FolderDenied, SourceMissing, UnreadableFile
from medallion_assets.sources.known_files import known_files
from medallion_assets.sources.ledger import (
    ADMITTED,
    CHANGED,
    DENIED,
    NONE,
    REFUSED,
    SKIPPED,
    UNCHANGED,
    Entry,
    Known,
)
from medallion_assets.sources.listing import FoundFile, Listing, listing, namer
from medallion_assets.sources.options import Source
from medallion_assets.sources.walking import is_there
from medallion_assets.storage import is_object, is_still
from medallion_assets.storage.copies import local_copy

OVERWRITTEN = "overwritten after it was taken: its first contents stay loaded"
LAY_THERE = "it lay there at the first look, and include_existing_files is false"
SAME = "the same bytes as were taken before"
FORBIDDEN = "the user this runs as may not read it"

NOTHING = Contents("", 0, "")

AT_ONCE, OBJECTS_AT_ONCE = 2, 16
"""Files counted in parallel; some readers hold a whole file in memory, and an object is waited for."""

SMALL = 1 << 20
"""Bytes of an object that many are counted of in parallel."""


@dataclass(frozen=True)
class DiscoveryResult:
    """The entries that one discovery added to a ledger.

    Attributes:
        admitted: Files to load; ``records`` is the number of their records.
        refused: Files recorded with another status.
        matched: Files that match the source's filters, known or not.
    """

    admitted: int
    refused: int
    records: int
    matched: int


@dataclass(frozen=True)
class DiscoveryOptions:
    """Options of a discovery.

    Attributes:
        settle_seconds: A younger file may still be being written: it waits for a later discovery.
        only: The paths below the source to check; all where None.
        again: True to admit files again that were admitted before.
        must_exist: True to raise for a missing source at the first discovery, too.
    """

    settle_seconds: float = 0
    only: Collection[str] | None = None
    again: bool = False
    must_exist: bool = False


@dataclass(frozen=True)
class Look:
    """A listing with its context: the root of its paths, new files oldest first, and known files.

    ``young`` are files that wait to settle, ``scope`` what was listed.
    """

    root: str
    new: list[FoundFile]
    found: Listing
    known: Mapping[str, Known]
    young: list[FoundFile]
    scope: looks.Scope


def unseen_files(
    location: Path | str, ledger: Path, source: Source, options: DiscoveryOptions | None = None
) -> list[FoundFile]:
    """Return the files the ledger does not know as they are now, oldest first; writes nothing.

    Raises:
        SourceMissing: The source was removed, or does not exist and ``must_exist`` is set.
    """
    return _look(location, ledger, source, options or DiscoveryOptions()).new


def discover(
    location: Path | str, ledger: Path, source: Source, options: DiscoveryOptions | None = None
) -> DiscoveryResult:
    """Add new files of a source to its ledger, one commit for each future micro-batch.

    File events are acknowledged after that.

    Raises:
        SourceMissing: The source was removed, or does not exist and ``must_exist`` is set.
        FolderDenied: A folder may not be listed.
        QueueUnreachable: The queue of file events does not answer.
    """
    options = options or DiscoveryOptions()
    first = not log.exists(ledger)
    look = _look(location, ledger, source, options, takes_events=True)
    entries = _entries(look, ledger, source, options)
    if first and not source.include_existing_files:
        # One commit, even if it is empty: it separates later files from those of the first discovery.
        ledgers.append(ledger, entries, look.root)
    else:
        for chunk in _chunks(entries, source):
            ledgers.append(ledger, chunk, look.root)
    if options.only is None and not options.again:
        taken = {entry.path for entry in entries}
        held = [f.stored.path for f in (*look.new, *look.young) if f.path not in taken]
        late = looks.late_names(look.scope, sorted(f.stored.path for f in look.new))
        scope = replace(look.scope, notices=[*look.scope.notices, *late])
        looks.finish(ledger, source, scope, look.found.seen, held)
    admitted = [e for e in entries if e.status == ADMITTED]
    records = sum(e.records for e in admitted)
    return DiscoveryResult(len(admitted), len(entries) - len(admitted), records, look.found.matched)


def entries_of(location: Path | str, ledger: Path, source: Source, options: DiscoveryOptions) -> list[Entry]:
    """Return the ledger rows a look would add, oldest file first; writes nothing."""
    return _entries(_look(location, ledger, source, options), ledger, source, options)


def _look(
    location: Path | str, ledger: Path, source: Source, options: DiscoveryOptions, takes_events: bool = False
) -> Look:
    try:
        root = ledgers.root_of(location, ledger)
        seen_before = log.exists(ledger)
        # A prefix whose objects were all taken away is no folder that went.
        emptied = seen_before and is_object(str(location))
        if (options.must_exist or seen_before) and not emptied and not is_there(location):
            raise SourceMissing(source.name, str(location), seen_before)
    except PermissionError as denied:
        raise FolderDenied(str(location)) from denied
    chosen = options.again or options.only is not None
    scope = looks.Scope() if chosen else looks.scope_of(location, ledger, source, takes_events)
    named = namer(root)
    paths = None if scope.among is None else [named(path) for path in scope.paths]
    known = known_files(ledger, root, source.change_detection == "content", paths)
    found = listing(location, root, source, {} if options.again else known, options.only, scope.among)
    wait = options.settle_seconds if source.settle_seconds is None else source.settle_seconds
    if not seen_before and not source.include_existing_files:
        wait = 0.0
    settled = time.time() - wait
    ripe = [f for f in found.new if not wait or f.modified_at.timestamp() <= settled]
    young = [f for f in found.new if wait and f.modified_at.timestamp() > settled]
    new = sorted(ripe, key=lambda f: (f.modified_at, f.path))
    return Look(root, new, found, known, young, scope)


def _entries(look: Look, ledger: Path, source: Source, options: DiscoveryOptions) -> list[Entry]:
    if not source.include_existing_files and not log.exists(ledger):
        return [_noted(found, look, SKIPPED, LAY_THERE) for found in look.new]
    known = {f.path: look.known[f.path].admitted for f in look.new if f.path in look.known}
    before = ledgers.entries_at(ledger, {sequence for sequence in known.values() if sequence != NONE})

    def entry(found: FoundFile) -> Entry | None:
        return _entry(found, look, source, before.get(known.get(found.path, NONE)), options.again)

    # Python waits for the hash of one file's bytes while it counts another's lines.
    are_small = is_object(look.root) and all(found.size <= SMALL for found in look.new)
    with ThreadPoolExecutor(OBJECTS_AT_ONCE if are_small else AT_ONCE) as threads:
        return [made for made in threads.map(entry, look.new) if made]


def _entry(
    found: FoundFile, look: Look, source: Source, before: dict[str, object] | None, again: bool
) -> Entry | None:
    """Return the ledger entry of a file, None where the file changes while it is read.

    Args:
        found: The file.
        look: The listing with its context.
        source: How it is read.
        before: The ledger's entry of the contents that were admitted last.
        again: True to admit it although nothing changed.
    """
    if found.refusal:
        return _noted(found, look, REFUSED, found.refusal)
    try:
        with local_copy(found.stored.path) as path:
            tag = tag_of(path) if before and not again else ""
            if before and tag and tag == before["tag"]:
                made = _noted(found, look, UNCHANGED, SAME, Contents(tag, 0, ""))
            elif before and tag and before["records"] and source.allow_overwrites == "ignore":
                made = _noted(found, look, CHANGED, OVERWRITTEN, Contents(tag, 0, ""))
            else:
                made = _noted(found, look, ADMITTED, inside=contents(path, source))
    except PermissionError:
        return _noted(found, look, DENIED, FORBIDDEN)
    except (UnreadableFile, OSError) as problem:
        return _noted(found, look, REFUSED, str(problem))
    # A file that changed while it was counted is still being written: it waits for a later discovery.
    is_whole = is_still(found.stored.path, found.size, found.modified_at, found.stored.tag)
    return made if is_whole else None


def _noted(found: FoundFile, look: Look, status: str, reason: str = "", inside: Contents = NOTHING) -> Entry:
    """Return the ledger entry of a file with its status."""
    known = look.known.get(found.path)
    facts = (inside.tag, inside.records, inside.layout, inside.header, status, reason)
    now, before = datetime.now(timezone.utc), known.admitted if known else NONE
    return Entry(found.path, found.size, found.modified_at, *facts, now, supersedes=before, root=look.root)


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
