"""What a person asks of a table, and what they are told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.quarantine.choice import QuarantineFilter

Spark = Callable[[], SparkSession]
"""Gives the session; called only where a verb cannot answer from the log."""


@dataclass(frozen=True)
class VerbRequest:
    """How a verb is to be done; each reads only what concerns it.

    Attributes:
        dry_run: Only say what would be read, written and touched downstream.
        choice: Which quarantined rows (replay, discard).
        fix: ``column = expression``, separated by commas (replay).
        why: Why rows are given up (discard), or were removed (accept_changes).
        files: Landing files, by path or how it ends (reprocess).
        since: ISO 8601: files discovered from then on (reprocess).
        days: Versions and files younger than this stay (maintain).
        landing: The landing files go as well (reset).
        run_id: Goes into commits.
    """

    dry_run: bool = False
    choice: QuarantineFilter = field(default_factory=QuarantineFilter)
    fix: str = ""
    why: str = ""
    files: tuple[str, ...] = ()
    since: str = ""
    days: float = 30
    landing: bool = False
    run_id: str = ""


@dataclass(frozen=True)
class VerbResult:
    """What a verb did to a table, or would do.

    Attributes:
        table: The table's key.
        does: What happens, as a sentence.
        reads, writes: What is read and written; empty where nothing is.
        downstream: The tables that take the change with their next run.
        well: False where something is wrong, or where the verb was refused.
        found: Numbers and findings by name.
    """

    table: str
    does: str
    reads: str = ""
    writes: str = ""
    downstream: tuple[str, ...] = ()
    well: bool = True
    found: Mapping[str, Any] = field(default_factory=dict)


def refused(table: Table, why: str, **found: Any) -> VerbResult:
    """Return what is told where a verb does nothing, and why."""
    return VerbResult(table.key, f"refused: {why}. Nothing was changed", well=False, found=found)


def downstream_of(table: Table) -> tuple[str, ...]:
    """Return the keys of every table that reads this one, however far."""
    reached: dict[str, None] = {}
    ahead = [table.key]
    while ahead:
        key = ahead.pop()
        readers = [t for t in table.registry.values() if key in {up.key for up in t.upstream}]
        ahead += [t.key for t in readers if t.key not in reached]
        reached |= {t.key: None for t in readers}
    return tuple(reached)
