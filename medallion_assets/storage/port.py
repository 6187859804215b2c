"""The storage port: the operations of a folder on a local disk and of a prefix in an object store.

Paths are text: absolute paths for a local disk, ``scheme://bucket/key`` for an object store.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import BinaryIO, NamedTuple

LONG_AGO = datetime(1970, 1, 1, tzinfo=timezone.utc)
FILE, FOLDER, LINK, OTHER = "file", "folder", "link", "other"
UNNAMED = "unnamed"
"""The kind of an object whose name no reader can ask for; ``path`` and ``name`` show it with escapes."""


class StorageUnreachable(RuntimeError):
    """An object store did not answer. Not an ``OSError``: nothing is known of the file that was asked for."""


class Stored(NamedTuple):
    """The metadata of one path in a store.

    Attributes:
        path: As every method of the store takes it.
        name: Its last part.
        kind: ``file``, ``folder``, ``link``, ``unnamed``, or ``other`` (sockets, pipes, devices).
        size: Bytes.
        modified_at: Microseconds since 1970.
        tag: The store's own version tag, which changes with the contents; empty where it has none.
    """

    path: str
    name: str
    kind: str
    size: int = 0
    modified_at: int = 0
    tag: str = ""

    @property
    def time(self) -> datetime:
        """When it was modified."""
        return LONG_AGO + timedelta(microseconds=self.modified_at)


def microseconds(time: datetime) -> int:
    """Return a time in microseconds since 1970: what Delta's timestamps hold."""
    return (time - LONG_AGO) // timedelta(microseconds=1)


def every_name(_: str) -> bool:
    """Return true."""
    return True


class Storage(ABC):
    """One store. No method follows a link, except ``stat`` on request."""

    @abstractmethod
    def list(self, folder: str, takes: Callable[[str], bool] = every_name) -> Iterator[Stored]:
        """Return the direct subfolders of a folder, and other entries whose name ``takes`` accepts, by name.

        Args:
            folder: Nothing is returned where it does not exist.
            takes: Called with the names of all but folders; the others cost no more than their name.

        Raises:
            PermissionError: The folder may not be listed.
        """

    @abstractmethod
    def list_after(self, folder: str, path: str) -> Iterator[Stored]:
        """Return every file below a folder, at any depth, whose path comes after another in byte order."""

    @abstractmethod
    def stat(self, path: str, follow: bool = False) -> Stored | None:
        """Return the metadata of a path, None where nothing exists; ``follow`` resolves a link.

        Raises:
            PermissionError: The path may not be accessed.
        """

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """Return a file's bytes, readable from any position; in an object store of one version throughout.

        Raises:
            FileNotFoundError: There is no such file.
            PermissionError: It may not be read.
        """

    @abstractmethod
    def create(self, path: str, content: bytes | BinaryIO) -> bool:
        """Create a file with its whole content, and the folders above it; return false where it exists.

        Of any number of concurrent callers, exactly one gets true.
        """

    @abstractmethod
    def put(self, path: str, content: bytes | BinaryIO) -> None:
        """Write a file over any other: a reader sees the old or the new one, whole."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; nothing where there is none."""
