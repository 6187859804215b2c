"""List the files of a source: those to load, and why the others are not loaded."""

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from medallion_assets.sources.counted_lines import tag_of
from medallion_assets.sources.ledger import Known
from medallion_assets.sources.options import Source
from medallion_assets.sources.walking import Tree, entries
from medallion_assets.storage import FILE, UNNAMED, Stored, microseconds
from medallion_assets.storage.copies import local_copy

NO_FILE = "not a regular file: a link could lead out of the landing zone"
NOT_UTF8 = "its name is not UTF-8"
ODD_NAME = "no reader can ask for its name, which has a control character or a part that is empty, . or .."


@dataclass(frozen=True)
class FoundFile:
    """A file of a listing.

    Attributes:
        path: Its name, relative to the landing zone's root.
        stored: Size, time and kind from its store.
    """

    path: str
    stored: Stored

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.stored.size

    @property
    def modified_at(self) -> datetime:
        """When it was modified."""
        return self.stored.time

    @property
    def refusal(self) -> str:
        """Why it can never be loaded unchanged, empty where it can."""
        try:
            self.stored.path.encode()
        except UnicodeEncodeError:
            return NOT_UTF8
        return {FILE: "", UNNAMED: ODD_NAME}.get(self.stored.kind, NO_FILE)


@dataclass(frozen=True)
class Listing:
    """New or changed files, and the number of all files to load.

    ``seen`` has address and time of each of these, where the source's names may be ordered.
    """

    new: list[FoundFile]
    matched: int
    seen: list[tuple[str, int]]


def listing(
    location: Path | str,
    root: Path | str,
    source: Source,
    known: Mapping[str, Known],
    only: Collection[str] | None = None,
    among: Tree | None = None,
) -> Listing:
    """Return the new or changed files, links and other entries that match the source's filters.

    Args:
        location: A folder, a file or a glob. A missing location gives an empty listing.
        root: The folder that paths are relative to.
        source: Its filters; ``change_detection="content"`` compares bytes where size and time are known.
        known: The ledger's newest state of each path.
        only: The paths to check; all where None.
        among: What lies there; what the location's store says where None.
    """
    after, before = _window(source)
    named, matched = namer(root), 0
    by_content = source.change_detection == "content"
    new: list[FoundFile] = []
    seen: list[tuple[str, int]] = []
    for entry in entries(location, source.recursive_file_lookup, source.takes, among=among):
        path = named(entry.path)
        if (only is not None and path not in only) or not after < entry.modified_at < before:
            continue
        matched += 1
        if source.use_incremental_listing:
            seen.append((entry.path, entry.modified_at))
        # Known files are most, and are passed over before anything is made of them.
        last = known.get(path)
        same = last is not None and last.size == entry.size and last.modified_at == entry.modified_at
        if not same or (by_content and _has_other_bytes(entry, last)):
            new.append(FoundFile(path, entry))
    return Listing(new, matched, seen)


def _has_other_bytes(entry: Stored, known: Known | None) -> bool:
    try:
        with local_copy(entry.path) as file:
            return bool(known and known.tag and tag_of(file) != known.tag)
    except OSError:
        return True


def overlooked(location: Path | str, root: Path | str, source: Source) -> Iterator[tuple[str, str]]:
    """Return the path of every file that is not meant for loading, and the rule that says so."""
    after, before = _window(source)
    named = namer(root)
    for entry in entries(location, source.recursive_file_lookup, hidden=True):
        if why := source.passes_over(entry.name):
            yield named(entry.path), why
        elif not after < entry.modified_at < before:
            yield named(entry.path), "modified outside modified_after and modified_before"


def namer(root: Path | str) -> Callable[[str], str]:
    """Return the function that names a path relative to the root, as text any table can hold."""
    below = f"{root}".rstrip("/") + "/"

    def named(path: str) -> str:
        name = path[len(below) :] if path.startswith(below) else os.path.relpath(path, root)
        return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")

    return named


def _window(source: Source) -> tuple[float, float]:
    """Return the exclusive bounds of modification times, in microseconds since 1970."""

    def bound(text: str, otherwise: float) -> float:
        at = datetime.fromisoformat(text) if text else None
        at = at.replace(tzinfo=at.tzinfo or timezone.utc) if at else None
        return microseconds(at) if at else otherwise

    return bound(source.modified_after, -math.inf), bound(source.modified_before, math.inf)
