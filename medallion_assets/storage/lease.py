"""One writer for each table, among all processes.

A lease is a lock of the operating system on a local disk, which ends with its process, and a series of
numbered claims (``claims``) in an object store, which needs only create-if-absent. Both are checked again
before a commit.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Protocol

from filelock import FileLock, Timeout

from medallion_assets.storage.claims import Claims
from medallion_assets.storage.locations import LOCAL, is_object, storage_of
from medallion_assets.storage.paths import ObjectPath

WAIT_SECONDS = 600.0
"""Longer than a usual refresh: a second run queues rather than fails."""


class TableBusy(RuntimeError):
    """Another run holds the table; nothing was read or written."""


class NoSoleUse(RuntimeError):
    """A lake in an object store was to be had alone; nothing was changed."""

    def __init__(self, lake: Path) -> None:
        """Name the lake, and what to do instead."""
        super().__init__(
            f"cleanup cannot remove files of the lake {lake}: no lock in an object store keeps runs away "
            "while it works. Nothing was changed: `medallion reset TABLE --yes` deletes a table with all "
            "that is made from it; once nothing runs, the store's own tools delete what is left there."
        )


class LeaseLost(RuntimeError):
    """Another run took over the table while this one was paused; the batch was not committed."""


class Lease(Protocol):
    """The right to be the only writer of something.

    Attributes:
        number: The fencing number: each holder's is greater than that of every holder before. 0 on a local
            disk, where no other process can take over from one that is alive.
    """

    number: int

    def still_held(self) -> bool:
        """Return true where no other process took over; asks the store each time."""


class _LocalLock:
    number = 0

    def __init__(self, folder: Path) -> None:
        self.folder, self.lock = folder, FileLock(folder / "lock")

    def take(self, wait_seconds: float) -> bool:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.lock.acquire(timeout=wait_seconds)
        except Timeout:
            return False
        self.file = self._file()
        LOCAL.put(str(self.folder / "holder.json"), _me())
        return True

    def still_held(self) -> bool:
        # Whoever deletes the file lets another process lock a new one.
        return self.file is not None and self._file() == self.file

    def release(self) -> None:
        self.lock.release()

    def holder(self) -> bytes:
        return (self.folder / "holder.json").read_bytes()

    def _file(self) -> tuple[int, int] | None:
        try:
            facts = (self.folder / "lock").stat()
        except FileNotFoundError:
            return None
        return facts.st_dev, facts.st_ino


_HELD: ContextVar[tuple[Lease, ...]] = ContextVar("leases of this run", default=())


@contextmanager
def held(folder: Path | str, what: str, wait_seconds: float = WAIT_SECONDS) -> Iterator[Lease]:
    """Hold the lease kept in ``folder`` for as long as the block runs.

    Raises:
        TableBusy: Another process held it all the time; the message names it. Nothing was written.
    """
    lease = _lease_in(folder)
    if not lease.take(wait_seconds):
        raise TableBusy(
            f"{what} is being written by {_named(lease)} and was still after {wait_seconds:.0f} s. "
            "Nothing was read or written; run again when that one has ended."
        )
    before = _HELD.get()
    _HELD.set((*before, lease))
    try:
        yield lease
    finally:
        _HELD.set(before)
        lease.release()


WRITERS = "_writers"
"""The file of a lake on which each writer holds a shared lock."""


@contextmanager
def open_to_writers(lake: Path, alone: bool = False) -> Iterator[None]:
    """Hold a lake's lock while the block runs: shared with other writers, or exclusively.

    Writers wait for an exclusive holder.

    In an object store nobody can hold all writers off: there each table's own lease keeps others away.

    Raises:
        TableBusy: An exclusive lock was requested while a writer is active; nothing was changed.
        NoSoleUse: An exclusive lock was requested of a lake in an object store; nothing was changed.
    """
    if isinstance(lake, ObjectPath):
        if alone:
            raise NoSoleUse(lake)
        yield
        return
    with _writers_file(lake, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH):
        try:
            yield
        finally:
            if alone:
                LOCAL.delete(str(lake / WRITERS))


def _writers_file(lake: Path, kind: int) -> IO[bytes]:
    """Return the lake's file of writers, locked, though the one before may just have been deleted."""
    while True:
        lake.mkdir(parents=True, exist_ok=True)
        try:
            file = (lake / WRITERS).open("ab")
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(file, kind)
        except BlockingIOError as error:
            file.close()
            raise TableBusy(
                f"a run is at work in the lake {lake}. Nothing was changed: wait until it has ended."
            ) from error
        if _is_at(file.fileno(), lake / WRITERS):
            return file
        file.close()


def _is_at(descriptor: int, path: Path) -> bool:
    facts = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (facts.st_dev, facts.st_ino) == (there.st_dev, there.st_ino)


def check_held() -> None:
    """Raise where a lease of this run is no longer its own; called right before a commit.

    Raises:
        LeaseLost: Another process took over one of them.
    """
    if not all(lease.still_held() for lease in _HELD.get()):
        raise LeaseLost(
            "another run took this table over while this one was paused, or the lease's files were deleted. "
            "This batch was not committed, and nothing is lost: run again when the other one has ended."
        )


def is_held(folder: Path | str) -> bool:
    """Return true where a process holds the lease kept in ``folder`` now, or did so when it died."""
    lease = _lease_in(folder)
    if isinstance(lease, Claims):
        return lease.is_taken()
    if not (lease.folder / "lock").exists():
        return False
    try:
        lease.lock.acquire(timeout=0)
    except Timeout:
        return True
    lease.release()
    return False


def _lease_in(folder: Path | str) -> _LocalLock | Claims:
    if is_object(str(folder)):
        return Claims(str(folder), storage_of(str(folder)), _me())
    return _LocalLock(Path(folder))


def _me() -> bytes:
    return json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "since": time.time()}).encode()


def _named(lease: _LocalLock | Claims) -> str:
    try:
        found = json.loads(lease.holder())
        since = time.strftime("%H:%M:%S", time.gmtime(found["since"]))
        where = "" if found["host"] == os.uname().nodename else f" on {found['host']}"
        return f"process {found['pid']}{where} since {since} UTC"
    except (OSError, ValueError, KeyError):
        return "another process"
