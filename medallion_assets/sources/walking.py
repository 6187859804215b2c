"""Every entry at a location, each once and never through a link."""

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from medallion_assets.settings import SCHEME
from medallion_assets.sources.errors import FolderDenied, SourceError

DEEPER = "**"
HIDDEN = ("_", ".")


@dataclass(frozen=True)
class Named:
    """A file named outright, with what of ``os.DirEntry`` is needed."""

    path: str

    @property
    def name(self) -> str:
        """The file's own name."""
        return os.path.basename(self.path)  # noqa: PTH119 (Path would drop a trailing part)

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        """Return the file's facts."""
        return os.stat(self.path, follow_symlinks=follow_symlinks)  # noqa: PTH116 (as os.DirEntry has it)


def folder_of(location: Path) -> Path:
    """Return the folder a source lies in: itself, the one before a glob's first sign, or a file's own."""
    if location.is_dir():
        return location
    if location.is_symlink() or location.exists():
        return location.parent
    return _before_magic(location) if glob.has_magic(str(location)) else location


def is_there(location: Path) -> bool:
    """Return true where the source's folder or file is there, for a glob the folder before its first sign."""
    if location.is_symlink() or location.exists():
        return True
    return glob.has_magic(str(location)) and _before_magic(location).exists()


def local_path(text: str) -> Path:
    """Return the absolute path that a source's path or ``file:`` URI names.

    Raises:
        SourceError: It is a URI of another kind.
    """
    scheme = SCHEME.match(text)
    if scheme and scheme[1].lower() != "file":
        raise SourceError(
            f"{text!r} is a {scheme[1]}: address, and sources are read from local or mounted folders only. "
            "Nothing was read: give the path of a folder, a file or a glob, or a file: URI."
        )
    path = re.sub("^/*(?=/)", "", text[len("file:") :]) if scheme else text
    return Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 (resolve would follow links)


def _before_magic(location: Path) -> Path:
    return next(p for p in location.parents if not glob.has_magic(str(p)))


def entries(location: Path, recursive: bool, hidden: bool = False) -> Iterator["os.DirEntry[str] | Named"]:
    """Return everything but folders at a location, in the order of names.

    Args:
        location: A folder, a file, or a glob whose ``*``, ``?`` and ``[...]`` match within one part of the
            path and whose ``**`` matches any depth; a folder of exactly that name comes first. Links before
            a glob's first sign are the user's own and are followed; below it a link to a folder is given
            as the entry it is.
        recursive: Looks into folders below, too.
        hidden: Looks into folders whose names start with ``_`` or ``.``, too.

    Raises:
        FolderDenied: A folder may not be listed.
    """
    if location.is_dir():
        yield from _below(str(location), recursive, hidden)
    elif location.is_symlink() or location.exists():
        yield Named(str(location))
    elif glob.has_magic(str(location)):
        fixed = _before_magic(location)
        given: set[str] = set()
        for found in _matching(str(fixed), location.relative_to(fixed).parts):
            inside = found.is_dir(follow_symlinks=False)
            for entry in _below(found.path, recursive, hidden) if inside else [found]:
                # `**` finds a folder and, by itself, what is in it.
                if entry.path not in given:
                    given.add(entry.path)
                    yield entry


def _below(folder: str, recursive: bool, hidden: bool) -> Iterator["os.DirEntry[str]"]:
    for entry in _in_order(folder):
        if not entry.is_dir(follow_symlinks=False):
            yield entry
        elif recursive and (hidden or not entry.name.startswith(HIDDEN)):
            yield from _below(entry.path, recursive, hidden)


def _matching(folder: str, parts: tuple[str, ...]) -> Iterator["os.DirEntry[str]"]:
    first, rest = parts[0], parts[1:]
    if first == DEEPER:
        yield from _matching(folder, rest or ("*",))
    for entry in _in_order(folder):
        inside = entry.is_dir(follow_symlinks=False)
        if first == DEEPER:
            if inside and not entry.name.startswith(HIDDEN):
                yield from _matching(entry.path, parts)
        elif _fits(entry.name, first):
            if inside and rest:
                yield from _matching(entry.path, rest)
            elif not rest or entry.is_symlink():
                yield entry


def _fits(name: str, pattern: str) -> bool:
    """Return true where the pattern asks for it: a hidden name is asked for by its first sign alone."""
    return fnmatchcase(name, pattern) and (not name.startswith(HIDDEN) or name[0] == pattern[0])


def _in_order(folder: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda e: e.name)
    except PermissionError as denied:
        raise FolderDenied(folder) from denied
    except FileNotFoundError:
        # It went between being listed and being opened.
        return []
