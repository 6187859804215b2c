"""What starts runs: one sensor per pipeline, and automation for assets outside of the pipelines."""

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from medallion_assets.declare.pipeline import Pipeline, upstream_first
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.arrivals import is_filled, is_overdue, last_pass, waiting_offsets
from medallion_assets.lake.paths import Lake
from medallion_assets.orchestration.assets import landing_key
from medallion_assets.orchestration.resources import LakeResource
from medallion_assets.replay.replay import is_pending
from medallion_assets.runtime.static_changes import why_not
from medallion_assets.sources import unseen_files
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.file_events import Queue

EVERY_SECONDS = 15
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 3600.0
"""Seconds before a run is requested again for a table that the last run did not move; doubled each time."""

UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
]


@dataclass(frozen=True)
class News:
    """Why a table needs a run.

    Attributes:
        table: The table.
        reason: New files, an upstream that is ahead, or an error, as a phrase to read.
        new_files: How many landing files the ledger does not know.
        arrived: Names the new files, or the pass that is due; empty where the work is older than that.
    """

    table: Table
    reason: str
    new_files: int = 0
    arrived: str = ""


@dataclass(frozen=True)
class Attempt:
    """A table when a run was last requested: its version, what had arrived, how many runs it had at that."""

    version: str
    arrived: str = ""
    tries: int = 1


@dataclass(frozen=True)
class Requests:
    """What the sensor remembers in its cursor: how many runs it requested, when the last, and for what."""

    count: int = 0
    at: float = 0.0
    tables: dict[str, Attempt] = field(default_factory=dict)

    @classmethod
    def from_cursor(cls, cursor: str) -> "Requests":
        """Return the requests a cursor holds; none for an empty one."""
        if not cursor:
            return cls()
        kept = json.loads(cursor)
        tables = {key: Attempt(*attempt) for key, attempt in kept["tables"].items()}
        return cls(kept["count"], kept["at"], tables)

    def as_cursor(self) -> str:
        """Return the cursor that holds these requests."""
        tables = {key: [a.version, a.arrived, a.tries] for key, a in self.tables.items()}
        return json.dumps({"count": self.count, "at": self.at, "tables": tables})

    def due(self, news: News, version: str) -> float:
        """Return when a run may be requested for this news, in seconds since 1970; 0 for at once.

        A table that has new files, or has moved since the last request, is due at once. One that the last
        requested run left where it was waits, longer after each run.
        """
        last = self.tables.get(news.table.key)
        if last is None or last.version != version or news.arrived not in ("", last.arrived):
            return 0.0
        return self.at + min(FIRST_PAUSE * 2.0 ** (last.tries - 1), LONGEST_PAUSE)

    def after(self, found: list[News], versions: dict[str, str], now: float) -> "Requests":
        """Return the requests with one more for this news; ``versions`` are those of all the tables."""
        by_key = {news.table.key: news for news in found}
        tables = {}
        for key, version in versions.items():
            last, news = self.tables.get(key), by_key.get(key)
            again = news is not None and last is not None and last.version == version
            tries = last.tries + 1 if again and last else 1
            tables[key] = Attempt(version, news.arrived if news else "", tries)
        return Requests(self.count + 1, now, tables)


def landing_sensor(pipeline: Pipeline, job_name: str) -> dg.SensorDefinition:
    """Return the sensor that requests a run of the chain when a table of the pipeline has work to do."""

    @dg.sensor(
        name=f"{pipeline.name}_landing",
        job_name=job_name,
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Requests a run when files have landed for {pipeline.name}, or when one of its tables "
        "is behind its upstream. Reads listings and Delta logs only; starts no Spark.",
    )
    def landing(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult | dg.SkipReason:
        if _under_way(context.instance, pipeline.name, job_name):
            return dg.SkipReason(f"A run of {pipeline.name} is under way; its tables are checked after it.")
        return requested(pipeline, lake.lake(), context.cursor or "")

    return landing


def requested(
    pipeline: Pipeline, lake: Lake, cursor: str = "", now: float | None = None
) -> dg.SensorResult | dg.SkipReason:
    """Return one run request for every table of the pipeline that has work, or the reason for none.

    Args:
        pipeline: The pipeline.
        lake: Where its tables and landing zones are.
        cursor: What the last tick returned as cursor.
        now: Seconds since 1970; the clock's where None.
    """
    tables = upstream_first(pipeline.tables.values())
    found = [news for table in tables for news in _news(table, lake)]
    if not found:
        zones = lake.settings.landing / pipeline.name
        return dg.SkipReason(f"No new file in {zones}, and no table of {pipeline.name} is behind.")
    now, before = time.time() if now is None else now, Requests.from_cursor(cursor)
    versions = {table.key: _version(table, lake) for table in tables}
    soonest = min(before.due(news, versions[news.table.key]) for news in found)
    if soonest > now:
        at = datetime.fromtimestamp(soonest, timezone.utc).strftime("%H:%M:%S")
        return dg.SkipReason(
            f"The last run did not help: {_words(found)}. The next run is requested at {at} UTC, and at once "
            "when a file lands; the last run's log says what to mend."
        )
    # Of the cursor, never of the clock: a tick that died before its cursor was stored requests the same run.
    states = [f"{n.table.key} {versions[n.table.key]} {n.arrived}" for n in found]
    key = hashlib.sha256("\n".join([str(before.count), *states]).encode()).hexdigest()
    request = dg.RunRequest(run_key=key, tags={"medallion/arrived": _words(found)[:250]})
    return dg.SensorResult(
        run_requests=[request],
        asset_events=[_observed(news) for news in found if news.arrived],
        cursor=before.after(found, versions, now).as_cursor(),
    )


def beside_the_chains() -> dg.AutomationConditionSensorDefinition:
    """Return the sensor for assets outside the pipelines' groups, so that no table is requested twice."""
    return dg.AutomationConditionSensorDefinition(
        "beside_the_chains",
        target=dg.AssetSelection.groups("report"),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=EVERY_SECONDS,
    )


def _under_way(instance: dg.DagsterInstance, pipeline: str, job_name: str) -> bool:
    """Return true where a run that may write this pipeline's tables has not ended, its chain's or another."""
    runs = instance.get_runs(RunsFilter(statuses=UNDER_WAY))
    selected = (key for run in runs for key in run.asset_selection or ())
    jobs = (job_name, f"{pipeline}_stream")
    return any(run.job_name in jobs for run in runs) or any(key.path[0] == pipeline for key in selected)


def _news(table: Table, lake: Lake) -> Iterator[News]:
    try:
        news = _arrivals(table, lake) if table.source else None
        if news:
            yield news
        elif is_pending(table, lake):
            yield News(table, f"a replay of {table.key} is not finished")
        elif any(not why_not(flow, lake) for flow in (table, *table.flows)):
            behind = f"{table.key} is behind its upstream"
            yield News(table, f"files of {_zone(table)} wait to be loaded" if table.source else behind)
    except (RuntimeError, OSError) as error:
        # One table that cannot be read must not keep the sensor from the others.
        yield News(table, f"{table.key} cannot be read ({' '.join(str(error).split())[:120]})")


def _arrivals(table: Table, lake: Lake) -> News | None:
    """Return what a landing zone has that discovery has not seen, None where it has nothing."""
    if table.source is None or is_filled(table, lake):
        return None
    folder, ledger = lake.landing(table.pipeline, table.source), lake.ledger(table)
    if table.source.kafka and (waits := waiting_offsets(table, lake)):
        name = hashlib.sha256(waits.mark.encode()).hexdigest()[:16]
        return News(table, f"{waits.offsets} new offsets of topic {table.source.kafka.name}", 0, name)
    overdue = is_overdue(table, lake)
    if table.source.file_events and not overdue:
        waiting = Queue(table.source.file_events).waiting()
        words = f"{waiting} file events of {_zone(table)} wait in the queue"
        return News(table, words, waiting, f"{waiting} events") if waiting else None
    look = DiscoveryOptions(lake.settings.settle_seconds)
    if not table.source.file_events and (new := unseen_files(folder, ledger, table.source, look)):
        seen = "\n".join(f"{s.path} {s.size} {s.modified_at.timestamp()}" for s in new)
        name = hashlib.sha256(seen.encode()).hexdigest()[:16]
        return News(table, f"{len(new)} new in {_zone(table)}", len(new), name)
    if overdue:
        return News(table, f"a pass over {_zone(table)} is due", 0, f"pass {last_pass(table, lake)}")
    return None


def _zone(table: Table) -> str:
    return f"{table.pipeline}/{table.source.name}" if table.source else table.key


def _version(table: Table, lake: Lake) -> str:
    try:
        return str(log.version(lake.path(table)))
    except (RuntimeError, OSError):
        return "unreadable"


def _words(found: list[News]) -> str:
    return "; ".join(news.reason for news in found)


def _observed(news: News) -> dg.AssetObservation:
    return dg.AssetObservation(landing_key(news.table), metadata={"new_files": news.new_files})
