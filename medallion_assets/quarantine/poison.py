"""Rows that a query cannot take at all: found by halving the batch, held in quarantine, the rest goes on.

One value no cast was tried on fails a whole micro-batch, and with it every later one, for ever.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.errors import ExpectationFailed, RepeatedKeys, SchemaRefused
from medallion_assets.declare.table import Table
from medallion_assets.delta import working
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.lake.paths import Lake
from medallion_assets.quarantine.repairs import as_text
from medallion_assets.sources.errors import BatchRefused
from medallion_assets.sources.quarantine import QUERY, shaped

MOST = 20
"""Rows a batch may lose to quarantine in this way: more, and it is the query that is wrong."""

QUERY_FAILED = "query_failed"
NOT_OF_ROWS = (BatchRefused, ExpectationFailed, RepeatedKeys, SchemaRefused, AnalysisException)
"""Errors that no row causes. A misspelt column was looked for in forty halves of the batch."""


Runs = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Poison:
    """Numbers of rows the query fails on, and what it says of the last one."""

    rows: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class Isolated:
    """Rows the query can take, and how many it cannot."""

    rest: DataFrame
    held: int


def without_poison(
    rows: DataFrame, runs: Runs, error: Exception, table: Table, lake: Lake, transaction: Transaction
) -> Isolated | None:
    """Return a batch's rows but those the query fails on; None where it is not rows that made it fail.

    Args:
        rows: The batch, as the query is given it.
        runs: Takes rows through the table's query.
        error: Why the batch failed.
        table: The table.
        lake: Where its quarantine is.
        transaction: Who writes.
    """
    quarantine = lake.quarantine(table)
    if not _may_be_poisoned(error, table):
        return None
    return isolated(rows, runs, quarantine, transaction)


def isolated(rows: DataFrame, runs: Runs, quarantine: Path, transaction: Transaction) -> Isolated | None:
    """Return the rows the query can take, with the others in quarantine; None where the fault is not theirs.

    Args:
        rows: Upstream's columns: the batch.
        runs: Takes rows through the table's query, and raises what it raises.
        quarantine: Where the others go, as upstream has them, under ``query_failed``.
        transaction: Who writes.
    """
    placed = rows.withColumn(working.PLACE, F.row_number().over(Window.orderBy(as_text(rows)))).persist()
    try:
        count = placed.count()
        found = _poison(placed, runs, 1, count, Poison((), ""))
        if not found.rows or len(found.rows) in (count, MOST + 1):
            return None
        is_poison = F.col(working.PLACE).isin(list(found.rows))
        bad = placed.where(is_poison).drop(working.PLACE)
        text, rule = as_text(bad), F.array(F.lit(QUERY_FAILED))
        entries = shaped(bad, text, rule, F.lit(QUERY), transaction.version, transaction.run_id)
        entries = entries.withColumn("note", F.lit(found.why[:500]))
        append(entries, quarantine, transaction.of_quarantine)
        return Isolated(placed.where(~is_poison).drop(working.PLACE).localCheckpoint(), len(found.rows))
    finally:
        placed.unpersist()


def _may_be_poisoned(error: BaseException, table: Table) -> bool:
    """Return true where a row may be the cause: not for errors of ours, nor for a rule that says fail."""
    rules = (f"expectation {rule.name} (" for rule in table.expectations if rule.on_violation == "fail")
    return not isinstance(error, NOT_OF_ROWS) and not any(rule in str(error) for rule in rules)


def _poison(placed: DataFrame, runs: Runs, first: int, last: int, so_far: Poison) -> Poison:
    why = _failure(placed.where(F.col(working.PLACE).between(first, last)).drop(working.PLACE), runs)
    if not why or len(so_far.rows) > MOST:
        return so_far
    if first == last:
        return Poison((*so_far.rows, first), why)
    middle = (first + last) // 2
    left = _poison(placed, runs, first, middle, so_far)
    return _poison(placed, runs, middle + 1, last, left)


def _failure(rows: DataFrame, runs: Runs) -> str:
    try:
        runs(rows).write.format("noop").mode("overwrite").save()
    except Exception as error:
        return str(error).strip().splitlines()[0]
    return ""
