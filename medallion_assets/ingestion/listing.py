"""What lies at a source: every file meant for loading, and why the others are not."""

import glob
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from medallion_assets.ingestion.ledger import Seen
from medallion_assets.ingestion.options import Source

LONG_AGO = datetime(1970, 1, 1, tzinfo=timezone.utc)
NEVER: Seen = (-1, -1, "")
NO_FILE = "not a regular file: a link could lead out of the landing zone"
NOT_UTF8 = "its name is not UTF-8"


@dataclass(frozen=True)
class Sighting:
    """A file as the listing shows it; ``refusal`` says why it can never be loaded as it is."""

    path: str
    size: int
    modified_at: datetime
    refusal: str = ""

    def is_as_in(self, known: Mapping[str, Seen]) -> bool:
        """True where the file is known as it is now."""
        as_it_was = known.get(self.path, NEVER)[:2]
        return as_it_was == (self.size, (self.modified_at - LONG_AGO) // timedelta(microseconds=1))


def unknown(location: Path, source: Source, known: Mapping[str, Seen]) -> Iterator[Sighting]:
    """Gives every file meant for loading that is not known as it is now, and other things of such names.

    ``location`` is a folder, a file, or a glob whose ``*``, ``?`` and ``[...]`` match within one part of the
    path and whose ``**`` matches any depth; a folder that exists under exactly that name comes first.
    Nothing there is nothing listed, no error.
    """
    window = _window(source)
    for entry in _entries(location, source):
        if source.takes(entry.name):
            found = entry.stat(follow_symlinks=False)
            # Known files are most, and are passed over before anything is made of them.
            if known.get(entry.path, NEVER)[:2] != (found.st_size, found.st_mtime_ns // 1000):
                seen = _sighting(entry.path, found)
                if window[0] < seen.modified_at < window[1] and not seen.is_as_in(known):
                    yield seen


def overlooked(location: Path, source: Source) -> Iterator[tuple[str, str]]:
    """Gives the path of every file that is not meant for loading, and the rule that says so."""
    window = _window(source)
    for entry in _entries(location, source, hidden=True):
        path = os.fsencode(entry.path).decode("utf-8", "backslashreplace")
        if why := source.passes_over(entry.name):
            yield path, why
        elif not window[0] < sighting(entry).modified_at < window[1]:
            yield path, "modified outside modified_after and modified_before"


def sighting(entry: "os.DirEntry[str] | Found") -> Sighting:
    """Gives a file as it lies there now."""
    return _sighting(entry.path, entry.stat(follow_symlinks=False))


def _sighting(name: str, found: os.stat_result) -> Sighting:
    # Whole microseconds: what Delta's timestamps hold.
    modified = LONG_AGO.fromtimestamp(found.st_mtime_ns // 1000 / 1e6, tz=timezone.utc)
    refusal = "" if stat.S_ISREG(found.st_mode) else NO_FILE
    path = os.fsencode(name).decode("utf-8", "backslashreplace")
    if path != name:
        refusal = NOT_UTF8
    return Sighting(path, found.st_size, modified, refusal)


@dataclass(frozen=True)
class Found:
    """A file named outright or by a glob, with what of ``os.DirEntry`` is needed."""

    path: str

    @property
    def name(self) -> str:
        """The file's own name."""
        return os.path.basename(self.path)  # noqa: PTH119 (Path would drop a trailing part)

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        """Gives the file's facts."""
        return os.stat(self.path, follow_symlinks=follow_symlinks)  # noqa: PTH116 (as os.DirEntry has it)


def _entries(location: Path, source: Source, hidden: bool = False) -> Iterator["os.DirEntry[str] | Found"]:
    if location.is_dir():
        yield from _below(str(location), source, hidden)
    elif location.is_symlink() or location.exists():
        yield Found(str(location))
    elif glob.has_magic(str(location)):
        for path in sorted(glob.iglob(str(location), recursive=True)):  # noqa: PTH207 (whole paths)
            if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
                yield from _below(path, source, hidden)
            else:
                yield Found(path)


def _below(folder: str, source: Source, hidden: bool) -> Iterator["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda e: e.name)
    for entry in found:
        if not entry.is_dir(follow_symlinks=False):
            yield entry
        elif source.recursive_file_lookup and (hidden or not entry.name.startswith(("_", "."))):
            yield from _below(entry.path, source, hidden)


def _window(source: Source) -> tuple[datetime, datetime]:
    after = _time(source.modified_after) if source.modified_after else LONG_AGO.replace(year=1)
    before = _time(source.modified_before) if source.modified_before else LONG_AGO.replace(year=9999)
    return after, before


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)
