"""The code location of a project: every declared table as Dagster assets, checks, jobs and sensors."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import dagster as dg

from medallion_assets.declare.pipeline import Pipeline, chosen, upstream_first
from medallion_assets.declare.table import Table
from medallion_assets.declare.triggers import timings_of
from medallion_assets.operations import VERBS, VerbRequest, VerbResult, carry_out
from medallion_assets.orchestration.assets import as_asset, external_specs, gates, lake_status, step_name
from medallion_assets.orchestration.events import materializations
from medallion_assets.orchestration.notifications import failure_sensor, is_configured
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.orchestration.retention import retention, run_history
from medallion_assets.orchestration.sensors import beside_the_chains, landing_sensor
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.runs.streaming import stream_tables
from medallion_assets.settings import current_settings

DESTROYS = ("reset",)
"""Operations that delete data for good: offered on the command line only."""


class VerbConfig(dg.Config):
    """The options of an operation; each operation reads only its own.

    ``tables`` are keys (``pipeline/layer/table``) or pipelines. A dry run, the default, reports what the
    operation would read, write and change downstream, and does nothing.
    """

    tables: list[str] = []  # noqa: RUF012 - a pydantic field, copied for each instance
    dry_run: bool = True
    ids: list[str] = []  # noqa: RUF012
    rules: list[str] = []  # noqa: RUF012
    reasons: list[str] = []  # noqa: RUF012
    where: str = ""
    fix: str = ""
    why: str = ""
    files: list[str] = []  # noqa: RUF012
    since: str = ""
    until: str = ""
    event_time: str = ""
    days: float = 30

    def request(self, run_id: str) -> VerbRequest:
        """Return the request these options make."""
        files = tuple(self.files)
        choice = QuarantineFilter(tuple(self.ids), tuple(self.rules), tuple(self.reasons), files, self.where)
        return VerbRequest(
            self.dry_run, choice, self.fix, self.why, files, self.since, self.days, False, run_id,
            self.until, self.event_time,
        )  # fmt: skip


def verb_jobs(pipelines: Mapping[str, Pipeline]) -> list[dg.JobDefinition]:
    """Return a job for each operation that deletes nothing for good, over the tables of these pipelines."""
    return [_job(name, pipelines) for name in VERBS if name not in DESTROYS]


def upkeep(jobs: list[dg.JobDefinition]) -> dg.ScheduleDefinition:
    """Return the schedule of ``maintain``: compacts the small files of all tables, early on Sundays."""
    (job,) = (job for job in jobs if job.name == "maintain")
    config = {"ops": {"do_maintain": {"config": {"dry_run": False}}}}
    running = dg.DefaultScheduleStatus.RUNNING
    return dg.ScheduleDefinition("upkeep", job=job, cron_schedule="0 3 * * 0", run_config=config,
                                 default_status=running)  # fmt: skip


def _job(name: str, pipelines: Mapping[str, Pipeline]) -> dg.JobDefinition:
    words = (VERBS[name].__doc__ or "").splitlines()[0]

    @dg.op(name=f"do_{name}", description=words, out={})
    def do(
        context: dg.OpExecutionContext, config: VerbConfig, lake: LakeResource, spark: SparkResource
    ) -> Iterator[dg.AssetObservation]:
        place, request = lake.lake(), config.request(context.run_id)
        tables = chosen(pipelines, config.tables)
        results = [carry_out(name, table, place, spark.starter(), request) for table in tables]
        # Yielded: Dagster drops what a step that fails has logged.
        yield _observation(name, results)
        failed = [f"{result.table}: {result.does}" for result in results if not result.well]
        if failed:
            raise dg.Failure("; ".join(failed)[:2000], allow_retries=False)

    @dg.job(name=name, description=words, tags={"medallion/verb": name})
    def job() -> None:
        do()

    return job


def _observation(name: str, results: list[VerbResult]) -> dg.AssetObservation:
    rows = [_row(result) for result in results]
    head = "| table | result | what | reads | writes | downstream |\n|---|---|---|---|---|---|\n"
    grid = head + "\n".join("| " + " | ".join(row) + " |" for row in rows)
    numbers = {result.table: json.loads(json.dumps(dict(result.found), default=str)) for result in results}
    return dg.AssetObservation(
        dg.AssetKey(["report", "lake_status"]),
        metadata={name: dg.MetadataValue.md(grid), "numbers": dg.MetadataValue.json(numbers)},
    )


def _row(result: VerbResult) -> list[str]:
    well, downstream = "ok" if result.well else "FAILED", ", ".join(result.downstream)
    cells: list[Any] = [result.table, well, result.does, result.reads, result.writes, downstream]
    return [str(cell).replace("|", "\\|") for cell in cells]


class StreamConfig(dg.Config):
    """How a streaming run goes: seconds between micro-batches, and after how many it ends (0: never).

    ``triggers`` has, by table, ``availableNow``, ``once`` or a processing time of its own, as ``1 minute``.
    """

    every_seconds: float = 10.0
    for_seconds: float = 0.0
    triggers: dict[str, str] = {}  # noqa: RUF012


def streaming_job(pipeline: Pipeline) -> dg.JobDefinition:
    """Return the job; each micro-batch is a materialization while the run goes on."""

    @dg.op(name=f"keep_up_{pipeline.name}", out={})
    def keep_up(
        context: dg.OpExecutionContext, config: StreamConfig, lake: LakeResource, spark: SparkResource
    ) -> Iterator[dg.AssetMaterialization]:
        place, stop = lake.lake(), threading.Event()
        tables = upstream_first(pipeline.tables.values())
        clock = threading.Timer(config.for_seconds, stop.set)
        clock.daemon = True
        if config.for_seconds:
            clock.start()
        timings = timings_of(tables, (f"{name}={text}" for name, text in config.triggers.items()))
        session = spark.starter(stays=True)
        for moment in stream_tables(tables, place, session, config.every_seconds, stop, timings):
            if moment.outcome.error:
                context.log.warning(moment.outcome.error)
            for event in materializations(moment.outcome, place, moment.latency_seconds):
                context.log_event(event)
        clock.cancel()
        yield from ()

    @dg.job(name=f"{pipeline.name}_stream", description=f"Keeps {pipeline.name} up with what lands.")
    def stream() -> None:
        keep_up()

    return stream


def build_definitions(
    pipelines: Iterable[Pipeline], resources: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """Return the Dagster definitions of these pipelines; call it once in a project's code location.

    Each table is an asset with its checks; each pipeline has a job that takes its landing files to gold in
    one process, a landing sensor and a streaming job; each operation (plan, doctor, replay ...) is a job.
    Assets of your own go beside them: ``dg.Definitions.merge(build_definitions([shop]), mine)``.

    Args:
        pipelines: The pipelines; their modules must have been imported, so that every table is declared.
        resources: Replacements of the resources ``lake`` and ``spark``, for example
            ``{"spark": SparkResource(spark_config={...})}``.

    Raises:
        ValueError: There is no pipeline, two have one name, or one has no table.
    """
    by_name = _by_name(pipelines)
    tables = [table for pipeline in by_name.values() for table in pipeline.tables.values()]
    chains = {name: _chain(pipeline) for name, pipeline in by_name.items()}
    operations = verb_jobs(by_name)
    assets = [as_asset(table) for table in tables]
    checks = [gates(table) for table in tables]
    owners = {owner for pipeline in by_name.values() for owner in pipeline.owners}
    check_keys = [spec.key for definition in (*assets, *checks) for spec in definition.check_specs]
    retention_job, nightly = retention()
    return dg.Definitions(
        assets=[
            *assets,
            *(spec for pipeline in by_name.values() for spec in external_specs(pipeline)),
            lake_status(by_name),
            run_history(owners, check_keys),
        ],
        asset_checks=checks,
        jobs=[*chains.values(), *operations, *(streaming_job(p) for p in by_name.values()), retention_job],
        schedules=[upkeep(operations), nightly],
        sensors=[
            *(landing_sensor(pipeline, chains[name].name) for name, pipeline in by_name.items()),
            beside_the_chains(),
            *_notifications(tables),
        ],
        resources={"lake": LakeResource(), "spark": SparkResource(), **(resources or {})},
        # One process a run: the default gives each table a process, and so a JVM, of its own.
        executor=dg.in_process_executor,
    )


def _by_name(pipelines: Iterable[Pipeline]) -> dict[str, Pipeline]:
    by_name: dict[str, Pipeline] = {}
    for pipeline in pipelines:
        if pipeline.name in by_name:
            raise ValueError(f"two pipelines have the name {pipeline.name!r}: their tables would share paths")
        if not pipeline.tables:
            raise ValueError(
                f"pipeline {pipeline.name!r} has no table: import the modules that declare its tables before "
                "build_definitions is called"
            )
        by_name[pipeline.name] = pipeline
    if not by_name:
        raise ValueError("build_definitions needs at least one pipeline")
    return by_name


def _notifications(tables: list[Table]) -> list[dg.SensorDefinition]:
    """Return the sensor that tells of failed runs, none where no setting names somebody to tell."""
    if not is_configured(current_settings()):
        return []
    return [failure_sensor({step_name(table): table.key for table in tables})]


def _chain(pipeline: Pipeline) -> Any:
    selection = dg.AssetSelection.groups(pipeline.name)
    return dg.define_asset_job(f"{pipeline.name}_chain", selection, description=pipeline.description)
