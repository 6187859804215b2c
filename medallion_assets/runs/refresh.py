"""One refresh of one table: an incremental streaming query over what is new, and what it did."""

import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass

from pyspark.sql import SparkSession

from medallion_assets.declare.errors import CheckpointDamaged
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.damage import refuse_damaged
from medallion_assets.delta.errors import DamagedCheckpoint
from medallion_assets.delta.stream import Trigger
from medallion_assets.lake.arrivals import load_target_of, take_arrivals, take_away
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.writer import sole_writer
from medallion_assets.replay.replay import finish_replay, is_pending
from medallion_assets.runtime.has_work import why_not
from medallion_assets.runtime.query import take_new_rows
from medallion_assets.sources.load import catch_up

Done = tuple[str, list[Batch]]
"""Why nothing was done, empty where something was, and the micro-batches."""


@dataclass(frozen=True)
class Refresh:
    """What a refresh did.

    Attributes:
        table: The table's key.
        skipped: Why nothing was done, empty where something was.
        batches: What each micro-batch did, in order.
        version: The table's Delta version afterwards, None where it does not exist yet.
        seconds: How long it took, waiting for the lease included.
        run_id: Who asked for it.
    """

    table: str
    skipped: str
    batches: tuple[Batch, ...]
    version: int | None
    seconds: float
    run_id: str

    def total(self, column: str) -> int:
        """Return the sum of one of ``Batch``'s numbers over this refresh."""
        return sum(int(getattr(batch, column)) for batch in self.batches)


def refresh(
    table: Table,
    lake: Lake,
    spark: Callable[[], SparkSession],
    run_id: str = "",
    trigger: Trigger = "availableNow",
    again: Collection[str] = (),
) -> Refresh:
    """Take what is new to the table, once, and says what became of it.

    Args:
        table: The table to refresh.
        lake: Where tables and landing zones are.
        spark: Gives the session; called only where there is something to do.
        run_id: Goes into commits and quarantine rows; made up where empty.
        trigger: ``availableNow``, or ``once`` for all that is new in one micro-batch.
        again: Landing files to read again, in the place of what they gave before.

    Raises:
        TableBusy: Another process writes the table and did not end in time.
        CheckpointMismatch: The table was removed while its checkpoint stayed.
        ExpectationFailed: A row broke an expectation that says ``fail``.
        RefreshFailed: A micro-batch could not be written; it was not committed.
        GateClosed: The table has a gate, and a check that blocks does not hold.
    """
    started, run_id = time.monotonic(), run_id or uuid.uuid4().hex
    with sole_writer(table, lake):
        take_arrivals(table, lake)
        if again:
            take_arrivals(table, lake, again)
        skipped, done = take_new(table, lake, spark, run_id, trigger)
        take_away(table, lake)
    seconds = time.monotonic() - started
    return Refresh(table.key, skipped, tuple(done), log.version(lake.path(table)), seconds, run_id)


def take_new(
    table: Table,
    lake: Lake,
    spark: Callable[[], SparkSession],
    run_id: str,
    trigger: Trigger = "availableNow",
) -> Done:
    """Take what is new; a table with a gate publishes it once it is judged. The caller holds the lease.

    Raises:
        GateClosed: A check that blocks does not hold; nothing was published.
        CheckpointDamaged: A file of the checkpoint is empty or cut off.
    """
    try:
        for stream in (table, *table.flows):
            refuse_damaged(lake.state(stream, "checkpoint"))
        if table.source:
            catch_up(load_target_of(table, lake))
        return _taken_now(table, lake, spark, run_id, trigger)
    except DamagedCheckpoint as error:
        raise CheckpointDamaged(table.key, str(error)) from error


def _taken_now(
    table: Table, lake: Lake, spark: Callable[[], SparkSession], run_id: str, trigger: Trigger
) -> Done:
    """Take what is new, in place."""
    done = finish_replay(table, lake, spark()) if is_pending(table, lake) else []
    skipped = "" if done else why_not(table, lake)
    done += [] if why_not(table, lake) else take_new_rows(table, lake, spark(), run_id, trigger)
    for flow in table.flows:
        if not why_not(flow, lake):
            done, skipped = [*done, *take_new_rows(flow, lake, spark(), run_id, trigger)], ""
    if any(batch.missing for batch in done):
        # A file that was mended after a failed batch is known to have changed only once it is read.
        take_arrivals(table, lake)
        done += [] if why_not(table, lake) else take_new_rows(table, lake, spark(), run_id, trigger)
    return skipped, done
