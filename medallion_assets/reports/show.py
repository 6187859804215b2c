"""Prints rows and outcomes to a terminal, a file or another program."""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.operations.requests import many
from medallion_assets.reports.state import NOT_RUN
from medallion_assets.runs.run import Outcome
from medallion_assets.runs.streaming import Moment
from medallion_assets.sources import CopyResult

SUMMED = ("written", "quarantined")
PIPED = 200
"""Width of output that goes to a file or another program; rich would fold it at 80 columns."""

# A notebook gets plain lines too: rich's own boxes for it keep each line's colours as HTML.
console = Console(
    width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED, force_jupyter=False
)


def table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a grid with their keys as its head, or that there are none."""
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
    """Print one table's part of a run as a line, and a line for each check that did not pass."""
    if done.error:
        console.print(f"[red]failed[/]  {done.table.key}: {escape(done.error)}")
    elif done.refresh and done.refresh.skipped:
        console.print(f"[dim]skipped[/] {done.table.key}: {escape(done.refresh.skipped)}")
    elif done.refresh:
        word = "[green]done[/]   " if done.is_well else "[red]failed[/] "
        console.print(f"{word} {done.table.key}: {done.balance} ({done.refresh.seconds:.1f} s)")
    for verdict in done.verdicts:
        if verdict.blocking and not verdict.passed:
            console.print(f"  [red]{verdict.name}[/]: {escape(verdict.words)}")
    for verdict in done.warnings:
        console.print(f"  [yellow]warning, {verdict.name}[/]: {escape(verdict.words)}")


def moment(done: Moment) -> None:
    """Print what a table's micro-batches did as a line, with how long ago their oldest file landed."""
    outcome(done.outcome)
    if done.latency_seconds is not None:
        console.print(f"  [dim]{done.latency_seconds:.1f} s after its oldest file landed[/]")


def summary(outcomes: Sequence[Outcome]) -> None:
    """Print how the run went as one line: rows written and quarantined, files refused, warnings."""
    failed = [o.table.key for o in outcomes if not o.is_well]
    ran = [o for o in outcomes if o.took_rows]
    written, quarantined = (sum(o.refresh.total(what) for o in ran if o.refresh) for what in SUMMED)
    refused = sum(_refused_files(o) for o in outcomes)
    warnings = sum(len(o.warnings) for o in ran)
    counts = f"{many(written, 'row')} written, {quarantined:,} quarantined, {many(refused, 'file')} refused"
    counts += f", {many(warnings, 'warning')}"
    if failed:
        of = f"{len(failed)} of {many(len(outcomes), 'table')} failed"
        console.print(f"[red]{of}:[/] {', '.join(failed)}; {counts}.")
    elif not ran and not refused:
        console.print("Nothing new: no table was changed, and Spark was not started.")
    elif not ran:
        console.print(f"[yellow]Nothing new, with warnings:[/] {many(refused, 'file')} refused so far.")
    elif quarantined or refused or warnings:
        console.print(f"[yellow]Done with warnings:[/] {many(len(ran), 'table')}, {counts}.")
    else:
        console.print(f"[green]All well:[/] {many(len(ran), 'table')}, {counts}.")


def _refused_files(done: Outcome) -> int:
    """Return the files a bronze table's discovery refuses as of now."""
    return sum(int(v.numbers["refused_files"]) for v in done.verdicts if "refused_files" in v.numbers)


def _text(value: object) -> str:
    if isinstance(value, dict):
        # Each by name would not fit a terminal; --json has them all.
        states = list(value.values())
        if states and set(states) == {NOT_RUN}:
            return NOT_RUN
        others = [f"{name} {state}" for name, state in value.items() if state != "passed"]
        return ", ".join(others) or f"{len(value)} passed"
    return "" if value is None else str(value)


BY_RULE = """
SELECT rule, reason_class, count(*) AS quarantined, min(quarantined_at) AS first_seen
FROM (SELECT unnest(rules) AS rule, reason_class, quarantined_at FROM t WHERE status = 'open')
GROUP BY rule, reason_class
"""


def quarantine_counts(table: Table, lake: Lake, limit: int = 0) -> list[dict[str, Any]]:
    """Return open rows by rule, only the ``limit`` most frequent where it is not 0.

    A row that broke two rules counts under both.
    """
    order = f"ORDER BY quarantined DESC, rule LIMIT {limit}" if limit else "ORDER BY rule"
    return [{"table": table.key, **row} for row in log.rows(lake.quarantine(table), f"{BY_RULE} {order}")]


MENDED_BY = ("entry_id", "rules", "row", "repaired", "note", "source_file", "position", "status")
"""Columns of the quarantine that a row is looked at and mended by."""


def quarantine_rows(
    table: Table, lake: Lake, limit: int, rule: str = "", all_columns: bool = False
) -> list[dict[str, Any]]:
    """Return the newest quarantined rows, those that broke ``rule`` where one is named.

    Args:
        table: The table.
        lake: Where it is.
        limit: Rows at most.
        rule: A rule's name; empty for all.
        all_columns: Every column; else those of ``MENDED_BY`` in which any of the rows has a value.
    """
    which = "WHERE array_has(rules, '{}')".format(rule.replace("'", "''")) if rule else ""
    newest = f"ORDER BY quarantined_at DESC, entry_id LIMIT {max(limit, 0)}"
    found = log.rows(lake.quarantine(table), f"SELECT * FROM t {which} {newest}")
    shown = [name for name in MENDED_BY if any(row.get(name) not in (None, "") for row in found)]
    return found if all_columns else [{name: row[name] for name in shown} for row in found]


def result_row(result: CopyResult) -> dict[str, Any]:
    """Return COPY INTO's result columns; with VALIDATE what it found instead, without the preview."""
    row: dict[str, Any] = {
        "num_affected_rows": result.num_affected_rows,
        "num_inserted_rows": result.num_inserted_rows,
        "num_skipped_corrupt_files": result.num_skipped_corrupt_files,
    }
    if result.validation:
        found = asdict(result.validation)
        return row | {name: found[name] for name in ("files", "good", "bad", "reasons", "columns")}
    return row | {"quarantined": result.load.rows_quarantined if result.load else 0}
