"""What starts runs: a landing sensor a pipeline, and automation for what hangs beside the chains."""

import hashlib
from dataclasses import dataclass

import dagster as dg
from dagster import DagsterRunStatus, RunsFilter

from medallion_assets.declare.order import upstream_first
from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.arrivals import is_filled, is_overdue, last_pass
from medallion_assets.lake.paths import Lake
from medallion_assets.orchestration.assets import landing_key
from medallion_assets.orchestration.resources import LakeResource
from medallion_assets.runtime.has_work import why_not
from medallion_assets.sources import unseen_files
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.errors import BatchRefused

EVERY_SECONDS = 15
UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
]


@dataclass(frozen=True)
class News:
    """What one source has for its bronze table: files the ledger does not know, or has not passed on."""

    table: Table
    new_files: int
    waiting: bool
    fingerprint: str

    def __str__(self) -> str:
        """Return the news as words."""
        name = f"{self.table.pipeline}/{self.table.source.name if self.table.source else self.table.key}"
        if self.new_files:
            return f"{self.new_files} new in {name}"
        return f"files of {name} wait to be loaded" if self.waiting else f"a pass over {name} is due"


def landing_sensor(pipeline: Pipeline, job_name: str) -> dg.SensorDefinition:
    """Return the sensor that asks for the whole chain when files have landed."""

    @dg.sensor(
        name=f"{pipeline.name}_landing",
        job_name=job_name,
        minimum_interval_seconds=EVERY_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Looks into {pipeline.name}'s landing zones, without Spark, and asks for the chain.",
    )
    def landing(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SensorResult | dg.SkipReason:
        if _under_way(context.instance, pipeline.name, job_name):
            return dg.SkipReason(
                f"A run of {pipeline.name} is under way; what it leaves is looked at after it."
            )
        return requested(pipeline, lake.lake())

    return landing


def requested(pipeline: Pipeline, lake: Lake) -> dg.SensorResult | dg.SkipReason:
    """Return one run request for all that is new in the pipeline, or why there is none."""
    news = [n for n in (_news(t, lake) for t in upstream_first(pipeline.tables.values()) if t.source) if n]
    if not news:
        zones = lake.settings.landing / pipeline.name
        return dg.SkipReason(
            f"No file in {zones} that the ledgers do not know, and none that waits to be loaded."
        )
    # By what arrived, never by the clock: however often a tick repeats, arrivals are asked for once.
    key = hashlib.sha256("\n".join(n.fingerprint for n in news).encode()).hexdigest()
    words = "; ".join(str(n) for n in news)
    request = dg.RunRequest(run_key=key, tags={"medallion/arrived": words[:250]})
    return dg.SensorResult(run_requests=[request], asset_events=[_observed(n) for n in news])


def _under_way(instance: dg.DagsterInstance, pipeline: str, job_name: str) -> bool:
    """Return true where a run that may write this pipeline's tables has not ended, its chain's or another."""
    runs = instance.get_runs(RunsFilter(statuses=UNDER_WAY))
    selected = (key for run in runs for key in run.asset_selection or ())
    mine = (job_name, f"{pipeline}_stream")
    return any(run.job_name in mine for run in runs) or any(key.path[0] == pipeline for key in selected)


def beside_the_chains() -> dg.AutomationConditionSensorDefinition:
    """Return the sensor for assets outside the pipelines' groups, so that no table is asked for twice."""
    return dg.AutomationConditionSensorDefinition(
        "beside_the_chains",
        target=dg.AssetSelection.groups("report"),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=EVERY_SECONDS,
    )


def _news(table: Table, lake: Lake) -> News | None:
    assert table.source is not None
    if is_filled(table, lake):
        return None
    folder, ledger = lake.landing(table.pipeline, table.source), lake.ledger(table)
    try:
        new = unseen_files(folder, ledger, table.source, DiscoveryOptions(lake.settings.settle_seconds))
    except BatchRefused as refused:
        # The run says so where a person sees it, and takes what the other sources have.
        return News(table, 0, True, f"{ledger} {log.version(ledger)} {refused}")
    waiting, overdue = not why_not(table, lake), is_overdue(table, lake)
    if not new and not waiting and not overdue:
        return None
    seen = [f"{s.path} {s.size} {s.modified_at.timestamp()}" for s in new]
    seen += [f"pass {last_pass(table, lake)}"] if overdue else []
    return News(table, len(new), waiting, "\n".join([f"{ledger} {log.version(ledger)}", *seen]))


def _observed(news: News) -> dg.AssetObservation:
    return dg.AssetObservation(landing_key(news.table), metadata={"new_files": news.new_files})
