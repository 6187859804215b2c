"""Prints rows and outcomes for a terminal, wide or narrow, coloured or piped."""

import os
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from medallion_assets.runs.run import Outcome
from medallion_assets.runs.streaming import Moment

PIPED = 200
"""Columns of what goes to a file or another program, which has no width: rich would fold all at 80."""

console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED)


def table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Prints rows as a grid with their keys as its head; says so where there are none."""
    if not rows:
        console.print(f"{escape(title)}: nothing there.")
        return
    grid = Grid(title=escape(title), title_justify="left")
    for name in rows[0]:
        # A table's key cut in two is no use to copy.
        grid.add_column(name, no_wrap=name == "table", overflow="fold")
    for row in rows:
        # File names and records come from outside: never markup.
        grid.add_row(*(escape(_text(value)) for value in row.values()))
    console.print(grid)


def outcome(done: Outcome) -> None:
    """Prints one table's part of a run as a line."""
    if done.error:
        console.print(f"[red]failed[/] {done.table.key}: {escape(done.error)}")
    elif done.refresh and done.refresh.skipped:
        console.print(f"[dim]skipped[/] {done.table.key}: {escape(done.refresh.skipped)}")
    elif done.refresh:
        word = "[green]done[/]  " if done.is_well else "[red]failed[/]"
        console.print(f"{word} {done.table.key}: {done.balance} ({done.refresh.seconds:.1f} s)")
    for verdict in done.verdicts:
        if verdict.blocking and not verdict.passed:
            console.print(f"  [red]{verdict.name}[/]: {escape(verdict.words)}")


def moment(found: Moment) -> None:
    """Prints what a table's micro-batches did as a line, with how long ago their oldest file landed."""
    outcome(found.outcome)
    if found.latency_seconds is not None:
        console.print(f"  [dim]{found.latency_seconds:.1f} s after its oldest file landed[/]")


def summary(outcomes: Sequence[Outcome]) -> None:
    """Prints how the run went as one line."""
    bad = [o.table.key for o in outcomes if not o.is_well]
    ran = [o for o in outcomes if o.refresh and not o.refresh.skipped]
    if bad:
        console.print(f"[red]{len(bad)} of {len(outcomes)} tables are not well:[/] {', '.join(bad)}")
    elif not ran:
        console.print("Nothing new: no table was changed, and Spark was not started.")
    else:
        console.print(
            f"[green]All well:[/] {len(ran)} tables took what was new, and every record is accounted for."
        )


def _text(value: object) -> str:
    if isinstance(value, dict):
        # Each by name would not fit a terminal; --json has them all.
        bad = [f"{k} {v}" for k, v in value.items() if v != "passed"]
        return ", ".join(bad) or f"{len(value)} passed"
    return "" if value is None else str(value)
