"""Read first: the one code location, as a table of contents."""

import dagster as dg

from medallion_assets.orchestration.assets import as_asset, external_specs
from medallion_assets.orchestration.checks import gates
from medallion_assets.orchestration.jobs import upkeep, verb_jobs
from medallion_assets.orchestration.lake_status import lake_status
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.orchestration.sensors import beside_the_chains, landing_sensor
from medallion_assets.orchestration.streaming_job import streaming_job
from medallion_assets.pipelines import PIPELINES

TABLES = [table for pipeline in PIPELINES.values() for table in pipeline.tables.values()]
# A pipeline's landing files to gold in one run: one process, one JVM.
JOBS = {
    name: dg.define_asset_job(
        f"{name}_chain", dg.AssetSelection.groups(name), description=pipeline.description
    )
    for name, pipeline in PIPELINES.items()
}
VERB_JOBS = verb_jobs()

defs = dg.Definitions(
    assets=[
        *(as_asset(table) for table in TABLES),
        *(spec for pipeline in PIPELINES.values() for spec in external_specs(pipeline)),
        lake_status,
    ],
    asset_checks=[gate for table in TABLES for gate in gates(table)],
    jobs=[*JOBS.values(), *VERB_JOBS, *(streaming_job(pipeline) for pipeline in PIPELINES.values())],
    schedules=[upkeep(VERB_JOBS)],
    sensors=[
        *(landing_sensor(pipeline, JOBS[name].name) for name, pipeline in PIPELINES.items()),
        beside_the_chains(),
    ],
    resources={"lake": LakeResource(), "spark": SparkResource()},
    # One process a run: the default gives each table a process, and so a JVM, of its own.
    executor=dg.in_process_executor,
)
