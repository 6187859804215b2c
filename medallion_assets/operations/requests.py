"""The request and the result of an operation; ``validate``: landed files judged without a write."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.declare.pipeline import readers_of
from medallion_assets.declare.table import Table
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.runtime.bronze import judged_records
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.validate import Validation, validated

Spark = Callable[[], SparkSession]
"""Returns the Spark session; called only where an operation cannot answer from the logs."""


@dataclass(frozen=True)
class VerbRequest:
    """The options of an operation; each operation reads only its own.

    Attributes:
        dry_run: Report what would be read, written and changed downstream; change nothing.
        choice: The quarantined rows to work on (replay, discard).
        fix: ``column = expression``, separated by commas (replay).
        why: The reason rows are discarded (discard) or were removed (accept_changes).
        files: Landing files, by path or the end of one (reprocess).
        since, until: ISO 8601, the second one not included: files that arrived then (reprocess).
        event_time: A column, or SQL over a row: ``since`` and ``until`` are of its rows instead (reprocess).
        days: Versions and files younger than this are kept (maintain).
        landing: Delete the landing files as well (reset).
        run_id: Written into the commits.
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
    until: str = ""
    event_time: str = ""


@dataclass(frozen=True)
class VerbResult:
    """What an operation did to a table, or would do.

    Attributes:
        table: The table's key.
        does: What happens, as a sentence.
        reads, writes: What it reads and writes; empty for nothing.
        downstream: The tables whose next run takes the change.
        well: False where something is wrong or the operation was refused.
        found: Counts and findings by name.
    """

    table: str
    does: str
    reads: str = ""
    writes: str = ""
    downstream: tuple[str, ...] = ()
    well: bool = True
    found: Mapping[str, Any] = field(default_factory=dict)


def refused(table: Table, why: str, **found: Any) -> VerbResult:
    """Return the result of an operation that did nothing, with the reason."""
    return VerbResult(table.key, f"refused: {why}. Nothing was changed", well=False, found=found)


def many(count: int, noun: str) -> str:
    """Return ``1 row`` or ``1,200 rows``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def was(count: int) -> str:
    """Return ``was`` for one of a thing, ``were`` for others."""
    return "was" if count == 1 else "were"


def tables_downstream(table: Table) -> list[Table]:
    """Return every table that reads this one, directly or through others, of whichever pipeline."""
    reached: dict[str, Table] = {}
    ahead = [table]
    while ahead:
        readers = [reader for reader in readers_of(ahead.pop()) if reader.key not in reached]
        reached |= {reader.key: reader for reader in readers}
        ahead += readers
    return list(reached.values())


def downstream_of(table: Table) -> tuple[str, ...]:
    """Return the keys of every table that reads this one, directly or through others."""
    return tuple(reader.key for reader in tables_downstream(table))


def validate(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Read the files that the next run would load, and count what would become of their records.

    Raises:
        BatchRefused: The run would be refused, with the same message.
    """
    if not table.source:
        return VerbResult(table.key, "it reads no files; validate the bronze tables upstream of it")
    place = load_target_of(table, lake)
    rules: Counter[str] = Counter()

    def judge(records: DataFrame) -> None:
        rules.update(judged_records(records, table))

    look = DiscoveryOptions(lake.settings.settle_seconds)
    found = validated(place, look, -1, spark, judge)
    broken = {name: count for name, count in rules.items() if count}
    numbers = {"files": found.files, "unreadable": found.corrupt_files, "good": found.good,
               "malformed": found.bad, "reasons": found.reasons, "rules": broken}  # fmt: skip
    well = not found.bad and not broken
    return VerbResult(table.key, _words(found, broken), "unseen landing files", well=well, found=numbers)


def _words(found: Validation, broken: dict[str, int]) -> str:
    if not found.files and not found.corrupt_files:
        return "every landed file is loaded; nothing to validate"
    words = f"{many(found.files, 'file')}: {many(found.good, 'record')} would load"
    words += f", {found.bad:,} would be quarantined"
    words += f", {many(found.corrupt_files, 'file')} cannot be read" if found.corrupt_files else ""
    reasons = [f"{count} {why}" for why, count in (*found.reasons.items(), *broken.items())]
    return words + (f" ({'; '.join(reasons)})" if reasons else "")
