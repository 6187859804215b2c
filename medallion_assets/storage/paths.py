"""Paths of the lake: on a local disk, or in an object store with those methods of ``Path`` the lake uses."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PosixPath
from stat import S_IFDIR, S_IFREG
from typing import IO, Any, NoReturn

from medallion_assets.storage.locations import OBJECTS, is_object, storage_of
from medallion_assets.storage.port import FILE, FOLDER, Stored

DELETED_AT_ONCE = 8
"""Objects that are deleted side by side: a request takes tens of milliseconds, whatever it asks for."""


class ObjectPath(PosixPath):
    """An address in an object store, ``scheme://bucket/key``, as a path whose files the storage port reads.

    Its text is the address, for Spark and ``deltalake``. Whatever asks for a path of this machine gets a
    TypeError, and so does whatever an object store cannot do (rename, link, lock), rather than a file in a
    local folder with the name of a scheme.
    """

    __slots__ = ()

    def __str__(self) -> str:
        """Return the address; of a part of one, its names."""
        first, *others = self.parts or ("",)
        return f"{first}//{'/'.join(others)}" if first.endswith(":") else super().__str__()

    def __fspath__(self) -> str:
        """Raise: no file of this machine has this path."""
        raise TypeError(f"{self} is an object's address and no path of this machine")

    def __truediv__(self, key: Any) -> Any:
        """Return the path of a name below, or the other path where that is an absolute one."""
        text = str(key)
        return path_of(text) if text.startswith("/") or is_object(text) else super().__truediv__(key)

    def stored(self) -> Stored | None:
        """Return the metadata of the object or prefix, None where nothing has this address."""
        return storage_of(str(self)).stat(str(self))

    def exists(self, **_: Any) -> bool:
        """Return true where an object or a prefix has this address."""
        return self.stored() is not None

    def is_dir(self, **_: Any) -> bool:
        """Return true where objects lie below."""
        return any(True for _ in self._entries())

    def is_file(self, **_: Any) -> bool:
        """Return true where an object has this address."""
        found = self.stored()
        return found is not None and found.kind == FILE

    def is_symlink(self) -> bool:
        """Return false: an object store has no links."""
        return False

    def stat(self, **_: Any) -> os.stat_result:
        """Return size and time of an object."""
        found = self.stored()
        if found is None:
            raise FileNotFoundError(str(self))
        at = found.modified_at / 1e6
        return os.stat_result(
            (S_IFREG if found.kind == FILE else S_IFDIR, 0, 0, 1, 0, 0, found.size, *[at] * 3)
        )

    def open(self, mode: str = "r", *_: Any, **__: Any) -> IO[Any]:  # type: ignore[override]
        """Return an object's bytes."""
        if mode != "rb":
            raise TypeError(f"{self} cannot be opened with mode {mode!r}: an object is written as a whole")
        return storage_of(str(self)).open(str(self))

    def read_bytes(self) -> bytes:
        """Return an object's bytes."""
        with self.open("rb") as content:
            return bytes(content.read())

    def read_text(self, encoding: str | None = None, *_: Any, **__: Any) -> str:
        """Return an object's text."""
        return self.read_bytes().decode(encoding or "utf-8")

    def write_bytes(self, data: Any) -> int:
        """Write an object, over any other: a reader sees the old or the new one, whole."""
        storage_of(str(self)).put(str(self), bytes(data))
        return len(data)

    def write_text(self, data: str, encoding: str | None = None, *_: Any, **__: Any) -> int:
        """Write an object, over any other: a reader sees the old or the new one, whole."""
        return self.write_bytes(data.encode(encoding or "utf-8"))

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Do nothing: a prefix is there with its first object."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete an object."""
        if not missing_ok and not self.is_file():
            raise FileNotFoundError(str(self))
        storage_of(str(self)).delete(str(self))

    def iterdir(self) -> Iterator["ObjectPath"]:  # type: ignore[override]
        """Return what lies directly below."""
        return (ObjectPath(found.path) for found in self._entries())

    def glob(self, pattern: str, **_: Any) -> Iterator["ObjectPath"]:  # type: ignore[override]
        """Return what a pattern matches: ``*`` and ``?`` within a name, ``**`` any number of prefixes."""
        return self._matches(pattern.split("/"))

    def rglob(self, pattern: str, **_: Any) -> Iterator["ObjectPath"]:  # type: ignore[override]
        """Return what a pattern matches at any depth."""
        return self._matches(["**", *pattern.split("/")])

    def absolute(self) -> "ObjectPath":
        """Return the address itself."""
        return self

    def resolve(self, strict: bool = False) -> "ObjectPath":
        """Return the address itself: there are no links."""
        return self

    def expanduser(self) -> "ObjectPath":
        """Return the address itself."""
        return self

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self}: an object store has no renames, links, empty folders and permissions")

    rename = replace = rmdir = touch = chmod = lchmod = symlink_to = hardlink_to = readlink = _refuse
    samefile = owner = group = _refuse

    def _entries(self) -> Iterator[Stored]:
        return storage_of(str(self)).list(str(self))

    def _matches(self, parts: Sequence[str]) -> Iterator["ObjectPath"]:
        first, rest = parts[0], parts[1:]
        if not any(sign in first for sign in "*?["):
            # No listing for a name that is known.
            below: ObjectPath = self / first
            if rest:
                yield from below._matches(rest)
            elif below.exists():
                yield below
            return
        if first == "**" and rest:
            yield from self._matches(rest)
        for entry in self._entries():
            found = ObjectPath(entry.path)
            if first == "**":
                if entry.kind == FOLDER:
                    yield from found._matches(parts)
            elif fnmatchcase(entry.name, first):
                if not rest:
                    yield found
                elif entry.kind == FOLDER:
                    yield from found._matches(rest)


def for_reader(path: Path) -> Path | IO[bytes]:
    """Return what a reader of files takes: a local path itself, or the opened bytes of an object."""
    return path.open("rb") if isinstance(path, ObjectPath) else path


def path_of(text: str) -> Path:
    """Return the path that a text names, on a local disk or in an object store."""
    return ObjectPath(text) if is_object(text) else Path(text)


def relative(path: Path | str, folder: Path) -> str:
    """Return a path as seen from a folder, so that both can move together; of another store its address."""
    text = str(path)
    ours, theirs = _bucket(str(folder)), _bucket(text)
    if ours != theirs:
        return text
    return os.path.relpath(text.removeprefix(ours), str(folder).removeprefix(ours))


def resolved(folder: Path, recorded: str) -> str:
    """Return the path that ``relative`` made a text of, seen from the same folder or where that is now."""
    if is_object(recorded):
        return recorded
    bucket = "" if recorded.startswith("/") else _bucket(str(folder))
    below = str(folder).removeprefix(bucket)
    return bucket + os.path.normpath(recorded if recorded.startswith("/") else f"{below}/{recorded}")


def _bucket(path: str) -> str:
    bucket = OBJECTS.match(path)
    return bucket[0] if bucket else ""


def remove_tree(folder: Path) -> None:
    """Delete a folder and all below it; nothing where there is none."""
    if not isinstance(folder, ObjectPath):
        shutil.rmtree(folder, ignore_errors=True)
        return
    storage = storage_of(str(folder))
    with ThreadPoolExecutor(DELETED_AT_ONCE) as threads:
        list(threads.map(storage.delete, (str(found) for found in _objects_below(folder))))


def _objects_below(folder: ObjectPath) -> Iterator[ObjectPath]:
    for entry in folder._entries():
        found = ObjectPath(entry.path)
        if entry.kind == FOLDER:
            yield from _objects_below(found)
        else:
            yield found


def scratch_of(state: Path) -> Path:
    """Return the folder for copies of a batch: a table's state where that is local, else one of this process.

    What lies there is of use to this process only.
    """
    if not isinstance(state, ObjectPath):
        return state
    return _scratch() / hashlib.sha256(str(state).encode()).hexdigest()[:16]


@cache
def _scratch() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="medallion-")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list["tempfile.TemporaryDirectory[str]"] = []
"""The folder of scratch copies: it goes with the process."""
