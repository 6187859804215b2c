"""Run tables in order and check each; start a session only where one is needed."""

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from medallion_assets.declare.errors import CheckpointDamaged, CheckpointMismatch
from medallion_assets.declare.table import Table
from medallion_assets.declare.triggers import Timing, timing_of
from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch, is_of_notebook, table_of_quarantine
from medallion_assets.delta.errors import DamagedCheckpoint
from medallion_assets.delta.events import Backlog, Work, append_event
from medallion_assets.delta.progress import finish_forgetting, refuse_damaged
from medallion_assets.delta.stream import Trigger
from medallion_assets.lake.arrivals import load_target_of, take_arrivals, take_away
from medallion_assets.lake.backlog import backlog
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.quality.conservation import Balance, balance
from medallion_assets.quality.verdicts import Verdict, verdicts
from medallion_assets.replay.replay import finish_replay, is_pending
from medallion_assets.runtime.failures import failure_text
from medallion_assets.runtime.query import take_new_rows
from medallion_assets.runtime.static_changes import why_not
from medallion_assets.runtime.write import Context
from medallion_assets.sources.load import catch_up
from medallion_assets.storage.lease import open_to_writers

Done = tuple[str, list[Batch]]
"""Why a refresh had nothing to do (empty where it had), and its micro-batches."""


@dataclass(frozen=True)
class Refresh:
    """The result of a refresh.

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
    trigger: Trigger | None = None,
    again: Collection[str] = (),
) -> Refresh:
    """Load the new rows of the table, once, and return the result.

    Args:
        table: The table to refresh.
        lake: Where tables and landing zones are.
        spark: Gives the session; called only where there is something to do.
        run_id: Goes into commits and quarantine rows; made up where empty.
        trigger: ``availableNow``, or ``once`` for all that is new in one micro-batch; None for what the
            table declares.
        again: Landing files to read again, in the place of what they gave before.

    Raises:
        TableBusy: Another process writes the table and did not end in time.
        CheckpointMismatch: The table was removed while its checkpoint stayed, or a notebook's loads fill it.
        ExpectationFailed: A row broke an expectation that says ``fail``.
        RefreshFailed: A micro-batch could not be written; it was not committed.
        GateClosed: The table has a gate, and a check that blocks does not hold.
    """
    started, run_id = time.monotonic(), run_id or uuid.uuid4().hex
    trigger = trigger or timing_of(table.trigger).batches
    waited = Backlog()
    try:
        with sole_writer(table, lake), log.read_once():
            _refuse_of_others(table, lake)
            take_arrivals(table, lake)
            if again:
                take_arrivals(table, lake, again)
            waited = backlog(table, lake) or Backlog()
            skipped, done = take_new(table, lake, spark, run_id, trigger)
            take_away(table, lake)
            version = log.version(lake.path(table))
            # In here: the logs that were read are still at hand.
            if done:
                work = Work(run_id, done, time.monotonic() - started, waited)
                append_event(lake.root, table.key, lake.path(table), work)
    except Exception as error:
        failed = Work(run_id, (), time.monotonic() - started, waited, error)
        append_event(lake.root, table.key, lake.path(table), failed)
        raise
    return Refresh(table.key, skipped, tuple(done), version, time.monotonic() - started, run_id)


def _refuse_of_others(table: Table, lake: Lake) -> None:
    quarantine = lake.quarantine(table)
    if (holder := table_of_quarantine(quarantine)) not in ("", table.key):
        raise CheckpointMismatch(
            f"{table.key}: the quarantine at {quarantine} holds records of {holder}, and two tables that "
            "share one can undo each other's entries. Nothing was read or written: declare the table under "
            "another name, or load the other one into a table of another name."
        )
    # Which layers have a table of the name may be another since the rows were put there.
    for name in {table.name, f"{table.layer}_{table.name}"} - {quarantine.name}:
        if table_of_quarantine(former := quarantine.with_name(name)) == table.key:
            raise CheckpointMismatch(
                f"{table.key}: its quarantined rows are in {former}, and its quarantine is {quarantine} now, "
                "since a table of the same name in another layer came or went. Nothing was read or written, "
                "and nothing is lost: undo that, or move the first folder to the second; where both are "
                f"there, `medallion full_refresh {table.key}` makes the second whole, and the first can go."
            )
    # A ledger of its own, once begun, would keep the notebook from its table as well.
    if is_of_notebook(lake.path(table)):
        raise CheckpointMismatch(
            f"{table.key}: the table at {lake.path(table)} is filled by copy_into or autoload_to_table, and "
            "a run of the declared table knows nothing of their files. Nothing was read or written: declare "
            f"it under another name, or run `medallion reset {table.key} --yes`, which deletes the rows "
            "loaded so far, and have their files land where the declared table reads."
        )


def take_new(
    table: Table,
    lake: Lake,
    spark: Callable[[], SparkSession],
    run_id: str,
    trigger: Trigger = "availableNow",
) -> Done:
    """Load new rows; a table with ``write_audit_publish`` publishes them after its checks. Needs the lease.

    Raises:
        GateClosed: A check that blocks does not hold; nothing was published.
        CheckpointDamaged: A file of the checkpoint is empty or cut off.
    """
    try:
        for stream in (table, *table.flows):
            finish_forgetting(lake.state(stream, "checkpoint"))
            refuse_damaged(lake.state(stream, "checkpoint"))
        if table.source:
            catch_up(load_target_of(table, lake))
        return _taken_now(table, lake, spark, run_id, trigger)
    except DamagedCheckpoint as error:
        raise CheckpointDamaged(table.key, str(error)) from error


def _taken_now(
    table: Table, lake: Lake, spark: Callable[[], SparkSession], run_id: str, trigger: Trigger
) -> Done:
    """Load new rows directly into the table."""
    done = finish_replay(table, lake, spark()) if is_pending(table, lake) else []
    reasons = []
    for stream in (table, *table.flows):
        reasons.append(why_not(stream, lake))
        done += [] if reasons[-1] else take_new_rows(Context(stream, lake, spark(), run_id), trigger)
    if any(batch.missing for batch in done):
        # A file that was mended after a failed batch is known to have changed only once it is read.
        take_arrivals(table, lake)
        done += [] if why_not(table, lake) else take_new_rows(Context(table, lake, spark(), run_id), trigger)
    return "" if done or not all(reasons) else reasons[0], done


NEWEST_REFUSALS = """
SELECT source_file, position, array_to_string(rules, ', ') AS why, note FROM t
WHERE run_id = '{run_id}' ORDER BY source_file, position LIMIT 3
"""


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        """Return a line for a notebook's cell: the whole declaration would fill the page."""
        return f"<{self.table.key}: {self.error or self.balance}>"

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
    timings: Mapping[str, Timing] | None = None,
) -> Iterator[Outcome]:
    """Return each table's outcome as it ends; a table downstream of a failed one is not run.

    Args:
        tables: The tables, upstream first.
        lake: Where they are.
        spark: Gives the session; called only where there is something to do.
        run_id: Goes into commits and quarantine rows; made up where empty.
        timings: Triggers by table's key; what a table declares where it has none here.
    """
    failed: set[str] = set()
    with open_to_writers(lake.root):
        for table in tables:
            behind = [up.key for up in table.upstream if up.key in failed]
            if behind:
                outcome = Outcome(table, None, None, error=f"not run: {', '.join(behind)} failed")
            else:
                timing = (timings or {}).get(table.key)
                outcome = _outcome(table, lake, spark, run_id, timing.batches if timing else None)
            if not outcome.is_well:
                failed.add(table.key)
            yield outcome


def _outcome(
    table: Table, lake: Lake, spark: Callable[[], SparkSession], run_id: str, trigger: Trigger | None
) -> Outcome:
    try:
        with log.read_once():
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
    # A correction takes more rows away than it brings.
    if read <= 0 or refused < read or done.total("written") or done.total("late") or judged:
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
