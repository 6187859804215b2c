"""Runs tables in order and judges each, with the session started only where one is needed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.stream import Trigger
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.conservation import Balance, balance
from medallion_assets.quality.verdicts import Verdict, verdicts
from medallion_assets.runs.refresh import Refresh, refresh
from medallion_assets.runtime.failures import failure_text

NEWEST_REFUSALS = """
SELECT source_file, position, array_to_string(rules, ', ') AS why, note FROM t
WHERE run_id = '{run_id}' ORDER BY source_file, position LIMIT 3
"""


@dataclass(frozen=True)
class Outcome:
    """One table's part of a run.

    Attributes:
        table: The table.
        refresh: What the refresh did; None where it failed or was not tried.
        balance: Both sides of the table's conservation equation; None where the refresh failed.
        verdicts: The table's checks after the refresh.
        error: Why the table failed, as one paragraph; empty where it did not.
    """

    table: Table
    refresh: Refresh | None
    balance: Balance | None
    verdicts: tuple[Verdict, ...] = ()
    error: str = ""

    @property
    def is_well(self) -> bool:
        """Return true where the refresh ended and every check that blocks passed."""
        return not self.error and all(v.passed or not v.blocking for v in self.verdicts)

    @property
    def took_rows(self) -> bool:
        """Return true where the refresh had something to do."""
        return self.refresh is not None and not self.refresh.skipped

    @property
    def warnings(self) -> tuple[Verdict, ...]:
        """The checks that failed without blocking; none for a skipped table, whose checks are older."""
        return tuple(v for v in self.verdicts if not v.passed and not v.blocking) if self.took_rows else ()


def run_tables(
    tables: Iterable[Table],
    lake: Lake,
    spark: Callable[[], SparkSession],
    run_id: str = "",
    trigger: Trigger = "availableNow",
) -> Iterator[Outcome]:
    """Return each table's outcome as it ends; a table downstream of a failed one is not run."""
    failed: set[str] = set()
    for table in tables:
        behind = [up.key for up in table.upstream if up.key in failed]
        if behind:
            outcome = Outcome(table, None, None, error=f"not run: {', '.join(behind)} failed")
        else:
            outcome = _outcome(table, lake, spark, run_id, trigger)
        if not outcome.is_well:
            failed.add(table.key)
        yield outcome


def _outcome(
    table: Table, lake: Lake, spark: Callable[[], SparkSession], run_id: str, trigger: Trigger
) -> Outcome:
    try:
        done = refresh(table, lake, spark, run_id, trigger)
        error = nothing_loaded(table, lake, done)
        return Outcome(table, done, balance(table, lake), tuple(verdicts(table, lake)), error)
    except Exception as error:
        # One table's failure must not keep the tables beside it from their data.
        return Outcome(table, None, None, error=failure_text(table, lake, error))


def nothing_loaded(table: Table, lake: Lake, done: Refresh) -> str:
    """Return why a refresh that read records but could load none has failed; empty for any other.

    Usually the declaration is wrong, or the producer has changed the format. Records that broke an
    expectation are not counted: to refuse those is what the rule is for. The refused records are in
    quarantine and the table's position has moved, so the next refresh takes what lands after them.

    Args:
        table: The table.
        lake: Where it is.
        done: The refresh.
    """
    read, refused = done.total("read"), done.total("quarantined") + done.total("dropped")
    judged = sum(sum(batch.rules.values()) for batch in done.batches)
    if not read or refused < read or done.total("written") or done.total("late") or judged:
        return ""
    entries = log.rows(lake.quarantine(table), NEWEST_REFUSALS.format(run_id=done.run_id))
    examples = "; ".join(_example(entry) for entry in entries)
    kept = "They are in its quarantine" if entries else "They were dropped, as malformed='DROPMALFORMED' asks"
    return (
        f"{table.key}: none of the {read} records of this run fits the table{': ' if examples else ''}"
        f"{examples}. {kept}; the table is unchanged. Correct the declaration and run `medallion quarantine "
        f"replay {table.key}`, or land corrected files: the next run takes them."
    )


def _example(entry: dict[str, object]) -> str:
    place = ", ".join(str(entry[name]) for name in ("source_file", "position") if entry[name])
    why = str(entry["note"] or entry["why"])
    return f"{why} ({place})" if place else why
