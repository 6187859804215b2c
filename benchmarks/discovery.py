"""Ten new files among very many known ones: what a look takes beyond the listing itself, and its memory.

    python -m benchmarks.discovery [FILES]

A landing zone of FILES small files (100,000) in folders of a thousand is looked at once, so that its ledger
knows them. Then ten times ten files are added and looked for. Before each look the folders are listed bare,
every name with its size and time; the look's seconds beyond that, and the process's memory, are printed.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from medallion_assets.sources import Source, discover
from medallion_assets.sources.discovery import DiscoveryOptions

LOOKS, NEW, IN_A_FOLDER = 10, 10, 1000


def main(files: int = 100_000) -> None:
    """Prints what each look took."""
    with tempfile.TemporaryDirectory(prefix="discovery-") as place:
        zone, ledger = Path(place) / "landing", Path(place) / "ledger"
        source = Source("clicks", format="json", recursive_file_lookup=True)
        land(zone, 0, files)
        began = time.monotonic()
        told = discover(zone, ledger, source, DiscoveryOptions())
        print(f"first look: {told.admitted} files, {time.monotonic() - began:.1f} s", flush=True)
        beyond = [look(zone, ledger, source, files + number * NEW) for number in range(LOOKS)]
        print(f"{NEW} new among {files}: {statistics.median(beyond):.2f} s beyond the listing (median)")


def look(zone: Path, ledger: Path, source: Source, known: int) -> float:
    """Lands new files and looks for them; gives the seconds beyond a bare listing."""
    land(zone, known, NEW)
    began = time.monotonic()
    found = sum(1 for _ in everything_in(str(zone)))
    listing = time.monotonic() - began
    began = time.monotonic()
    told = discover(zone, ledger, source, DiscoveryOptions())
    took = time.monotonic() - began
    assert (found, told.admitted) == (known + NEW, NEW)
    print(f"  listing {listing:.2f} s, look {took:.2f} s, {resident()} MB", flush=True)
    return took - listing


def land(zone: Path, first: int, files: int) -> None:
    """Write so many files of one record."""
    for number in range(first, first + files):
        folder = zone / f"{number // IN_A_FOLDER:05d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.json").write_text(f'{{"number": {number}}}\n')


def everything_in(folder: str) -> "list[os.stat_result]":
    """Return the facts of every file below a folder."""
    with os.scandir(folder) as entries:
        found = list(entries)
    files = [entry.stat(follow_symlinks=False) for entry in found if not entry.is_dir()]
    return files + [facts for entry in found if entry.is_dir() for facts in everything_in(entry.path)]


def resident() -> int:
    """Return this process's memory now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
