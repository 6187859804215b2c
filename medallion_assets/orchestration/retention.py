"""Delete old runs, so that Dagster's storage does not grow for ever.

Ticks have a retention of Dagster's own, in ``dagster.yaml``; runs, their events and their logs have none.
"""

import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.tags import REPOSITORY_LABEL_TAG

from medallion_assets.settings import current_settings
from medallion_assets.storage import storage_of

ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
KEY = dg.AssetKey(["report", "run_history"])
WORDS = (
    "Runs that ended more than MEDALLION_RUNS_DAYS days ago are deleted with their events and logs. A run "
    "that has the newest materialization of an asset, or the newest result of a check, stays."
)


def run_history(owners: Iterable[str], checks: Iterable[dg.AssetCheckKey]) -> dg.AssetsDefinition:
    """Return the asset whose materialization deletes the code location's old runs.

    Args:
        owners: Its owners.
        checks: The checks whose newest result has to stay.
    """
    keys = list(checks)

    @dg.asset(key=KEY, group_name="report", kinds={"table"}, owners=sorted(owners), description=WORDS)
    def run_history(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        began, days = time.monotonic(), current_settings().runs_days
        old = list(_ended_before(context.instance, context.run, days))
        newest = _newest(context.instance, keys)
        gone = [run_id for run_id in old if run_id not in newest]
        for run_id in gone:
            delete(context.instance, run_id)
        context.log.info(f"{len(gone)} runs older than {days} days were deleted")
        numbers = {"runs_deleted": len(gone), "old_runs_kept": len(old) - len(gone), "days": days}
        return dg.MaterializeResult(metadata={**numbers, "seconds": round(time.monotonic() - began, 1)})

    return run_history


def retention() -> tuple[Any, dg.ScheduleDefinition]:
    """Return the job ``retention``, and the schedule that runs it each night."""
    job = dg.define_asset_job("retention", dg.AssetSelection.assets(KEY), description=WORDS)
    running = dg.DefaultScheduleStatus.RUNNING
    # Apart from upkeep on Sundays at three, which may take both slots for runs.
    return job, dg.ScheduleDefinition("nightly", job=job, cron_schedule="30 1 * * *", default_status=running)


def delete(instance: dg.DagsterInstance, run_id: str) -> None:
    """Delete a run, its events and what it printed."""
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    events = instance.event_log_storage
    if isinstance(events, SqliteEventLogStorage):
        # A file of its own for each run, which Dagster empties and leaves.
        file = events.path_for_shard(run_id)
        storage_of(file).delete(file)


def _ended_before(instance: dg.DagsterInstance, own: dg.DagsterRun, days: int) -> Iterator[str]:
    """Return the runs of this one's code location that ended so many days ago; others may keep theirs."""
    label = own.tags.get(REPOSITORY_LABEL_TAG)
    before = datetime.now(timezone.utc) - timedelta(days=days)
    tags = {REPOSITORY_LABEL_TAG: label} if label else {}
    yield from instance.get_run_ids(RunsFilter(statuses=ENDED, tags=tags, updated_before=before))


def _newest(instance: dg.DagsterInstance, checks: list[dg.AssetCheckKey]) -> set[str]:
    """Return the runs with the newest materialization of any asset, and the newest result of these checks."""
    found = instance.get_latest_materialization_events(instance.get_asset_keys())
    results = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    return {event.run_id for event in found.values() if event} | {r.run_id for r in results.values()}
