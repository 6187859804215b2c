"""The code location of a project: every declared table as Dagster assets, checks, jobs and sensors."""

from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.orchestration.assets import as_asset, external_specs
from medallion_assets.orchestration.checks import gates
from medallion_assets.orchestration.jobs import upkeep, verb_jobs
from medallion_assets.orchestration.lake_status import lake_status
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.orchestration.sensors import beside_the_chains, landing_sensor
from medallion_assets.orchestration.streaming_job import streaming_job


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
    return dg.Definitions(
        assets=[
            *(as_asset(table) for table in tables),
            *(spec for pipeline in by_name.values() for spec in external_specs(pipeline)),
            lake_status(by_name),
        ],
        asset_checks=[gate for table in tables for gate in gates(table)],
        jobs=[*chains.values(), *operations, *(streaming_job(p) for p in by_name.values())],
        schedules=[upkeep(operations)],
        sensors=[
            *(landing_sensor(pipeline, chains[name].name) for name, pipeline in by_name.items()),
            beside_the_chains(),
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


def _chain(pipeline: Pipeline) -> Any:
    selection = dg.AssetSelection.groups(pipeline.name)
    return dg.define_asset_job(f"{pipeline.name}_chain", selection, description=pipeline.description)
