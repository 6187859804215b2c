"""What lies at a source: every file meant for loading, and why the others are not."""

import math
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from medallion_assets.sources.counted_lines import tag_of
from medallion_assets.sources.ledger import Known
from medallion_assets.sources.options import Source
from medallion_assets.sources.walking import Named, entries

LONG_AGO = datetime(1970, 1, 1, tzinfo=timezone.utc)
NO_FILE = "not a regular file: a link could lead out of the landing zone"
NOT_UTF8 = "its name is not UTF-8"


@dataclass(frozen=True)
class FoundFile:
    """A file as the listing shows it; ``refusal`` says why it can never be loaded as it is.

    Attributes:
        path: Its name, relative to the landing zone's root.
        location: Where it lies.
    """

    path: str
    location: str
    size: int
    modified_at: datetime
    refusal: str = ""


@dataclass(frozen=True)
class Listing:
    """Files that are not known as they are now, and how many files meant for loading there are in all."""

    new: list[FoundFile]
    matched: int


def listing(
    location: Path,
    root: Path,
    source: Source,
    known: Mapping[str, Known],
    only: Collection[str] | None = None,
) -> Listing:
    """Return what is new among the files meant for loading, and other things of such names.

    Args:
        location: A folder, a file or a glob. Nothing there is nothing listed, no error.
        root: The folder that paths are relative to.
        source: Its filters; ``change_detection="content"`` compares bytes where size and time are known.
        known: What the ledger last saw of each path.
        only: Paths to look at alone; all where None.
    """
    after, before = _window(source)
    named, matched = namer(root), 0
    new: list[FoundFile] = []
    for entry in entries(location, source.recursive_file_lookup):
        if not source.takes(entry.name) or not (found := _facts(entry)):
            continue
        path = named(entry.path)
        if (only is not None and path not in only) or not after < found.st_mtime_ns // 1000 < before:
            continue
        matched += 1
        # Known files are most, and are passed over before anything is made of them.
        if not _is_known(entry.path, found, known.get(path), source):
            at, refusal = _modified(found), _refusal(entry.path, found)
            new.append(FoundFile(path, entry.path, found.st_size, at, refusal))
    return Listing(new, matched)


def _is_known(path: str, found: os.stat_result, known: Known | None, source: Source) -> bool:
    if known is None or known[:2] != (found.st_size, found.st_mtime_ns // 1000):
        return False
    if source.change_detection != "content" or not known.tag:
        return True
    try:
        return tag_of(Path(path)) == known.tag
    except OSError:
        return False


def overlooked(location: Path, root: Path, source: Source) -> Iterator[tuple[str, str]]:
    """Return the path of every file that is not meant for loading, and the rule that says so."""
    after, before = _window(source)
    named = namer(root)
    for entry in entries(location, source.recursive_file_lookup, hidden=True):
        if why := source.passes_over(entry.name):
            yield named(entry.path), why
        elif (found := _facts(entry)) and not after < found.st_mtime_ns // 1000 < before:
            yield named(entry.path), "modified outside modified_after and modified_before"


def namer(root: Path) -> Callable[[str], str]:
    """Return the function that names a path relative to the root, as text any table can hold."""
    below = f"{root}".rstrip("/") + "/"

    def named(path: str) -> str:
        name = path[len(below) :] if path.startswith(below) else os.path.relpath(path, root)
        return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")

    return named


def _facts(entry: "os.DirEntry[str] | Named") -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # It went, or got its last name, since the folder was listed.
        return None


def _modified(found: os.stat_result) -> datetime:
    # Whole microseconds: what Delta's timestamps hold.
    return LONG_AGO.fromtimestamp(found.st_mtime_ns // 1000 / 1e6, tz=timezone.utc)


def _refusal(path: str, found: os.stat_result) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        return NOT_UTF8
    return "" if stat.S_ISREG(found.st_mode) else NO_FILE


def _window(source: Source) -> tuple[float, float]:
    """Return the exclusive bounds of modification times, in microseconds since 1970."""
    after = _microseconds(source.modified_after) if source.modified_after else -math.inf
    before = _microseconds(source.modified_before) if source.modified_before else math.inf
    return after, before


def _microseconds(text: str) -> int:
    found = datetime.fromisoformat(text)
    at = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
    return (at - LONG_AGO) // timedelta(microseconds=1)
