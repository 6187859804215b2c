"""A job for each pipeline that keeps its chain up until it is ended from the UI."""

import threading
from collections.abc import Iterator

import dagster as dg

from medallion_assets.declare.order import upstream_first
from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.orchestration.runless_events import materializations
from medallion_assets.runs.streaming import stream_tables


class StreamConfig(dg.Config):
    """How a streaming run goes: seconds between micro-batches, and after how many it ends (0: never)."""

    every_seconds: float = 10.0
    for_seconds: float = 0.0


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
        for moment in stream_tables(tables, place, spark.starter(stays=True), config.every_seconds, stop):
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
