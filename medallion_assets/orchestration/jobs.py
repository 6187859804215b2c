"""The operations in Dagster's launchpad: a job for each, with its result for every table in the run's log."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from medallion_assets.declare.order import chosen
from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.operations import VERBS, VerbRequest, VerbResult, carry_out
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.quarantine.choice import QuarantineFilter

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
    days: float = 30

    def request(self, run_id: str) -> VerbRequest:
        """Return the request these options make."""
        files = tuple(self.files)
        choice = QuarantineFilter(tuple(self.ids), tuple(self.rules), tuple(self.reasons), files, self.where)
        return VerbRequest(
            self.dry_run, choice, self.fix, self.why, files, self.since, self.days, False, run_id
        )


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

    @dg.op(name=f"do_{name}", description=words)
    def do(
        context: dg.OpExecutionContext, config: VerbConfig, lake: LakeResource, spark: SparkResource
    ) -> None:
        place, request = lake.lake(), config.request(context.run_id)
        tables = chosen(pipelines, config.tables)
        results = [carry_out(name, table, place, spark.starter(), request) for table in tables]
        context.log_event(_observation(name, results))
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
    return dg.AssetObservation(
        dg.AssetKey(["report", "lake_status"]), metadata={name: dg.MetadataValue.md(grid)}
    )


def _row(result: VerbResult) -> list[str]:
    well, downstream = "ok" if result.well else "FAILED", ", ".join(result.downstream)
    cells: list[Any] = [result.table, well, result.does, result.reads, result.writes, downstream]
    return [str(cell).replace("|", "\\|") for cell in cells]
