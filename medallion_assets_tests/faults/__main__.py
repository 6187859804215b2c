"""Runs the fault matrix and prints what was seen; exits 1 where a promise broke.

    python -m medallion_assets_tests.faults [ROW ...]

Crashes at every rename and kills at random instants have commands of their own in
``medallion_assets_tests.crash``; a part of them is rows A1 to A5.
"""

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from rich.console import Console
from rich.markup import escape

from medallion_assets_tests.faults.trying import in_order, tried

AT_ONCE = 2


def main(rows):
    cases, console, broken, done = in_order(), Console(width=200), 0, 0
    chosen = [n for n, case in enumerate(cases) if not rows or set(rows) & set(case.row.split(", "))]
    # Two at a time: a session alone keeps a single core busy.
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(AT_ONCE, get_context("spawn")) as two,
    ):
        trials = [two.submit(tried, n, f"{folder}/{n}") for n in chosen]
        for trial in as_completed(trials):
            number, seen, held, seconds = trial.result()
            case, done, broken = cases[number], done + 1, broken + (not held)
            word = "[green]held[/]  " if held else "[red]BROKEN[/]"
            console.print(
                f"{done:3d}/{len(chosen)} {word} {case.row:3s} {escape(case.fault)} | expected: "
                f"{escape(case.expected)} | seen: {escape(seen)} ({seconds:.0f} s)"
            )
    console.print(f"{len(chosen) - broken} held, {broken} broken")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
