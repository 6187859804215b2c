"""The resources of the assets: the lake, and the Spark session."""

from collections.abc import Callable
from typing import Any

from dagster import ConfigurableResource
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from medallion_assets.lake.paths import Lake
from medallion_assets.session import start_session
from medallion_assets.settings import current_settings


class LakeResource(ConfigurableResource[Lake]):
    """The lake of this process's settings, which are read at each use and not stored with a run."""

    def lake(self) -> Lake:
        """Return the lake."""
        return Lake(current_settings())


class SparkResource(LazyPySparkResource):
    """Dagster's lazy Spark resource with this project's session: Java and jars are looked for on first use.

    ``spark_config`` wins over the environment's options, and those over ours.
    """

    spark_config: dict[str, Any] = {}  # noqa: RUF012 - a pydantic field, copied for each instance

    def starter(self, stays: bool = False) -> Callable[[], SparkSession]:
        """Return a function that starts the process's one session, for callers that may not need it.

        Args:
            stays: True for a session that is kept for many rounds.
        """

        def session() -> SparkSession:
            self._begin(stays)
            started: SparkSession = self.spark_session
            return started

        return session

    def _init_session(self) -> None:
        self._begin(stays=False)

    def _begin(self, stays: bool) -> None:
        if self._spark_session is None:
            settings = current_settings()
            options = settings.spark_conf | self.spark_config
            self._spark_session = start_session(settings.model_copy(update={"spark_conf": options}), stays)
