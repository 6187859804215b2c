"""How a batch is committed: to its quarantine first, to its table last, its account in the table's commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.layout import laid_out
from medallion_assets.declare.table import Table
from medallion_assets.delta import working
from medallion_assets.delta.batches import Batch, newest, stamp
from medallion_assets.delta.commit import Transaction, append, commit_nothing
from medallion_assets.delta.names import quoted
from medallion_assets.delta.rollback import roll_back
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.staging import staged
from medallion_assets.quality.bounds import refuse_beyond_bounds
from medallion_assets.quality.gate import refuse_unfit
from medallion_assets.quality.judge import counted, judged, written_columns
from medallion_assets.quarantine.quarantined import append_refused

Write = Callable[[Lake, Transaction], None]
"""Writes the quarantine's half of a batch, then the table's one commit, into a lake."""


class Prepared(NamedTuple):
    """A batch that is computed and judged, and not written yet.

    Attributes:
        counts: Counts of ``judge``; those of rows as they were before under ``was:<name>``.
        strategy: How the rows are written, and why so.
        write: Writes the quarantine's half, then the table's one commit, into a lake.
        frames: What is kept of it, to be let go once it is written.
        newest_sequence: For a changing dimension, the latest event taken.
    """

    counts: Mapping[str, int]
    strategy: str
    write: Write
    frames: tuple[DataFrame, ...] = ()
    newest_sequence: str = ""

    def let_go(self) -> None:
        """Free what was kept."""
        for frame in self.frames:
            frame.unpersist()


@dataclass(frozen=True)
class Target:
    """Where a batch goes."""

    table: Table
    lake: Lake
    spark: SparkSession


def commit(prepared: Prepared, batch: Batch, target: Target, transaction: Transaction) -> Batch:
    """Commit a batch, and return it with its totals.

    A table with a gate is written into a staged clone first and judged there; the real table gets the same
    rows in one commit, or none.

    Raises:
        GateClosed: A check that blocks does not hold; nothing was published.
    """
    table, lake = target.table, target.lake
    path = lake.path(table)
    whole = stamp(transaction, path, table.flow, batch)
    try:
        if table.write_audit_publish:
            try:
                with staged(table, lake, target.spark) as stage:
                    _write(prepared, target.spark, stage, table, whole)
                    refuse_unfit(table, stage)
            except BaseException:
                roll_back(target.spark, path, lake.quarantine(table), transaction.run_id)
                raise
        _write(prepared, target.spark, lake, table, whole)
    finally:
        prepared.let_go()
    done = newest(path, table.flow)
    return replace(done, replaced=batch.replaced) if done else batch


def _write(
    prepared: Prepared, spark: SparkSession, lake: Lake, table: Table, transaction: Transaction
) -> None:
    prepared.write(lake, transaction)
    # A MERGE or an append that found nothing to do may leave no commit; the position moves in any case.
    commit_nothing(spark, lake.path(table), transaction)


def prepare_rows(
    rows: DataFrame, table: Table, existing: DataFrame | None, replace_where: str = ""
) -> Prepared:
    """Judge rows that are appended: good ones to the table, refused ones to its quarantine.

    Args:
        rows: What the query gave.
        table: The table.
        existing: The table before the batch, None where no rule asks for it.
        replace_where: SQL predicate on rows of the table that the new ones replace.

    Raises:
        ExpectationFailed: More rows broke a rule than it allows; nothing was written.
    """
    verdict = judged(rows, table, existing).persist()
    try:
        counts = counted(verdict, table)
        refuse_beyond_bounds(counts, table)
    except BaseException:
        verdict.unpersist()
        raise

    def write(lake: Lake, transaction: Transaction) -> None:
        path = lake.path(table)
        good = verdict.where(F.col(working.OUTCOME) == "good").select(*map(quoted, written_columns(verdict)))
        good = laid_out(good, table.layout, path, table.key)
        append_refused(verdict, counts, table, lake.quarantine(table), transaction)
        append(good, path, transaction, replace_where=replace_where)

    return Prepared(counts, "appended", write, (verdict,))
