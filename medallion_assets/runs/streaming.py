"""Processing time: keep tables up to date in one warm session, micro-batch after micro-batch.

Each round takes what is new through the tables that are due, upstream first, and waits until the next is.
What a round leaves, or a stop or a crash cuts off, the next one takes: rounds share nothing but the tables.
A stream is on record in the lake while it runs, so that another process can name it and stop it.
"""

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from pyspark.sql import SparkSession

from medallion_assets.declare.pipeline import readers_of
from medallion_assets.declare.table import Table
from medallion_assets.declare.triggers import Timing, timing_of
from medallion_assets.delta.batches import write_json
from medallion_assets.lake.paths import Lake
from medallion_assets.runs.run import Outcome, run_tables
from medallion_assets.sources import file_status as files
from medallion_assets.storage import path_of, storage_of
from medallion_assets.storage.lease import held, is_held

LONGEST_WAIT = 300.0
"""The longest interval of a table after failures, so that an outage does not fill the log."""

LOOKS_EVERY = 0.5
"""Seconds between two checks for a request to stop."""


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
    timings: Mapping[str, Timing] | None = None,
) -> Iterator[Moment]:
    """Return what each round did, until ``stop`` is set; then ends after the table under way.

    Args:
        tables: The tables, upstream first.
        lake: Where they are.
        spark: Gives the session.
        every_seconds: Processing time between the micro-batches of tables whose trigger names none.
        stop: Ends the stream; a request of ``stop_streams`` sets it, too.
        timings: Triggers by table's key; what a table declares where it has none here.
    """
    timings_by_key = {table.key: timing_of(table.trigger) for table in tables} | dict(timings or {})
    clocks = {table.key: _Clock(timings_by_key[table.key].every_seconds or every_seconds) for table in tables}
    landed = _Landed(lake)
    with _on_record(tables, lake, clocks, stop) as place:
        while not _is_over(place, stop):
            due = [table for table in tables if clocks[table.key].due <= time.monotonic()]
            began = time.monotonic()
            for outcome in run_tables(due, lake, spark, timings=timings_by_key):
                clocks[outcome.table.key].next(began, well=not outcome.error)
                latency = landed.latency(outcome)
                if outcome.error or (outcome.refresh and outcome.refresh.batches):
                    yield Moment(outcome, latency)
                if _is_over(place, stop):
                    return
            _wait(min((clock.due for clock in clocks.values()), default=began + every_seconds), place, stop)


@dataclass
class _Clock:
    """When a table is due: at its interval, less often after failures."""

    every_seconds: float
    due: float = 0.0
    failures: int = 0

    def next(self, began: float, well: bool) -> None:
        self.failures = 0 if well else self.failures + 1
        longest = max(LONGEST_WAIT, self.every_seconds)
        self.due = began + min(self.every_seconds * 2**self.failures, longest)


@dataclass
class _Landed:
    """When the oldest file landed whose rows a table has not taken yet, by the table's key."""

    lake: Lake
    waiting: dict[str, datetime] = field(default_factory=dict)

    def latency(self, outcome: Outcome) -> float | None:
        """Return the seconds since the oldest file landed whose rows a table has just loaded."""
        table, done = outcome.table, outcome.refresh
        since = None if done is None else self.waiting.pop(table.key, None)
        if done is None or not done.batches:
            return None
        if table.source:
            since = min(_landed(table, self.lake, done.total("files")), default=None)
        now = datetime.now(timezone.utc)
        if since is None:
            return None
        for reader in readers_of(table):
            self.waiting[reader.key] = min(since, self.waiting.get(reader.key, since))
        return (now - since).total_seconds()


def _landed(table: Table, lake: Lake, count: int) -> list[datetime]:
    """Return when the files of the last batches landed."""
    return [row["create_time"] for row in files.last_rows(lake.ledger(table), count) if row["create_time"]]


def _wait(until: float, place: Path, stop: threading.Event) -> None:
    while not _is_over(place, stop) and time.monotonic() < until:
        stop.wait(min(LOOKS_EVERY, max(0.0, until - time.monotonic())))


STREAMS, ASKED = "_streams", "stop"


@dataclass(frozen=True)
class RunningStream:
    """A running stream.

    Attributes:
        name: Its name, which a person may ask to stop.
        process, host: Where it runs.
        since: ISO 8601, when it began.
        tables: The seconds between two micro-batches of each of its tables, by key.
    """

    name: str
    process: int
    host: str
    since: str
    tables: dict[str, float]


def running_streams(lake: Lake) -> list[RunningStream]:
    """Return the streams that are at work in a lake, whichever process runs them."""
    return [stream for place, stream in _recorded(lake) if is_held(place / "lease")]


def stop_streams(lake: Lake, streams: Sequence[RunningStream], wait_seconds: float) -> list[RunningStream]:
    """Ask streams to stop, each after the table under way, and return those that had not within the time."""
    for stream in streams:
        storage_of(str(lake.root)).put(str(lake.root / STREAMS / stream.name / ASKED), b"")
    until, left = time.monotonic() + wait_seconds, list(streams)
    while left and time.monotonic() < until:
        time.sleep(0.1)
        running = {stream.name for stream in running_streams(lake)}
        left = [stream for stream in left if stream.name in running]
    return left


def _recorded(lake: Lake) -> Iterator[tuple[Path, RunningStream]]:
    for found in storage_of(str(lake.root)).list(str(lake.root / STREAMS)):
        file = path_of(found.path) / "stream.json"
        if storage_of(str(file)).stat(str(file)):
            yield file.parent, _read(file)


def _read(file: Path) -> RunningStream:
    """Return a stream's record; of a damaged record, or of one of another release, only the name."""
    try:
        return RunningStream(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return RunningStream(file.parent.name, 0, "", "", {})


@contextmanager
def _on_record(
    tables: Sequence[Table], lake: Lake, clocks: Mapping[str, _Clock], stop: threading.Event
) -> Iterator[Path]:
    """Keep a record of the stream while the block runs; delete the records of crashed streams."""
    for place, _ in _recorded(lake):
        if not is_held(place / "lease"):
            _strike_off(place)
    place = lake.root / STREAMS / uuid.uuid4().hex[:8]
    every = {table.key: clocks[table.key].every_seconds for table in tables}
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    record = RunningStream(place.name, os.getpid(), os.uname().nodename, now, every)
    # In a context of its own: this lease is no condition of a table's commit.
    apart, lease = copy_context(), held(place / "lease", "the stream")
    apart.run(lease.__enter__)
    write_json(place / "stream.json", asdict(record))
    try:
        yield place
    finally:
        storage_of(str(place)).delete(str(place / "stream.json"))
        apart.run(lease.__exit__, None, None, None)
        _strike_off(place)


def _strike_off(place: Path) -> None:
    for name in ("stream.json", ASKED):
        storage_of(str(place)).delete(str(place / name))


def _is_over(place: Path, stop: threading.Event) -> bool:
    if not stop.is_set() and storage_of(str(place)).stat(str(place / ASKED)):
        stop.set()
    return stop.is_set()
