"""Health's recordings, cleaned and joined."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import expect, static, stream
from medallion_assets.pipelines.health import bronze
from medallion_assets.pipelines.health.pipeline import health


@health.silver(
    expectations=[
        expect("heartrate_above_zero", "heartrate > 0"),
        expect("known_patient", "_check_known"),
        expect("readable_time", "time IS NOT NULL"),
    ],
)
def recordings_enriched(
    recordings: DataFrame = stream(bronze.recordings),
    patients: DataFrame = static(bronze.patients),
) -> DataFrame:
    """One row per recording with a heart rate, with the name of its patient."""
    # A patient may be delivered twice; a plain join would then double their recordings.
    latest = patients.groupBy("mrn").agg(F.max_by("name", "_source_modified_at").alias("name"))
    known = latest.withColumn("_check_known", F.lit(True))
    joined = recordings.join(F.broadcast(known), "mrn", "left")
    time = F.col("time").try_cast("timestamp").alias("time")
    return joined.select("device_id", "mrn", "name", time, "heartrate", "_source_file", "_check_known")
