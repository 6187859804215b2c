"""Quarantined rows taken again: mended where asked, judged by today's rules, written once.

A replay is planned in a file before it touches anything. One that dies is finished by the next replay or
refresh of the table, with the same entries, the same fix and the same versions of everything else.
"""

import json
import time
import uuid
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import batches, log, progress
from medallion_assets.delta.batches import Batch, write_json
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import stands_for
from medallion_assets.lake.static_versions import current_static_versions, last_static_versions
from medallion_assets.lake.writer import sole_writer
from medallion_assets.quality.judge import counted
from medallion_assets.quarantine.choice import QuarantineFilter, fixes_of
from medallion_assets.quarantine.held_poison import HELD
from medallion_assets.replay.failed_rows import repaired_inputs
from medallion_assets.replay.retried import ReplayPlan, chosen
from medallion_assets.replay.strategies import refuse_what_fails, way_of
from medallion_assets.replay.verdict import verdict_of
from medallion_assets.runtime.failures import explained
from medallion_assets.runtime.flow import batch_of
from medallion_assets.runtime.query import taken


@dataclass(frozen=True)
class Replayed:
    """What a replay did, or with ``dry_run`` would do, in rows.

    Attributes:
        table: The table's key.
        tried: Entries chosen.
        written: Rows that went into the table.
        duplicates, dropped: Rows that are good and stand there already, or that a rule lets go.
        still_open: Rows that broke a rule again, or could not be read again.
        replay_id: Names it in entries and commits; empty where nothing was tried.
    """

    table: str
    tried: int
    written: int = 0
    duplicates: int = 0
    dropped: int = 0
    still_open: int = 0
    replay_id: str = ""
    dry_run: bool = False


def replay(
    table: Table,
    lake: Lake,
    spark: SparkSession,
    choice: QuarantineFilter,
    fix: str = "",
    run_id: str = "",
    dry_run: bool = False,
) -> Replayed:
    """Take chosen entries of a table's quarantine again, each at most once.

    Raises:
        ReplayRefused: The choice or the fix cannot be read; nothing was moved.
        TableBusy: Another process writes the table.
        ExpectationFailed: A row broke a rule that says ``fail``; nothing was moved.
    """
    fixes_of(fix)
    run_id = run_id or uuid.uuid4().hex
    with sole_writer(table, lake):
        finish_replay(table, lake, spark)
        if not dry_run:
            _end_batches(table, lake, spark, run_id)
        trial = _planned(table, lake, choice, fix, run_id)
        tried = chosen(spark, table, lake, trial).count() if trial else 0
        if trial is None or not tried:
            return Replayed(table.key, 0, dry_run=dry_run)
        if dry_run:
            return _foreseen(trial, tried, table, lake, spark)
        write_json(lake.state(table, "replay.json"), asdict(trial))
        batch = _carried_out(trial, table, lake, spark)
    return _told(table, trial, tried, batch)


def _end_batches(table: Table, lake: Lake, spark: SparkSession, run_id: str) -> None:
    """Ends micro-batches that died between their writes and their checkpoint's commit.

    Rows of theirs stand in quarantine already, of versions the checkpoint does not know: recomputed from
    those it knows they would be gone, and the batch, once repeated, would not write them again.
    """
    for stream in (table, *table.flows):
        if progress.is_interrupted(lake.state(stream, "checkpoint")):
            taken(stream, lake, spark, run_id, "availableNow")


def is_pending(table: Table, lake: Lake) -> bool:
    """Return true where a replay was begun and not ended."""
    return lake.state(table, "replay.json").exists()


def finish_replay(table: Table, lake: Lake, spark: SparkSession) -> list[Batch]:
    """Ends a replay that died under way; the caller holds the table's lease."""
    file = lake.state(table, "replay.json")
    if not file.exists():
        return []
    return [_carried_out(ReplayPlan(**json.loads(file.read_text())), table, lake, spark)]


def _planned(table: Table, lake: Lake, choice: QuarantineFilter, fix: str, run_id: str) -> ReplayPlan | None:
    version = log.version(lake.quarantine(table))
    condition = choice.condition
    if version is None:
        return None
    own = log.version(lake.path(table))
    static_versions = current_static_versions(table, lake) | ({} if own is None else {table.key: own})
    return ReplayPlan(
        uuid.uuid4().hex[:12], version, condition, fix, static_versions, stands_for(table, lake), run_id
    )


def _carried_out(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> Batch:
    started, transaction = time.monotonic(), trial.transaction(table)
    try:
        counts = way_of(table)(trial, table, lake, spark)
    except Exception as error:
        if not transaction.committed_to(lake.path(table)):
            # Nothing of it is in the table: it must not stand in the way of every run to come.
            lake.state(table, "replay.json").unlink()
        raise explained(table, lake, error) from error
    words = f"replay {trial.id}" + (f": {trial.fix}" if trial.fix else "")
    batch = batch_of(
        counts, table, transaction, last_static_versions(table, lake), words, time.monotonic() - started
    )
    whole = batches.counted_in(lake.state(table, "batches"), str(transaction.commit_metadata["query"]), batch)
    lake.state(table, "replay.json").unlink()
    return whole


def _foreseen(trial: ReplayPlan, tried: int, table: Table, lake: Lake, spark: SparkSession) -> Replayed:
    entries = chosen(spark, table, lake, trial)
    if table.row_count_column:
        failed = entries.where(HELD)
        refuse_what_fails(repaired_inputs(failed, table, lake, trial), table, lake, trial)
        return Replayed(table.key, tried, tried, dry_run=True)
    verdict, misfits = verdict_of(entries, table, lake, trial)
    counts = counted(verdict, table)
    still = counts["quarantine"] + misfits.where("status = 'open'").count()
    return Replayed(table.key, tried, counts["good"], counts["duplicate"], counts["drop"], still, "", True)


def _told(table: Table, trial: ReplayPlan, tried: int, batch: Batch) -> Replayed:
    gone = batch.written + batch.duplicates + batch.dropped
    # Of an aggregate, rows that are the same to the letter come with the one that was chosen.
    tried = max(tried, gone)
    return Replayed(table.key, tried, batch.written, batch.duplicates, batch.dropped, tried - gone, trial.id)
