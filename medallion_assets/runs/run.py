"""Runs tables in order and judges each, with the session started only where one is needed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta.stream import Trigger
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.conservation import Balance, balance
from medallion_assets.quality.verdicts import Verdict, verdicts
from medallion_assets.runs.refresh import Refresh, refresh


@dataclass(frozen=True)
class Outcome:
    """One table's part of a run: what the refresh did, how the books stand, why it failed."""

    table: Table
    refresh: Refresh | None
    balance: Balance | None
    verdicts: tuple[Verdict, ...] = ()
    error: str = ""

    @property
    def is_well(self) -> bool:
        """Return true where the refresh ended and every check that blocks passed."""
        return not self.error and all(v.passed or not v.blocking for v in self.verdicts)


def run_tables(
    tables: Iterable[Table],
    lake: Lake,
    spark: Callable[[], SparkSession],
    run_id: str = "",
    trigger: Trigger = "availableNow",
) -> Iterator[Outcome]:
    """Return each table's outcome as it ends; a table downstream of a failed one is left alone."""
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
        return Outcome(table, done, balance(table, lake), tuple(verdicts(table, lake)))
    except Exception as error:
        # One table's failure must not keep the tables beside it from their data.
        return Outcome(table, None, None, error=_first_lines(error))


def _first_lines(error: Exception) -> str:
    return "\n".join(str(error).strip().splitlines()[:6]) or type(error).__name__
