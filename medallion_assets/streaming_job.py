"""A job for each pipeline that keeps its chain up until it is ended from the UI."""

import threading
import time
from collections.abc import Iterator

import dagster as dg

from medallion_assets import report
from medallion_assets.resources import LakeResource, SparkResource
from medallion_assets.streaming import stream_tables
from medallion_assets.tables.declare import Pipeline
from medallion_assets.tables.order import upstream_first
from medallion_assets.translate import asset_key


class StreamConfig(dg.Config):
    """How a streaming run goes: seconds between micro-batches, and after how many it ends (0: never)."""

    every_seconds: float = 10.0
    for_seconds: float = 0.0


def streaming_job(pipeline: Pipeline) -> dg.JobDefinition:
    """Gives the job; each micro-batch is a materialization while the run goes on."""

    @dg.op(name=f"keep_up_{pipeline.name}", out={})
    def keep_up(
        context: dg.OpExecutionContext, config: StreamConfig, lake: LakeResource, spark: SparkResource
    ) -> Iterator[dg.AssetMaterialization]:
        place, stop = lake.lake(), threading.Event()
        ends = time.monotonic() + config.for_seconds if config.for_seconds else None
        tables = upstream_first(pipeline.tables.values())
        clock = _stopped_at(ends, stop)
        for moment in stream_tables(tables, place, spark.starter(), config.every_seconds, stop):
            outcome, done = moment.outcome, moment.outcome.refresh
            if outcome.error:
                context.log.warning(outcome.error)
            for batch in done.batches if done else ():
                metadata = report.micro_batch(outcome.table, place, batch, moment.latency_seconds)
                context.log_event(dg.AssetMaterialization(asset_key(outcome.table), metadata=metadata))
        clock.cancel()
        yield from ()

    @dg.job(name=f"{pipeline.name}_stream", description=f"Keeps {pipeline.name} up with what lands.")
    def stream() -> None:
        keep_up()

    return stream


def _stopped_at(ends: float | None, stop: threading.Event) -> threading.Timer:
    clock = threading.Timer(max(0.0, (ends or time.monotonic()) - time.monotonic()), stop.set)
    clock.daemon = True
    if ends is not None:
        clock.start()
    return clock
