"""Move or delete landing files after every table that reads them has committed them.

Every table that looks at a landing zone is registered in the lake, whichever pipeline or notebook it is of: a
small JSON file beside its lease names its ledger and its source, relative to itself.
"""

import hashlib
import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from itertools import chain, count
from pathlib import Path
from typing import Any

from medallion_assets.delta import log
from medallion_assets.delta.batches import read_json, write_json
from medallion_assets.settings import USERS, user_of
from medallion_assets.sources import file_status
from medallion_assets.sources.known_files import known_files
from medallion_assets.sources.ledger import CHANGED, SKIPPED, address, root_of
from medallion_assets.sources.listing import namer
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.options import Source
from medallion_assets.sources.walking import entries
from medallion_assets.storage import (
    is_still,
    move,
    path_of,
    put_back,
    relative,
    resolved,
    set_aside,
    storage_of,
)

READERS = "readers"
"""The folder of registered readers, in the state folder of a table."""


@dataclass(frozen=True)
class Reader:
    """A table that reads a landing zone.

    Attributes:
        ledger: Its ledger.
        location: The folder, file or glob it reads.
        pattern: The glob of file names; ``recursive`` includes the folders below.
        bad_records: The folder of its bad records files; empty for none.
    """

    ledger: Path
    location: Path | str
    pattern: str
    recursive: bool
    bad_records: str = ""

    @staticmethod
    def of(source: Source, location: Path | str, ledger: Path) -> "Reader":
        """Return the reader of a source and its ledger."""
        glob, deep, bad = source.path_glob_filter, source.recursive_file_lookup, source.bad_records_path
        return Reader(ledger, location, glob, deep, bad)

    def has_taken(self, paths: Collection[str]) -> set[str]:
        """Return the files among ``paths`` that the reader has committed or will never read."""
        begins = re.split(r"[*?\[]", str(self.location))[0]
        if not any(path.startswith(begins) for path in paths):
            # What a store far away holds is not asked for.
            return set(paths)
        found = entries(self.location, self.recursive, lambda name: fnmatchcase(name, self.pattern))
        reads = {entry.path: entry for entry in found if entry.path in paths}
        root = root_of(self.location, self.ledger)
        known, named = known_files(self.ledger, root), namer(root)
        seen = {path: known[named(path)] for path in reads if named(path) in known}
        became = file_status.of_entries(self.ledger, {k.admitted for k in seen.values()})
        loaded = {s for s, row in became.items() if row["status"] == file_status.LOADED}
        taken = {p for p, k in seen.items() if k.status in (CHANGED, SKIPPED) or k.admitted in loaded}
        return (set(paths) - reads.keys()) | {
            p for p in taken if (reads[p].size, reads[p].modified_at) == seen[p][:2]
        }


def register(reader: Reader, folder: Path) -> None:
    """Write down that a table reads a landing zone, so that no other table cleans it too early."""
    ledger = relative(reader.ledger, folder)
    said = {
        "ledger": ledger,
        "location": relative(reader.location, folder),
        "pattern": reader.pattern,
        "recursive": reader.recursive,
        "bad_records": reader.bad_records,
    }
    file = folder / f"{hashlib.sha256(ledger.encode()).hexdigest()[:16]}.json"
    if read_json(file) != said:
        write_json(file, said)


def readers_in(lake: Path) -> Iterator[Reader]:
    """Return every reader that is registered in a lake.

    Raises:
        ValueError: A reader's registration is unreadable until its table runs again.
    """
    for file in lake.glob(f"*/_state/*/*/{READERS}/*.json"):
        said = read_json(file)
        if said is None:
            raise ValueError(f"{file} is empty, cut off or altered")
        ledger, location = (resolved(file.parent, said[name]) for name in ("ledger", "location"))
        bad_records = said.get("bad_records", "")
        yield Reader(path_of(ledger), location, said["pattern"], said["recursive"], bad_records)


def lakes_beside(lake: Path) -> list[Path]:
    """Return the lakes in one folder with this one, itself among them: the shared one and each user's."""
    shared = lake.parent.parent if user_of(lake) else lake
    return [shared, *sorted(found for found in (shared / USERS).glob("*") if found.is_dir())]


def clean_source(place: LoadTarget, lake: Path, declared: Iterable[Reader] = ()) -> int:
    """Move or delete the files that are due, and record the status of each; return their number.

    A file is due where this table committed it longer than the retention ago, every other table of the lake
    (and of other users' lakes beside it) that reads it has too, and it still is as it was read. It is never
    looked at again.

    Args:
        place: The table, whose source says ``MOVE`` or ``DELETE``, the retention and where to.
        lake: The lake whose other readers are waited for.
        declared: Readers that may not have looked yet.
    """
    if place.source.clean_source == "OFF" or not (rows := _committed(place)):
        return 0
    root = place.root
    files = {address(root, row["path"]): row for row in rows}
    for path in files:
        put_back(path)
    due = {path for path, row in files.items() if _is_as_read(path, row)}
    registered = chain.from_iterable(readers_in(each) for each in lakes_beside(lake))
    try:
        readers = {reader.ledger: reader for reader in (*declared, *registered)}
    except ValueError as problem:
        message = "%s cleans nothing yet: %s; its own table writes it again when it runs next"
        logging.getLogger(__name__).warning(message, place.key, problem)
        return 0
    for reader in readers.values():
        if due and reader.ledger != place.ledger:
            due = reader.has_taken(due)
    archived = [
        row for path in files if path in due for row in _archived(path, files[path], place.source, root)
    ]
    file_status.add(place.ledger, archived)
    return len(archived)


def _committed(place: LoadTarget) -> list[dict[str, Any]]:
    """Return the newest rows of files loaded before the retention began, and not archived since."""
    cutoff = datetime.now(timezone.utc) - timedelta(days=place.source.clean_source_retention_days)
    archived = "SELECT sequence FROM t WHERE archive_time IS NOT NULL"
    condition = f"status = '{file_status.LOADED}' AND sequence NOT IN ({archived})"
    committed = f"SELECT * FROM t WHERE {condition} ORDER BY sequence, recorded"
    found = log.rows(file_status.outcomes_of(place.ledger), committed)
    newest = {row["path"]: row for row in found}
    return [row for row in newest.values() if row["commit_time"] <= cutoff]


def _is_as_read(path: str, row: dict[str, Any]) -> bool:
    return is_still(path, row["size"], row["create_time"])


def _archived(path: str, row: dict[str, Any], source: Source, root: str) -> Iterator[dict[str, Any]]:
    """Move or delete one file, and return its status row; nothing where it is no longer the file read.

    The other readers were asked meanwhile: what is at the path by now may be unread.
    """
    aside = set_aside(path, row["size"], row["create_time"])
    if not aside:
        return
    target = None
    if source.clean_source == "MOVE":
        wanted = path_of(source.clean_source_move_destination).expanduser() / os.path.relpath(path, root)
        # The wanted path, or a numbered one where that is taken.
        numbered = (wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}") for number in count(1))
        target = next(str(free) for free in chain([wanted], numbered) if move(aside, str(free)))
    else:
        storage_of(aside).delete(aside)
    archive = {"archive_time": datetime.now(timezone.utc), "archive_mode": source.clean_source}
    yield row | archive | {"move_location": target}
