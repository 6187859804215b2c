"""Ten new objects among a million known ones, found by listing, by names in order and by events.

    python -m benchmarks.discovery_in_store [OBJECTS] [SECONDS]

A store in memory has OBJECTS (1,000,000) in folders of a thousand, and answers a request after SECONDS (0.05,
about what S3 takes for a page of a thousand names). The ledger, in commits of 100,000, knows them and is
compacted as by ``maintain``. The queue of events is in memory, too: its requests are not measured.
"""

import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
from deltalake import write_deltalake

from benchmarks.discovery import resident
from medallion_assets.operations.maintain import _tidy_ledger
from medallion_assets.sources import Source, discover, looks
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.file_events import Message, objects_of
from medallion_assets.sources.walking import entries
from medallion_assets.storage import storage_of

ROUNDS, NEW, IN_A_FOLDER, IN_A_COMMIT = 5, 10, 1000, 100_000
LISTED = Source("clicks", "json", recursive_file_lookup=True)
AFTER = replace(LISTED, use_incremental_listing=True)
EVENTS = replace(LISTED, file_events="https://sqs/1/clicks")


def main(objects: int = 1_000_000, seconds: float = 0.05) -> None:
    """Print what each kind of look takes."""
    zone = f"memory://{uuid.uuid4().hex}/zone"
    made = iter(range(10**9))
    for _ in range(objects):
        put(zone, next(made))
    queue = _Queue()
    setattr(looks, "Queue", lambda _: queue)  # noqa: B010
    setattr(looks, "IN_S3", "memory://")  # noqa: B010
    setattr(looks, "objects_of", in_memory)  # noqa: B010
    with tempfile.TemporaryDirectory(prefix="discovery-") as place:
        ledger = Path(place) / "ledger"
        fill(ledger, zone)
        _tidy_ledger(ledger, 0)
        print(f"{objects} objects known, {resident()} MB", flush=True)
        _answer_after(seconds)
        alone = shown("listing alone", lambda: sum(1 for _ in entries(zone, True)))
        for words, source in (("listing", LISTED), ("names in order", AFTER), ("events", EVENTS)):
            if source is not LISTED:
                discover(zone, ledger, source)

            def look(source: Source = source) -> None:
                for number in [next(made) for _ in range(NEW)]:
                    queue.send(put(zone, number))
                assert discover(zone, ledger, source).admitted == NEW

            took = shown(f"look by {words}", look)
            print(f"    {took / alone:.2f} of listing alone, {resident()} MB", flush=True)


def put(zone: str, number: int) -> str:
    """Write an object; return its address."""
    path = f"{zone}/{number // IN_A_FOLDER:07d}/{number:010d}.json"
    obstore.put(storage_of(zone).store, path.split("/", 3)[3], b'{"n": 1}\n')  # type: ignore[attr-defined]
    return path


def fill(ledger: Path, zone: str) -> None:
    """Write a ledger that knows every object of the zone."""
    found = [(f.path[len(zone) + 1 :], f.size, f.modified_at) for f in entries(zone, True)]
    for version, first in enumerate(range(0, len(found), IN_A_COMMIT)):
        part = found[first : first + IN_A_COMMIT]
        path, size, at = (pa.array(column) for column in zip(*part, strict=True))
        number, at = len(part), at.cast(pa.timestamp("us", "UTC"))
        same = [pa.array([value] * number) for value in ("", 1, "lines", "", "admitted", "")]
        order = pa.array(range(version * ledgers.STEP, version * ledgers.STEP + number))
        columns = [path, size, at, *same, at, order, pa.array([ledgers.NONE] * number)]
        rows = pa.table(columns, ledgers.COLUMNS)
        write_deltalake(str(ledger), rows, mode="append", target_file_size=ledgers.ONE_FILE)


def in_memory(body: str) -> list[str]:
    """Return the objects a message names, as those of the store in memory."""
    return [name.replace("s3:", "memory:") for name in objects_of(body)]


class _Queue:
    def __init__(self) -> None:
        self.messages: list[Message] = []

    def send(self, path: str) -> None:
        bucket, key = path.split("/", 3)[2:]
        record = {"s3": {"bucket": {"name": bucket}, "object": {"key": key}}}
        self.messages.append(Message(path, "", json.dumps({"Records": [record]})))

    def receive(self) -> list[Message]:
        return self.messages

    def acknowledge(self, _: Any) -> None:
        self.messages = []


def _answer_after(seconds: float) -> None:
    """Let every request to the store take so long."""

    def late(asks: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*given: Any, **named: Any) -> Any:
            time.sleep(seconds)
            return asks(*given, **named)

        return asked

    for name in ("list", "list_with_delimiter", "head", "get"):
        setattr(obstore, name, late(getattr(obstore, name)))


def shown(words: str, what: Callable[[], object]) -> float:
    """Do it a few times; print the medians of its seconds and of its processor time, and return the first."""
    times, worked = [], []
    for _ in range(ROUNDS):
        began, before = time.monotonic(), time.process_time()
        what()
        times.append(time.monotonic() - began)
        worked.append(time.process_time() - before)
    took, busy = statistics.median(times), statistics.median(worked)
    print(
        f"{words}: {took:.2f} s ({min(times):.2f} to {max(times):.2f}), {busy:.2f} s of processor", flush=True
    )
    return took


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((int, float), sys.argv[1:], strict=False)))
