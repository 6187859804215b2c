"""What lies at a source: every file meant for loading, and why the others are not."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from medallion_assets.sources.ledger import Seen
from medallion_assets.sources.options import Source
from medallion_assets.sources.walking import Named, entries

LONG_AGO = datetime(1970, 1, 1, tzinfo=timezone.utc)
NEVER: Seen = (-1, -1, "")
NO_FILE = "not a regular file: a link could lead out of the landing zone"
NOT_UTF8 = "its name is not UTF-8"


@dataclass(frozen=True)
class FoundFile:
    """A file as the listing shows it; ``refusal`` says why it can never be loaded as it is."""

    path: str
    size: int
    modified_at: datetime
    refusal: str = ""


def unknown(location: Path, source: Source, known: Mapping[str, Seen]) -> Iterator[FoundFile]:
    """Return every file meant for loading that is not known as it is now, and other things of such names.

    ``location`` is a folder, a file or a glob. Nothing there is nothing listed, no error.
    """
    after, before = _window(source)
    for entry in entries(location, source.recursive_file_lookup):
        if source.takes(entry.name) and (found := _facts(entry)):
            path = _readable(entry.path)
            # Known files are most, and are passed over before anything is made of them.
            if known.get(path, NEVER)[:2] != (found.st_size, found.st_mtime_ns // 1000):
                seen = FoundFile(path, found.st_size, _modified(found), _refusal(entry.path, path, found))
                if after < seen.modified_at < before:
                    yield seen


def overlooked(location: Path, source: Source) -> Iterator[tuple[str, str]]:
    """Return the path of every file that is not meant for loading, and the rule that says so."""
    after, before = _window(source)
    for entry in entries(location, source.recursive_file_lookup, hidden=True):
        if why := source.passes_over(entry.name):
            yield _readable(entry.path), why
        elif (found := _facts(entry)) and not after < _modified(found) < before:
            yield _readable(entry.path), "modified outside modified_after and modified_before"


def _facts(entry: "os.DirEntry[str] | Named") -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # It went, or got its last name, since the folder was listed.
        return None


def _readable(name: str) -> str:
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def _modified(found: os.stat_result) -> datetime:
    # Whole microseconds: what Delta's timestamps hold.
    return LONG_AGO.fromtimestamp(found.st_mtime_ns // 1000 / 1e6, tz=timezone.utc)


def _refusal(name: str, readable: str, found: os.stat_result) -> str:
    if name != readable:
        return NOT_UTF8
    return "" if stat.S_ISREG(found.st_mode) else NO_FILE


def _window(source: Source) -> tuple[datetime, datetime]:
    after = _time(source.modified_after) if source.modified_after else LONG_AGO.replace(year=1)
    before = _time(source.modified_before) if source.modified_before else LONG_AGO.replace(year=9999)
    return after, before


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)
