"""Health's answer: how a patient's heart beat on a day."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import stream
from medallion_assets.pipelines.health import silver
from medallion_assets.pipelines.health.pipeline import health


@health.gold(output_mode="complete", row_count_column="recordings")
def daily_patient_avg(recordings: DataFrame = stream(silver.recordings_enriched)) -> DataFrame:
    """One row per patient and day, with the mean of the day's heart rates."""
    by_day = recordings.groupBy("mrn", "name", F.date_trunc("DD", "time").alias("date"))
    return by_day.agg(F.avg("heartrate").alias("avg_heartrate"), F.count("*").alias("recordings"))
