"""Processing time: the chain kept up in one warm session, micro-batch after micro-batch.

Each round takes what is new through the tables, upstream first, and waits for the next tick. What a
round leaves, or a stop or a crash cuts off, the next one takes: rounds share nothing but the checkpoints.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.lake.paths import Lake
from medallion_assets.runs.run import Outcome, run_tables
from medallion_assets.sources import file_status as files

LONGEST_WAIT = 300.0
"""After failures the rounds slow down to this: an outage is not to fill a log."""


@dataclass(frozen=True)
class Moment:
    """One table's part of a round that did something or failed.

    Attributes:
        outcome: What it did.
        latency_seconds: From the landing of the oldest file of the round to this table's commit; None
            where no file of the round reached it.
    """

    outcome: Outcome
    latency_seconds: float | None


def stream_tables(
    tables: Sequence[Table],
    lake: Lake,
    spark: Callable[[], SparkSession],
    every_seconds: float,
    stop: threading.Event,
) -> Iterator[Moment]:
    """Return what each round did, until ``stop`` is set; then ends after the table under way."""
    failures = 0
    while not stop.is_set():
        began, well = time.monotonic(), True
        for moment in _round(tables, lake, spark):
            well = well and not moment.outcome.error
            if moment.outcome.error or (moment.outcome.refresh and moment.outcome.refresh.batches):
                yield moment
            if stop.is_set():
                return
        failures = 0 if well else failures + 1
        wait = min(every_seconds * 2**failures, max(LONGEST_WAIT, every_seconds))
        stop.wait(max(0.0, began + wait - time.monotonic()))


def _round(tables: Sequence[Table], lake: Lake, spark: Callable[[], SparkSession]) -> Iterator[Moment]:
    landed: dict[str, datetime] = {}
    for outcome in run_tables(tables, lake, spark):
        table, done = outcome.table, outcome.refresh
        moved = bool(done and done.batches)
        times = [landed[up.key] for up in table.upstream if up.key in landed]
        if table.source and done and moved:
            times = _landed(table, lake, done.total("files"))
        if moved and times:
            landed[table.key] = min(times)
        since = landed.get(table.key)
        now = datetime.now(timezone.utc)
        yield Moment(outcome, (now - since).total_seconds() if since else None)


def _landed(table: Table, lake: Lake, count: int) -> list[datetime]:
    """Return when the files of the last batches landed."""
    return [row["create_time"] for row in files.last_rows(lake.ledger(table), count) if row["create_time"]]
