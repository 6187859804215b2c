"""One refresh of one table: an incremental streaming query over what is new, and what it did."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.delta import batches, log, progress
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import Span, added, as_stream, only_appends
from medallion_assets.delta.commit import Stamp
from medallion_assets.delta.lease import held
from medallion_assets.delta.stream import drain, stamp_of
from medallion_assets.ingestion import discover
from medallion_assets.ingestion.cleaning import clean_source
from medallion_assets.ingestion.discovery import Look
from medallion_assets.tables.bronze import write_files
from medallion_assets.tables.derive import derived
from medallion_assets.tables.errors import CheckpointMismatch
from medallion_assets.tables.failures import explained
from medallion_assets.tables.flow import write_changes
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.starts import begin_anew, has_begun, idle_at, position, span_of, starting_version
from medallion_assets.tables.stateful import STATEFUL, write_groups
from medallion_assets.tables.static_changes import moved_statics, take_statics
from medallion_assets.tables.table import Table

ALL_FILES = 1_000_000_000
"""A silver or gold batch takes whole upstream versions, so that its place in the log is a version."""


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
        """Gives the sum of one of ``Batch``'s numbers over this refresh."""
        return sum(int(getattr(batch, column)) for batch in self.batches)


def refresh(table: Table, lake: Lake, spark: Callable[[], SparkSession], run_id: str = "") -> Refresh:
    """Takes what is new to the table, once, and says what became of it.

    Args:
        table: The table to refresh.
        lake: Where tables and landing zones are.
        spark: Gives the session; called only where there is something to do.
        run_id: Goes into commits and quarantine rows; made up where empty.

    Raises:
        TableBusy: Another process writes the table and did not end in time.
        CheckpointMismatch: The table was removed while its checkpoint stayed.
        ExpectationFailed: A row broke an expectation that says ``fail``.
        RefreshFailed: A micro-batch could not be written; it was not committed.
    """
    started, run_id = time.monotonic(), run_id or uuid.uuid4().hex
    with held(lake.state(table, "lease"), table.key):
        take_arrivals(table, lake)
        skipped = why_not(table, lake)
        done = [] if skipped else _run(table, lake, spark(), run_id)
        if any(batch.missing for batch in done):
            # A file that was mended after a failed batch is known to have changed only once it is read.
            take_arrivals(table, lake)
            done += [] if why_not(table, lake) else _run(table, lake, spark(), run_id)
        take_away(table, lake)
    seconds = time.monotonic() - started
    return Refresh(table.key, skipped, tuple(done), log.version(lake.path(table)), seconds, run_id)


def take_arrivals(table: Table, lake: Lake) -> None:
    """Lets discovery add new landing files to the ledger, where the table reads any."""
    if table.source and not is_filled(table, lake):
        folder, ledger = lake.landing(table.pipeline, table.source), lake.ledger(table)
        with held(ledger.parent / f".{ledger.name}-lease", f"the ledger of {table.source.name}"):
            discover(folder, ledger, table.source, Look(lake.settings.settle_seconds))


def take_away(table: Table, lake: Lake) -> None:
    """Lets a source that cleans up move or delete what every table that reads it has committed."""
    if table.source and table.source.clean_source != "OFF":
        location = lake.landing(table.pipeline, table.source)
        readers = [t for t in table.registry.values() if t.source and t.key != table.key]
        same = [t for t in readers if t.source and lake.landing(t.pipeline, t.source) == location]
        clean_source(table.source, location, lake.ledger(table), [lake.ledger(t) for t in same])


def is_filled(table: Table, lake: Lake) -> bool:
    """True where a table that is filled once has been."""
    checkpoint = lake.state(table, "checkpoint")
    return table.once and log.exists(lake.path(table)) and not progress.is_interrupted(checkpoint)


def why_not(table: Table, lake: Lake) -> str:
    """Says why a refresh has nothing to do, empty where it has; needs no JVM."""
    checkpoint = lake.state(table, "checkpoint")
    if progress.last_number(checkpoint / "commits") >= 0 and not log.exists(lake.path(table)):
        raise CheckpointMismatch(
            f"{table.key}: the table at {lake.path(table)} is gone but its checkpoint is not, so a refresh "
            f"would bring only new rows. Upstream still holds them all: remove {checkpoint.parent} and the "
            f"quarantine at {lake.quarantine(table)}, and run again to rebuild both."
        )
    if is_filled(table, lake):
        return "filled once, and left as it is"
    newest = log.version(lake.upstream_log(table))
    if newest is None:
        return "nothing has landed yet" if table.source else "its upstream has no rows yet"
    missing = [t.key for t in table.statics.values() if not log.exists(lake.path(t))]
    if missing:
        return f"waits for {', '.join(missing)}, which it reads and which has no rows yet"
    at = position(table, lake)
    new = newest > max(at.version, idle_at(table, lake))
    if new or at.partly or progress.is_interrupted(checkpoint) or any(moved_statics(table, lake)):
        return ""
    return "nothing new"


def _run(table: Table, lake: Lake, spark: SparkSession, run_id: str) -> list[Batch]:
    done: list[Batch] = []
    checkpoint = lake.state(table, "checkpoint")

    def write(rows: DataFrame, number: int) -> None:
        stamp = stamp_of(table.key, lake.path(table), checkpoint, number, run_id, not table.source)
        done.append(_recorded(_write(rows, table, lake, stamp), table, lake, stamp))

    newest = log.version(lake.upstream_log(table))
    try:
        if table.output_mode in STATEFUL and _was_corrected(table, lake, newest):
            begin_anew(table, lake)
        drain(_rows(table, lake, spark), write, checkpoint, table.key, _spark_mode(table))
        if done:
            has_begun(table, lake)
        done += _follow_statics(table, lake, spark, run_id)
    except Exception as error:
        raise explained(table, error) from error
    if not done and newest is not None:
        idle_at(table, lake, newest)
    return done


def _spark_mode(table: Table) -> str:
    return table.output_mode if table.output_mode in STATEFUL else "append"


def _was_corrected(table: Table, lake: Lake, newest: int | None) -> bool:
    """True where upstream took rows back, which a query's state cannot."""
    span = Span(position(table, lake).version, newest or 0)
    return not only_appends(lake.upstream_log(table), span)


def _follow_statics(table: Table, lake: Lake, spark: SparkSession, run_id: str) -> list[Batch]:
    """Takes what changed in static inputs that are retried or followed."""
    query = progress.query_id(lake.state(table, "checkpoint"))
    last = log.last_note(lake.path(table), "generation")
    note = {"run_id": run_id, "table": table.key, "query": query, "generation": int(last or 0)}
    found = []
    for batch in take_statics(table, lake, spark, note):
        stamp = Stamp(f"{table.key}/static/{query}", batch.number, note | {"query": f"static-{query}"})
        found.append(_recorded(batch, table, lake, stamp))
    return found


def _rows(table: Table, lake: Lake, spark: SparkSession) -> DataFrame:
    upstream = lake.upstream_log(table)
    if table.source:
        # One ledger commit is one micro-batch: discovery has cut them to size.
        return spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(upstream))
    rows = as_stream(spark, upstream, starting_version(table, lake), ALL_FILES)
    if table.output_mode not in STATEFUL:
        return rows
    pins = {name: log.version(lake.path(t)) or 0 for name, t in table.statics.items()}
    return derived(added(rows), table, lake, pins)


def _write(rows: DataFrame, table: Table, lake: Lake, stamp: Stamp) -> Batch:
    if table.source:
        return write_files(rows, table, lake, stamp)
    if table.output_mode in STATEFUL:
        return write_groups(rows, table, lake, stamp)
    return write_changes(rows, table, lake, span_of(table, lake, stamp.batch_id), stamp)


def _recorded(batch: Batch, table: Table, lake: Lake, stamp: Stamp) -> Batch:
    folder, query = lake.state(table, "batches"), str(stamp.note["query"])
    before = None if batch.whole else batches.newest(folder, batch.number, query)
    whole = replace(
        batch,
        total_duplicates=batch.duplicates + (before.total_duplicates if before else 0),
        total_dropped=batch.dropped + (before.total_dropped if before else 0),
        total_missing=batch.missing + (before.total_missing if before else 0),
        total_applied=batch.written + (before.total_applied if before else 0),
        total_late=batch.late + (before.total_late if before else 0),
    )
    batches.record(folder, query, whole)
    return whole
