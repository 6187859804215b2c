"""A lease made of numbered files, each created once: for stores whose one promise is create-if-absent.

The newest claim holds the lease. Its holder creates numbered beats beside it, and a last file when it ends.
Whoever sees no new beat for long enough, by its own steady clock, creates the next claim. No file is ever
written over and no clocks are compared. The newest claim is never deleted, so that numbers only grow: a
process that lists, pauses, and then creates an old number finds a newer one when it looks again.
"""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from medallion_assets.storage.port import Storage, StorageUnreachable, Stored

NAMES = re.compile(r"(\d{12})(?:\.(\d{12}|done))?")


@dataclass(frozen=True)
class Timing:
    """Seconds between beats, without a beat until another process takes over, and between two checks."""

    beat: float = 10.0
    expires: float = 60.0
    poll: float = 1.0


class Claim(NamedTuple):
    """A claim in the store: its number, its newest beat, and whether its holder has ended."""

    number: int
    beat: int
    is_done: bool


class Claims:
    """The claims in one folder, as one process sees and makes them."""

    def __init__(self, folder: str, storage: Storage, me: bytes, timing: Timing | None = None) -> None:
        """Use a folder in a store, and a text that describes this process."""
        self.folder, self.storage, self.me, self.timing = folder, storage, me, timing or Timing()
        self.number = 0
        self._stop = threading.Event()
        self._beating: threading.Thread | None = None

    def newest(self) -> Claim | None:
        """Return the newest claim, None where there never was one."""
        claims: dict[int, Claim] = {}
        for file in self._files():
            number, _, rest = file.name.partition(".")
            claim = claims.get(int(number), Claim(int(number), 0, False))
            done = rest == "done"
            claims[claim.number] = Claim(
                claim.number, max(claim.beat, 0 if done else int(rest or 0)), claim.is_done or done
            )
        return claims[max(claims)] if claims else None

    def take(self, wait_seconds: float) -> bool:
        """Wait until the lease is free or expired, and take it; return false where it stayed taken."""
        seen, since = self.newest(), time.monotonic()
        until, silent = since + wait_seconds, False
        while True:
            if (seen is None or seen.is_done or silent) and self.claim((seen.number if seen else 0) + 1):
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(min(self.timing.poll, max(0.0, until - time.monotonic())))
            # A look that began after the time was up: this process may have been paused itself.
            looking, found = time.monotonic(), self.newest()
            silent = found == seen and looking - since >= self.timing.expires
            if found != seen:
                seen, since = found, time.monotonic()

    def still_held(self) -> bool:
        """Return true where this process's claim is the newest."""
        found = self.newest()
        return found is not None and found.number == self.number and not found.is_done

    def is_taken(self) -> bool:
        """Return true where the newest claim's holder is not done."""
        found = self.newest()
        return found is not None and not found.is_done

    def release(self) -> None:
        """Let the next process in."""
        self.stop()
        # What was done under the lease is done; without this file the next process waits for it to expire.
        with suppress(OSError, StorageUnreachable):
            self.storage.create(self._path(f"{self.number:012d}.done"), b"")

    def stop(self) -> None:
        """Stop the beats, without releasing the lease."""
        self._stop.set()
        if self._beating:
            self._beating.join()

    def holder(self) -> bytes:
        """Return the description of the newest claim's process."""
        found = self.newest()
        with self.storage.open(self._path(f"{found.number if found else 0:012d}")) as claim:
            return claim.read()

    def claim(self, number: int) -> bool:
        """Create the claim of a number, and return true where it is the newest then."""
        if not self.storage.create(self._path(f"{number:012d}"), self.me):
            return False
        self.number = number
        # Created late, the number may be an old one that was cleared away.
        if not self.still_held():
            return False
        for file in self._files():
            if int(file.name[:12]) < number:
                self.storage.delete(file.path)
        self._stop.clear()
        self._beating = threading.Thread(target=self._beats, name="lease heartbeat", daemon=True)
        self._beating.start()
        return True

    def beat(self, number: int) -> None:
        """Create a beat and delete the one before the last."""
        self.storage.create(self._path(f"{self.number:012d}.{number:012d}"), b"")
        self.storage.delete(self._path(f"{self.number:012d}.{number - 2:012d}"))

    def _beats(self) -> None:
        number = 1
        while not self._stop.wait(self.timing.beat):
            # After a failure the same number again; without any for long enough another process takes over.
            with suppress(OSError, StorageUnreachable):
                self.beat(number)
                number += 1

    def _files(self) -> Iterator[Stored]:
        return self.storage.list(self.folder, lambda name: NAMES.fullmatch(name) is not None)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"
