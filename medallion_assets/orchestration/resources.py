"""What assets are given when they run, and micro-batches told to Dagster from outside of it."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dagster import ConfigurableResource
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from medallion_assets.lake.paths import Lake
from medallion_assets.runs.run import Outcome
from medallion_assets.session import start_session
from medallion_assets.settings import current_settings

if TYPE_CHECKING:
    import dagster as dg


class LakeResource(ConfigurableResource[Lake]):
    """The lake this process's environment names; it is read when asked for, never stored with a run."""

    def lake(self) -> Lake:
        """Return the lake."""
        return Lake(current_settings())


class SparkResource(LazyPySparkResource):
    """Dagster's lazy Spark resource with this project's session: Java and jars are looked for on first use.

    ``spark_config`` wins over the environment's options, and those over ours.
    """

    spark_config: dict[str, Any] = {}  # noqa: RUF012 - a pydantic field, copied for each instance

    def starter(self, stays: bool = False) -> Callable[[], SparkSession]:
        """Return what starts the process's one session, for the engine to call only where it must.

        ``stays`` is true of a session kept for many rounds.
        """

        def session() -> SparkSession:
            self._begin(stays)
            begun: SparkSession = self.spark_session
            return begun

        return session

    def _init_session(self) -> None:
        self._begin(stays=False)

    def _begin(self, stays: bool) -> None:
        if self._spark_session is None:
            settings = current_settings()
            mine = settings.spark_conf | self.spark_config
            self._spark_session = start_session(settings.model_copy(update={"spark_conf": mine}), stays)


def announced(outcome: Outcome, lake: Lake, latency_seconds: float | None = None) -> int:
    """Tells Dagster of an outcome's micro-batches; gives how many, 0 where no instance is named.

    The instance is the one ``DAGSTER_HOME`` names. Without it nothing is told, and Dagster, which takes
    more than a second to import, is not even loaded.
    """
    done = outcome.refresh
    if not os.environ.get("DAGSTER_HOME") or done is None or not done.batches:
        return 0
    import dagster as dg

    with dg.DagsterInstance.get() as instance:
        for event in materializations(outcome, lake, latency_seconds):
            instance.report_runless_asset_event(event)
        for check in _checks(outcome):
            instance.report_runless_asset_event(check)
    return len(done.batches)


def materializations(
    outcome: Outcome, lake: Lake, latency_seconds: float | None
) -> "Iterator[dg.AssetMaterialization]":
    """Return a materialization for each micro-batch of an outcome."""
    import dagster as dg

    from medallion_assets.orchestration import metadata as report
    from medallion_assets.orchestration.assets import asset_key, quarantine_key

    table, done = outcome.table, outcome.refresh
    for batch in done.batches if done else ():
        metadata = report.micro_batch(table, lake, batch, latency_seconds)
        yield dg.AssetMaterialization(asset_key(table), metadata=metadata)
    if done and done.total("quarantined"):
        yield dg.AssetMaterialization(quarantine_key(table), metadata=report.quarantine(table, lake, done))


def _checks(outcome: Outcome) -> "Iterator[dg.AssetCheckEvaluation]":
    """Return how the table's checks stand after it."""
    import dagster as dg

    from medallion_assets.orchestration.assets import asset_key

    for verdict in outcome.verdicts:
        yield dg.AssetCheckEvaluation(
            asset_key=asset_key(outcome.table),
            check_name=verdict.name,
            passed=verdict.passed,
            metadata=verdict.numbers,
            severity=dg.AssetCheckSeverity.ERROR if verdict.blocking else dg.AssetCheckSeverity.WARN,
            description=verdict.words,
            blocking=verdict.blocking,
        )
