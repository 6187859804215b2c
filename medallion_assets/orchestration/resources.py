"""What assets are given when they run: the lake, and Spark once something needs it."""

from collections.abc import Callable
from typing import Any

from dagster import ConfigurableResource
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from medallion_assets.lake.paths import Lake
from medallion_assets.session import start_session
from medallion_assets.settings import current_settings


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
