"""The file ledger at sizes no landing zone of a test has: what a look asks of it, and its upkeep.

    python -m benchmarks.ledger [ENTRIES] [LOOKS]

A ledger of ENTRIES (10,000,000) is written in commits of 100,000, under names in no order: the worst case,
since statistics of names leave no file out. Ten names are looked up before and after ``maintain``.
Then LOOKS (1,000) commits of a thousand entries are added, and names are looked up again, before and after
the next ``maintain``. No file is landed: what is measured is the ledger alone.
"""

import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from medallion_assets.operations.maintain import _tidy_ledger
from medallion_assets.sources import ledger as ledgers

ROUNDS, IN_A_COMMIT, IN_A_LOOK, ASKED = 5, 100_000, 1000, 10


def main(entries: int = 10_000_000, looks: int = 1000) -> None:
    """Print what each step takes."""
    with tempfile.TemporaryDirectory(prefix="ledger-") as place:
        ledger = Path(place) / "ledger"
        began = time.monotonic()
        for version, first in enumerate(range(0, entries, IN_A_COMMIT)):
            add(ledger, first, min(IN_A_COMMIT, entries - first), version)
        print(
            f"{entries} entries written: {time.monotonic() - began:.0f} s, {megabytes(ledger)} MB", flush=True
        )
        lookups(ledger, entries, "as written")
        timed("compaction", lambda: _tidy_ledger(ledger, 0))
        lookups(ledger, entries, "compacted")
        version = DeltaTable(str(ledger)).version() + 1
        began = time.monotonic()
        for number in range(looks):
            add(ledger, entries + number * IN_A_LOOK, IN_A_LOOK, version + number)
        each = (time.monotonic() - began) / looks
        print(f"{looks} commits of {IN_A_LOOK} entries: {1000 * each:.0f} ms each", flush=True)
        known = entries + looks * IN_A_LOOK
        lookups(ledger, known, f"after {looks} looks")
        timed("compaction", lambda: _tidy_ledger(ledger, 0))
        lookups(ledger, known, "compacted")
        if known <= 12_000_000:
            timed("the newest entry of every name", lambda: ledgers.last_seen(ledger))


def add(ledger: Path, first: int, count: int, version: int) -> None:
    """Write a commit of entries."""
    at = pa.array(np.arange(first, first + count) + 1_700_000_000_000_000).cast(pa.timestamp("us", "UTC"))
    tags = pc.cast(pa.array(mixed(np.arange(first, first + count), 3)), pa.string())
    order = pa.array(np.arange(count) + version * ledgers.STEP)

    def same(value: object) -> pa.Array:
        return pa.array([value]).take(pa.array(np.zeros(count, "int32")))

    columns = [names(first, count), same(1000), at, tags, same(10), same("lines"), same(""), same("admitted"),
               same(""), at, order, same(ledgers.NONE)]  # fmt: skip
    rows = pa.table(columns, ledgers.COLUMNS)
    write_deltalake(str(ledger), rows, mode="append", target_file_size=ledgers.ONE_FILE)


def mixed(numbers: "np.ndarray", salt: int = 1) -> "np.ndarray":
    """Return numbers in no order, each another one."""
    odd = np.uint64(0x9E3779B97F4A7C15 * salt % 2**64 | 1)
    return (numbers.astype("uint64") * odd) ^ np.uint64(0x5DEECE66D)


def names(first: int, count: int) -> pa.Array:
    """Return the names of entries."""
    text = pc.cast(pa.array(mixed(np.arange(first, first + count))), pa.string())
    return pc.binary_join_element_wise("orders/", text, ".json", "")


def lookups(ledger: Path, known: int, words: str) -> None:
    """Ask for known names and one that is new; print the median of the seconds."""

    def ask() -> None:
        asked = [names(random.randrange(known), 1)[0].as_py() for _ in range(ASKED)]
        found = ledgers.last_seen(ledger, only=[*asked, "orders/new.json"])
        assert found.keys() == set(asked)

    before = time.process_time()
    times = [timed("", ask) for _ in range(ROUNDS)]
    busy, files = (time.process_time() - before) / ROUNDS, len(DeltaTable(str(ledger)).file_uris())
    took = statistics.median(times)
    print(f"{ASKED} names, {words}: {took:.2f} s, {busy:.2f} s of processor ({files} files)", flush=True)


def timed(words: str, what: Callable[[], object]) -> float:
    """Do it; print and return the seconds."""
    began, before = time.monotonic(), time.process_time()
    what()
    took, busy = time.monotonic() - began, time.process_time() - before
    if words:
        print(f"{words}: {took:.1f} s, {busy:.1f} s of processor, at most {peak()} MB so far", flush=True)
    return took


def peak() -> int:
    """Return the most memory this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def megabytes(folder: Path) -> int:
    """Return the size of a folder's files."""
    return sum(file.stat().st_size for file in folder.rglob("*.parquet")) >> 20


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
