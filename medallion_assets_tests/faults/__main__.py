"""Runs the fault matrix and prints what was seen; exits 1 where a promise broke.

    python -m medallion_assets_tests.faults [ROW ...]

Crashes at every rename and kills at random instants have commands of their own in
``medallion_assets_tests.crash``; a part of them is rows A1 to A5.
"""

import sys
import tempfile
import time
from pathlib import Path

import pytest
from rich.console import Console
from rich.markup import escape

from medallion_assets.session import start_session
from medallion_assets.settings import Settings
from medallion_assets_tests.faults import (
    corpora,
    crashes,
    damaged_tables,
    disclosure,
    disks,
    landing,
    names,
    orchestrated,
    processes,
    records,
    runs,
    storage,
    upstream,
)
from medallion_assets_tests.faults.trial import CASES, Trial

ROOMS = (corpora, crashes, damaged_tables, disclosure, disks, landing, names, orchestrated, processes,
         records, runs, storage, upstream)  # fmt: skip


def tried(case, folder, spark):
    began = time.monotonic()
    try:
        seen, held = case.run(Trial(folder, spark)), True
    except pytest.skip.Exception as why:
        seen, held = f"skipped: {why}", True
    except Exception as error:
        seen, held = f"{type(error).__name__}: {str(error)[:300]}", False
    return seen, held, time.monotonic() - began


def main(rows):
    asked = [case for case in CASES if not rows or set(rows) & set(case.row.split(", "))]
    chosen = sorted(asked, key=lambda case: (case.row[0], int(case.row.partition(",")[0][1:])))
    console, broken = Console(width=200), 0
    session = start_session(Settings().resolved(), stays=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(chosen, 1):
            seen, held, seconds = tried(case, Path(folder) / str(number), lambda: session)
            broken += not held
            word = "[green]held[/]  " if held else "[red]BROKEN[/]"
            console.print(
                f"{number:3d}/{len(chosen)} {word} {case.row:3s} {escape(case.fault)} | expected: "
                f"{escape(case.expected)} | seen: {escape(seen)} ({seconds:.0f} s)"
            )
    session.stop()
    console.print(f"{len(chosen) - broken} held, {broken} broken")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
