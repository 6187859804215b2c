"""A micro-batch of a query with state in its checkpoint: all groups, or the groups that changed.

Spark runs such a query inside the stream, so that rows cannot be removed from a running batch: the stream is
started again without the rows that are held in quarantine.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.errors import RefreshFailed
from medallion_assets.declare.layout import laid_out
from medallion_assets.declare.table import Table
from medallion_assets.delta import changes, log, progress, working
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import VersionRange, brings_few, rows_brought
from medallion_assets.delta.commit import Transaction, append, upsert
from medallion_assets.delta.stream import State
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import at_version, current_static_versions
from medallion_assets.quality.derive import derived
from medallion_assets.quality.late_rows import WINDOW, late_rows, open_rows, watermark_of, without_time
from medallion_assets.quarantine.entries import COMES, LEAVES, SETTLES, STEP, move_entries
from medallion_assets.quarantine.poison import (
    holds_poison,
    poison_in,
    sound_stream,
    without_poison,
)
from medallion_assets.quarantine.repairs import as_text, numbered
from medallion_assets.runtime.failures import explained
from medallion_assets.runtime.write import Context, Prepared, commit, joining
from medallion_assets.session.frames import (
    FEW_BYTES,
    FEW_ROWS,
    broadcast_if_few,
    computed_whole,
    frame_of,
    persisted,
)
from medallion_assets.sources.quarantine import LATE, NO_EVENT_TIME, QUERY, REPLAYED, shaped

Half = Callable[[Lake, Transaction], None]
"""Writes a part of a batch's half into a lake's quarantine."""

WAITS = f"reason_class = '{LATE}' AND status <> '{REPLAYED}'"
"""SQL predicate of entries whose rows are in no window of the table."""


def prepare_late(
    spark: SparkSession, table: Table, lake: Lake, versions: VersionRange, number: int
) -> tuple[int, Half]:
    """Return how many rows of a micro-batch came late, and what puts them into quarantine.

    A row counts for each closed window it lies in. Where the batch takes all of upstream no row is late:
    those held before are in their windows then, and are settled.
    """
    if versions.after < 0:
        return 0, partial(_settle, spark, table)
    late = late_rows(spark, table, lake, versions, number)
    count = late.count() if late is not None else 0
    return count, partial(_hold, late if count else None, table)


def _hold(late: DataFrame | None, table: Table, target: Lake, transaction: Transaction) -> None:
    if late is not None:
        append(_entries(late, transaction), target.quarantine(table), transaction.of_quarantine)


def _settle(spark: SparkSession, table: Table, target: Lake, transaction: Transaction) -> None:
    if waits(table, target):
        move_entries(_settled(spark, table, target), target.quarantine(table), transaction.of_quarantine)


def waits(table: Table, lake: Lake) -> bool:
    """Return true where a late row is held; reads the quarantine without Spark."""
    return bool(log.rows(lake.quarantine(table), f"SELECT 1 FROM t WHERE {WAITS} LIMIT 1"))


def _entries(late: DataFrame, transaction: Transaction) -> DataFrame:
    start, end = (F.date_format(f"{WINDOW}.{side}", "yyyy-MM-dd HH:mm:ss") for side in ("start", "end"))
    why = F.concat(F.lit("late: the window from "), start, F.lit(" to "), end, F.lit(" was closed"))
    row = as_text(late.drop(WINDOW))
    return shaped(late, row, F.array(why), F.lit(LATE), transaction.version, transaction.run_id)


def _settled(spark: SparkSession, table: Table, lake: Lake) -> DataFrame:
    entries = spark.read.format("delta").load(str(lake.quarantine(table))).where(WAITS)
    return entries.select("entry_id", F.lit(REPLAYED).alias("status"), F.lit(SETTLES).alias(STEP))


def set_aside(context: Context, error: Exception, versions: VersionRange, transaction: Transaction) -> bool:
    """Put the rows into quarantine that the query failed on in a batch; false where it was not rows.

    Args:
        context: The table, its lake and the session.
        error: Why the batch failed.
        versions: The upstream versions of the batch.
        transaction: The batch that failed.
    """
    table, lake, spark = context.table, context.lake, context.spark
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

    Rows without a time, which Spark's windows pass over, are held from here on. A row may come that is, to
    the letter, one that is held: it is left out with it, and entered here.
    Where the batch takes all of upstream, entries of rows that are no more there go.
    """
    quarantine = lake.quarantine(table)
    if versions.upto <= versions.after:
        return 0, _nothing
    taken = _rows_of(spark, table, lake, versions)
    fit = sound_stream(taken, spark, quarantine)
    timeless = without_time(fit, derived(fit, table, lake, current_static_versions(table, lake)))
    if timeless is not None and timeless.isEmpty():
        timeless = None
    if timeless is None and not holds_poison(quarantine):
        return 0, _nothing
    held = frame_of(spark, (), "entry_id STRING, row STRING, rules ARRAY<STRING>, status STRING")
    if log.exists(quarantine):
        held = poison_in(spark, quarantine).select(held.columns)
    entries = held.where(f"status <> '{REPLAYED}'")
    texts = entries.select(F.col("row").alias(working.TEXT), "rules")
    if timeless is not None:
        texts = texts.union(timeless.select(as_text(timeless), F.array(F.lit(NO_EVENT_TIME))))
    texts = broadcast_if_few(texts.dropDuplicates([working.TEXT]))
    count = _with_text(taken).join(texts, working.TEXT, "left_semi").count()
    if not count and versions.after >= 0:
        return 0, _nothing
    upstream = at_version(spark, lake.upstream_log(table), versions.upto)
    there = numbered(_with_text(upstream).join(texts, working.TEXT), working.TEXT)
    known = numbered(entries.select(F.col("row").alias(working.TEXT), "entry_id"), working.TEXT)
    return count, partial(_exchange, there, known, table)


def _nothing(target: Lake, transaction: Transaction) -> None:
    """Write nothing."""


def _exchange(
    there: DataFrame, known: DataFrame, table: Table, target: Lake, transaction: Transaction
) -> None:
    """Add an entry for each row that has none, and take out those that are of no row."""
    new = there.join(known, [working.TEXT, working.NTH], "left_anti")
    text, rules, kind = F.col(working.TEXT), F.col("rules"), F.lit(QUERY)
    come = shaped(new, text, rules, kind, transaction.version, transaction.run_id)
    if not log.exists(target.quarantine(table)):
        append(come, target.quarantine(table), transaction.of_quarantine)
        return
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


def write_groups(
    rows: DataFrame, table: Table, lake: Lake, versions: VersionRange, number: int, transaction: Transaction
) -> Batch:
    """Rewrite the table with the whole aggregate (complete), or merge the groups that changed (update).

    Args:
        rows: What the query gave for the micro-batch.
        table: The table.
        lake: Where it is.
        versions: The upstream versions of the batch.
        number: The micro-batch in its checkpoint; the first has the state of all of upstream.
        transaction: What is committed.
    """
    started, spark = time.monotonic(), rows.sparkSession
    late, hold = prepare_late(spark, table, lake, versions, number) if table.watermarked else (0, None)
    left_out, exchange = prepare_left_out(spark, table, lake, versions)
    merges = table.output_mode == "update" and number > 0
    # Read twice, a stateful query runs twice and counts its rows double; a MERGE reads its source twice.
    if _gives_few(table, lake, versions):
        rows = computed_whole(rows)
    elif merges or table.write_audit_publish:
        persisted(rows).count()

    def write(target: Lake, signed: Transaction) -> None:
        if hold is not None:
            hold(target, signed)
        exchange(target, signed)
        _write(rows, table, target, number, signed)

    batch = Batch(
        position=versions.upto,
        read=rows_brought(lake.upstream_log(table), versions),
        written=-1,
        quarantined=late + left_out,
        strategy=table.output_mode,
        late=late,
        open_rows=open_rows(spark, table, lake, number),
        watermark=_iso(watermark_of(lake.state(table, "checkpoint"), number)),
        whole=versions.after < 0,
        seconds=time.monotonic() - started,
        run_id=transaction.run_id,
    )
    prepared = Prepared({}, table.output_mode, write, (rows,) if rows.is_cached else ())
    return commit(prepared, batch, Context(table, lake, spark), transaction)


def _gives_few(table: Table, lake: Lake, versions: VersionRange) -> bool:
    """Return true where the groups that are there and those that new rows begin are few."""
    # Of closed windows any number can be given at once: only the state knows them.
    if table.output_mode == "append" or not brings_few(lake.upstream_log(table), versions):
        return False
    rows, size = log.rows_and_bytes(lake.path(table))
    return rows + rows_brought(lake.upstream_log(table), versions) <= FEW_ROWS and size <= FEW_BYTES


def _write(rows: DataFrame, table: Table, target: Lake, number: int, transaction: Transaction) -> None:
    path = target.path(table)
    whole = table.output_mode == "complete" or number == 0
    rows = laid_out(rows, table.layout, path, table.key) if whole else joining(rows, table, target)
    if whole:
        # State that begins with all of upstream replaces what was there.
        append(rows, path, transaction, mode="overwrite", keep_schema=table.layout.is_asked_for)
    elif table.output_mode == "append":
        append(rows, path, transaction)
    else:
        upsert(rows, path, transaction, table.unique_by)


def read_through(rows: DataFrame) -> None:
    """Compute a micro-batch that the table has already, for the sake of its state.

    Delta would skip the write without reading the rows; Spark then finds its state stores uncommitted and
    refuses the batch at every retry.
    """
    rows.write.format("noop").mode("overwrite").save()


def with_states(done: dict[int, Batch], states: dict[int, State]) -> list[Batch]:
    """Return a stateful query's batches (by micro-batch) with what Spark said of its state after each."""
    return [
        replace(batch, watermark=state.watermark, open_groups=state.groups, state_bytes=state.bytes)
        if (state := states.get(number))
        else batch
        for number, batch in done.items()
    ]


def _iso(milliseconds: int) -> str:
    if milliseconds <= 0:
        return ""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds / 1000)) + ".000Z"
