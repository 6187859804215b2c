"""Quarantined rows taken again: mended where asked, judged by today's rules, written once.

A replay is planned in a file before it touches anything. One that dies is finished by the next replay or
refresh of the table, with the same entries, the same fix and the same versions of everything else.
"""

import json
import time
import uuid
from dataclasses import asdict, dataclass, replace

from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch, write_json
from medallion_assets.delta.rollback import roll_back
from medallion_assets.lake.file_counts import retell
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import newest_batch, position
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
from medallion_assets.runtime.write import Prepared, Target, commit


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
            # What a batch that died has put into quarantine is of no table yet.
            roll_back(spark, lake.path(table), lake.quarantine(table), run_id)
        trial = _planned(table, lake, choice, fix, run_id)
        tried = chosen(spark, table, lake, trial).count() if trial else 0
        if trial is None or not tried:
            return Replayed(table.key, 0, dry_run=dry_run)
        if dry_run:
            return _foreseen(trial, tried, table, lake, spark)
        write_json(lake.state(table, "replay.json"), asdict(trial))
        batch = _carried_out(trial, table, lake, spark)
    return _told(table, trial, tried, batch)


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
        uuid.uuid4().hex[:12], version, condition, fix, static_versions, position(table, lake), run_id
    )


def _carried_out(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> Batch:
    started, transaction = time.monotonic(), trial.transaction(table)
    ungated = replace(table, write_audit_publish=False)
    try:
        if not transaction.committed_to(lake.path(table)):
            roll_back(spark, lake.path(table), lake.quarantine(table), trial.run_id)
            prepared = way_of(table)(trial, table, lake, spark)
            prepared = prepared._replace(
                strategy=f"replay {trial.id}" + (f": {trial.fix}" if trial.fix else "")
            )
            batch = _batch(prepared, table, lake, trial, time.monotonic() - started)
            commit(prepared, batch, Target(ungated, lake, spark), transaction)
        if table.source:
            files = chosen(spark, table, lake, trial).select("source_file").distinct().collect()
            retell(spark, table, lake, [row[0] for row in files if row[0]], trial.run_id)
    except Exception as error:
        # Nothing of it is in the table: it must not stand in the way of every run to come.
        lake.state(table, "replay.json").unlink()
        roll_back(spark, lake.path(table), lake.quarantine(table), trial.run_id)
        raise explained(table, lake, error) from error
    lake.state(table, "replay.json").unlink()
    done = newest_batch(table, lake)
    assert done is not None
    return done


def _batch(prepared: Prepared, table: Table, lake: Lake, trial: ReplayPlan, seconds: float) -> Batch:
    last = newest_batch(table, lake)
    statics = last_static_versions(table, lake)
    batch = batch_of(prepared, table, position(table, lake), statics, trial.run_id, seconds)
    return replace(batch, open_rows=last.open_rows if last else 0)


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
