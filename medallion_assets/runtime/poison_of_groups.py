"""Poison in a query that keeps state: set aside before its batch is tried again, and in each batch's account.

Spark runs such a query inside the stream, so that its rows cannot be taken out of a batch under way: the
stream is begun again over rows without those held.
"""

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.errors import RefreshFailed
from medallion_assets.declare.table import Table
from medallion_assets.delta import changes, progress, working
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.static_versions import at_version, current_static_versions
from medallion_assets.quality.derive import derived
from medallion_assets.quarantine.entries import COMES, LEAVES, STEP, move_entries
from medallion_assets.quarantine.held_poison import holds_poison, poison_in, sound_stream
from medallion_assets.quarantine.poison import QUERY_FAILED, without_poison
from medallion_assets.quarantine.repairs import as_text, numbered
from medallion_assets.runtime.failures import explained
from medallion_assets.runtime.late_entries import Half
from medallion_assets.sources.quarantine import QUERY, REPLAYED, shaped


def set_aside(
    table: Table,
    lake: Lake,
    spark: SparkSession,
    error: Exception,
    versions: VersionRange,
    transaction: Transaction,
) -> bool:
    """Put the rows into quarantine that the query failed on in a batch; false where it was not rows.

    Args:
        table: The table.
        lake: Where it is.
        spark: The session.
        error: Why the batch failed.
        versions: The upstream versions of the batch.
        transaction: The batch that failed.
    """
    if not isinstance(explained(table, lake, error), RefreshFailed):
        return False
    taken = _rows_of(spark, table, lake, versions)
    rows = sound_stream(taken, spark, lake.quarantine(table))
    query = partial(derived, table=table, lake=lake, static_versions=current_static_versions(table, lake))
    return without_poison(rows, query, error, table, lake, transaction) is not None


def failed_batch(table: Table, lake: Lake) -> int | None:
    """Return the number of the batch that was planned and did not end, None where there is none."""
    checkpoint = lake.state(table, "checkpoint")
    return progress.last_number(checkpoint / "offsets") if progress.is_interrupted(checkpoint) else None


def prepare_left_out(
    spark: SparkSession, table: Table, lake: Lake, versions: VersionRange
) -> tuple[int, Half]:
    """Return how many rows of a batch are held, and what gives each an entry of its own.

    A row may come that is, to the letter, one that is held: it is left out with it, and entered here.
    Where the batch takes all of upstream, entries of rows that are no more there go.
    """
    quarantine = lake.quarantine(table)
    if versions.upto <= versions.after or not holds_poison(quarantine):
        return 0, _nothing
    entries = poison_in(spark, quarantine).where(f"status <> '{REPLAYED}'")
    texts = F.broadcast(entries.select(F.col("row").alias(working.TEXT)).distinct())
    count = _with_text(_rows_of(spark, table, lake, versions)).join(texts, working.TEXT, "left_semi").count()
    if not count and versions.after >= 0:
        return 0, _nothing
    upstream = at_version(spark, lake.upstream_log(table), versions.upto)
    there = numbered(_with_text(upstream).join(texts, working.TEXT, "left_semi"), working.TEXT)
    known = numbered(entries.select(F.col("row").alias(working.TEXT), "entry_id"), working.TEXT)
    return count, partial(_exchange, there, known, table)


def _nothing(target: Lake, transaction: Transaction) -> None:
    """Write nothing."""


def _exchange(
    there: DataFrame, known: DataFrame, table: Table, target: Lake, transaction: Transaction
) -> None:
    """Add an entry for each row that has none, and take out those that are of no row."""
    new = there.join(known, [working.TEXT, working.NTH], "left_anti")
    rule = F.array(F.lit(QUERY_FAILED))
    come = shaped(new, F.col(working.TEXT), rule, F.lit(QUERY), transaction.version, transaction.run_id)
    went = known.join(there, [working.TEXT, working.NTH], "left_anti").select(
        "entry_id", F.lit(LEAVES).alias(STEP)
    )
    moves = come.withColumn(STEP, F.lit(COMES)).unionByName(went, allowMissingColumns=True)
    move_entries(moves, target.quarantine(table), transaction.of_quarantine)


def _rows_of(spark: SparkSession, table: Table, lake: Lake, versions: VersionRange) -> DataFrame:
    """Return upstream's rows that a batch of these versions takes."""
    upstream = lake.upstream_log(table)
    if versions.after < 0:
        return at_version(spark, upstream, versions.upto)
    return changes.added(changes.changed(spark, upstream, versions))


def _with_text(rows: DataFrame) -> DataFrame:
    return rows.withColumn(working.TEXT, as_text(rows))
