"""One writer a table, from whichever door: a lock the operating system frees when its holder dies."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from medallion_assets.delta.errors import TableBusy

WAIT_SECONDS = 600.0
"""Longer than a usual refresh: a second run queues rather than fails."""


@contextmanager
def held(folder: Path, what: str, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """Holds the lease kept in ``folder`` for as long as the block runs.

    Raises:
        TableBusy: Another process held it all the time; the message names it. Nothing was written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=wait_seconds)
    except Timeout as refused:
        raise TableBusy(
            f"{what} is being written by {_holder(folder)} and was still after {wait_seconds:.0f} s. "
            "Nothing was read or written; run again when that one has ended."
        ) from refused
    try:
        (folder / "holder.json").write_text(json.dumps({"pid": os.getpid(), "since": time.time()}))
        yield
    finally:
        lock.release()


def _holder(folder: Path) -> str:
    try:
        found = json.loads((folder / "holder.json").read_text())
        return f"process {found['pid']} since {time.strftime('%H:%M:%S', time.gmtime(found['since']))} UTC"
    except (OSError, ValueError, KeyError):
        return "another process"


def is_held(folder: Path) -> bool:
    """Return true where a process holds the lease kept in ``folder`` now."""
    if not (folder / "lock").exists():
        return False
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False
