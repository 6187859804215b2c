"""Every entry at a location, each once and never through a link."""

import glob
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from medallion_assets.settings import SCHEME
from medallion_assets.sources.errors import FolderDenied, SourceError
from medallion_assets.storage import FOLDER, LINK, Stored, every_name, is_object, storage_of

DEEPER = "**"
HIDDEN = ("_", ".")
Takes = Callable[[str], bool]

LISTED_AT_ONCE = 16
"""Folders of an object store that are listed side by side: the answer to a request is waited for."""


class Tree(Protocol):
    """What a walk asks of a store; each method as in ``Storage``."""

    def list(self, folder: str, takes: Takes = every_name) -> Iterator[Stored]: ...  # noqa: D102

    def stat(self, path: str, follow: bool = False) -> Stored | None: ...  # noqa: D102


class NamedFiles:
    """Objects whose facts are known, as a store that has no others: a walk over it asks no store."""

    def __init__(self, files: Iterable[Stored]) -> None:
        """Take the objects, in any order."""
        self._files = {file.path: file for file in files}
        self._below: dict[str, dict[tuple[str, str], Stored]] = {}
        for file in self._files.values():
            child, folder = file, file.path.rpartition("/")[0]
            while not folder.endswith(":/"):
                inside = self._below.setdefault(folder, {})
                if (child.name, child.kind) in inside:
                    break
                inside[child.name, child.kind] = child
                above, _, name = folder.rpartition("/")
                child, folder = Stored(folder, name, FOLDER), above

    def list(self, folder: str, takes: Takes = every_name) -> Iterator[Stored]:
        """Return the folder's subfolders, and the objects whose names are taken, by name."""
        inside = sorted(self._below.get(folder, {}).values(), key=lambda f: (f.name, f.kind != FOLDER))
        yield from (found for found in inside if found.kind == FOLDER or takes(found.name))

    def stat(self, path: str, follow: bool = False) -> Stored | None:
        """Return an object, or the folder that the path is."""
        is_folder = path in self._below
        return self._files.get(path) or (Stored(path, path.rpartition("/")[2], FOLDER) if is_folder else None)


def folder_of(location: Path | str) -> str:
    """Return the folder a source lies in: itself, the one before a glob's first sign, or a file's own."""
    path = str(location)
    if _is_folder(path):
        return path
    if storage_of(path).stat(path):
        return path.rpartition("/")[0]
    return _before_magic(path) if glob.has_magic(path) else path


def is_there(location: Path | str) -> bool:
    """Return true where the source's folder or file is there, for a glob the folder before its first sign."""
    path = str(location)
    if glob.has_magic(path) and not storage_of(path).stat(path):
        path = _before_magic(path)
    return storage_of(path).stat(path) is not None


def location_of(text: str) -> Path | str:
    """Return the address in an object store that a source's path names, or the absolute local path.

    Raises:
        SourceError: It is a URI of an unknown kind.
    """
    return text.rstrip("/") if is_object(text) else local_path(text)


def local_path(text: str) -> Path:
    """Return the absolute path that a path or ``file:`` URI names.

    Raises:
        SourceError: It is a URI of another kind.
    """
    scheme = SCHEME.match(text)
    if scheme and scheme[1].lower() != "file":
        raise SourceError(
            f"{text!r} is a {scheme[1]}: address. Nothing was read: give the path of a folder, a file or a "
            "glob, a file: URI, or for files to load s3://, gs:// or abfss:// with bucket and prefix."
        )
    path = re.sub("^/*(?=/)", "", text[len("file:") :]) if scheme else text
    return Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 (resolve would follow links)


def _is_folder(path: str) -> bool:
    found = storage_of(path).stat(path, follow=True)
    return found is not None and found.kind == FOLDER


def fixed_part(location: Path | str) -> str:
    """Return the path that everything at a location is or lies below; no store is asked."""
    path = str(location)
    return _before_magic(path) if glob.has_magic(path) else path.rstrip("/")


def _before_magic(path: str) -> str:
    parts = path.split("/")
    first = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    return "/".join(parts[:first]) or "/"


def entries(
    location: Path | str,
    recursive: bool,
    takes: Takes = every_name,
    hidden: bool = False,
    among: Tree | None = None,
) -> Iterator[Stored]:
    """Return everything but folders at a location whose name is taken, in the order of names.

    Args:
        location: A folder, a file, or a glob whose ``*``, ``?`` and ``[...]`` match within one part of the
            path and whose ``**`` matches any depth; a folder of exactly that name comes first. Links before
            a glob's first sign are the user's own and are followed; below it a link to a folder is given
            as the entry it is.
        recursive: Looks into folders below, too.
        takes: Says which names are taken; the others are not looked at.
        hidden: Looks into folders whose names start with ``_`` or ``.``, too.
        among: What lies there; what the location's store says where None.

    Raises:
        FolderDenied: A folder may not be listed.
    """
    path = str(location)
    # A local disk answers at once, and threads of Python take turns.
    at_once = LISTED_AT_ONCE if is_object(path) and among is None else 0
    walk = _Walk(among or storage_of(path), recursive, takes, hidden, at_once)
    try:
        at_path = walk.storage.stat(path, follow=True)
        if at_path is not None and at_path.kind == FOLDER:
            yield from walk.below(path)
        elif found := walk.storage.stat(path):
            yield from [found] if takes(found.name) else []
        elif glob.has_magic(path):
            fixed = _before_magic(path)
            # `**` finds a folder and, by itself, what is in it.
            given: set[str] = set()
            for entry in walk.matching(fixed, path[len(fixed) :].strip("/").split("/")):
                if entry.path not in given:
                    given.add(entry.path)
                    yield entry
    except PermissionError as denied:
        raise FolderDenied(denied.filename or str(denied)) from denied


@dataclass(frozen=True)
class _Walk:
    storage: Tree
    recursive: bool
    takes: Takes
    hidden: bool
    at_once: int

    def below(self, folder: str) -> Iterator[Stored]:
        if not self.at_once or not self.recursive:
            yield from self._below(self.storage.list(folder, self.takes))
            return
        threads = ThreadPoolExecutor(self.at_once)
        try:
            yield from self._below(self.storage.list(folder, self.takes), threads)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _below(self, found: Iterable[Stored], threads: ThreadPoolExecutor | None = None) -> Iterator[Stored]:
        found = [*found] if threads else found
        ahead = self._listed((e.path for e in found if self._enters(e)), threads) if threads else None
        for entry in found:
            if entry.kind != FOLDER:
                yield entry
            elif self._enters(entry):
                inside = next(ahead) if ahead else self.storage.list(entry.path, self.takes)
                yield from self._below(inside, threads)

    def _enters(self, entry: Stored) -> bool:
        return entry.kind == FOLDER and self.recursive and (self.hidden or not entry.name.startswith(HIDDEN))

    def _listed(self, folders: Iterable[str], threads: ThreadPoolExecutor) -> Iterator[list[Stored]]:
        """Yield what is in each folder, in order, with the next ones being listed meanwhile.

        No task waits for another, so that any number of these can share the threads.
        """
        waiting: deque[Future[list[Stored]]] = deque()
        for folder in folders:
            waiting.append(threads.submit(lambda path: [*self.storage.list(path, self.takes)], folder))
            if len(waiting) > 2 * self.at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def matching(self, folder: str, parts: Sequence[str]) -> Iterator[Stored]:
        """Return what a glob's parts match below a folder, and what is below the folders they match."""
        first, rest = parts[0], parts[1:]
        if first == DEEPER:
            yield from self.matching(folder, rest or ["*"])
        for entry in self.storage.list(folder, self.takes):
            inside = entry.kind == FOLDER
            if first == DEEPER:
                if inside and not entry.name.startswith(HIDDEN):
                    yield from self.matching(entry.path, parts)
            elif _fits(entry.name, first):
                if inside:
                    yield from self.matching(entry.path, rest) if rest else self.below(entry.path)
                elif not rest or entry.kind == LINK:
                    yield entry


def _fits(name: str, pattern: str) -> bool:
    """Return true where the pattern asks for it: a hidden name is asked for by its first sign alone."""
    return fnmatchcase(name, pattern) and (not name.startswith(HIDDEN) or name[0] == pattern[0])
