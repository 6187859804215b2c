"""What a person asks of a table and is told; ``validate``: what has landed, judged without a write."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.runtime.bronze import judged_records
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.validate import Validation, validated

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


def validate(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Read the files a run would take and says what would become of their records.

    Raises:
        BatchRefused: The run itself would be refused, with the same words.
    """
    if not table.source:
        return VerbResult(table.key, "it reads no files: validate the bronze tables it comes from")
    place = load_target_of(table, lake)
    rules: Counter[str] = Counter()

    def judge(records: DataFrame) -> None:
        rules.update(judged_records(records, table))

    look = DiscoveryOptions(lake.settings.settle_seconds)
    found = validated(place, look, None, lake.settings, -1, spark, judge)
    broken = {name: count for name, count in rules.items() if count}
    numbers = {"files": found.files, "unreadable": found.corrupt_files, "good": found.good,
               "malformed": found.bad, "reasons": found.reasons, "rules": broken}  # fmt: skip
    well = not found.bad and not broken
    return VerbResult(table.key, _words(found, broken), "unseen landing files", well=well, found=numbers)


def _words(found: Validation, broken: dict[str, int]) -> str:
    if not found.files and not found.corrupt_files:
        return "no file has landed that it has not taken"
    words = f"{found.files} files: {found.good} records fit, {found.bad} would be quarantined"
    words += f", {found.corrupt_files} files cannot be read" if found.corrupt_files else ""
    reasons = [f"{count} {why}" for why, count in (*found.reasons.items(), *broken.items())]
    return words + (f" ({'; '.join(reasons)})" if reasons else "")
