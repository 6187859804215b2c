"""The verbs in Dagster's launchpad: a job for each, with what it told of every table in the run's log."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from medallion_assets.declare.order import chosen
from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.operations import VERBS, VerbRequest, VerbResult
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.quarantine.choice import QuarantineFilter

DESTROYS = ("reset",)
"""Verbs that take data away for good: done from the command line only."""


class VerbConfig(dg.Config):
    """What a verb is asked for; each reads only what concerns it.

    ``tables`` are keys (``pipeline/layer/table``) or pipelines; a dry run, the default, says what it
    would read, write and touch downstream, and does nothing.
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

    def asked(self, run_id: str) -> VerbRequest:
        """Return the config as a verb takes it."""
        files = tuple(self.files)
        choice = QuarantineFilter(tuple(self.ids), tuple(self.rules), tuple(self.reasons), files, self.where)
        return VerbRequest(
            self.dry_run, choice, self.fix, self.why, files, self.since, self.days, False, run_id
        )


def verb_jobs(pipelines: Mapping[str, Pipeline]) -> list[dg.JobDefinition]:
    """Return a job for each verb that takes nothing away for good, over the tables of these pipelines."""
    return [_job(name, pipelines) for name in VERBS if name not in DESTROYS]


def upkeep(jobs: list[dg.JobDefinition]) -> dg.ScheduleDefinition:
    """Return the schedule of ``maintain``: small files of all tables put together, early on Sundays."""
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
        place, asked = lake.lake(), config.asked(context.run_id)
        told = [VERBS[name](t, place, spark.starter(), asked) for t in chosen(pipelines, config.tables)]
        context.log_event(_observation(name, told))
        ill = [f"{t.table}: {t.does}" for t in told if not t.well]
        if ill:
            raise dg.Failure("; ".join(ill)[:2000], allow_retries=False)

    @dg.job(name=name, description=words, tags={"medallion/verb": name})
    def job() -> None:
        do()

    return job


def _observation(name: str, told: list[VerbResult]) -> dg.AssetObservation:
    rows = [_row(t) for t in told]
    head = "| table | well | what | reads | writes | downstream |\n|---|---|---|---|---|---|\n"
    grid = head + "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return dg.AssetObservation(
        dg.AssetKey(["report", "lake_status"]), metadata={name: dg.MetadataValue.md(grid)}
    )


def _row(told: VerbResult) -> list[str]:
    cells: list[Any] = [told.table, "yes" if told.well else "no", told.does, told.reads, told.writes,
                        ", ".join(told.downstream)]  # fmt: skip
    return [str(cell).replace("|", "\\|") for cell in cells]
