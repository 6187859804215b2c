"""Runs the fault matrix and prints what was seen; exits 1 where a promise broke.

    python -m medallion_assets_tests.faults [ROW ...]

Crashes at every rename, kills at random instants and two processes at once have commands of their own in
``medallion_assets_tests.crash``.
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
    damaged_tables,
    landing,
    orchestrated,
    processes,
    runs,
    storage,
)
from medallion_assets_tests.faults.trial import CASES, Trial

ROOMS = (corpora, damaged_tables, landing, orchestrated, processes, runs, storage)


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
    chosen = [case for case in CASES if not rows or case.row in rows]
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
