"""Health's records as they landed."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.pipelines.health.pipeline import health

RECORDING = "device_id INT, mrn BIGINT, time STRING, heartrate DOUBLE"


@health.bronze()
def recordings(
    files: DataFrame = health.landing(
        "recordings", format="json", schema=RECORDING, schema_hints="time DOUBLE"
    ),
) -> DataFrame:
    """One row per heart-rate recording, as it landed, with the time and file it came in."""
    return files.withColumns({"receipt_time": F.current_timestamp(), "source_file": F.col("_source_file")})


@health.bronze()
def patients(
    files: DataFrame = health.landing("patients", format="csv", schema="mrn BIGINT, name STRING"),
) -> DataFrame:
    """One row per delivered patient, as it landed."""
    return files
