"""What a warm increment of 1,000 records costs: Spark jobs started, Delta logs opened."""

from collections import Counter

import pytest
from deltalake import DeltaTable

from medallion_assets.delta import log
from medallion_assets.pipelines.health import bronze, gold, silver
from medallion_assets.runs.run import refresh
from medallion_assets.simulators import land

pytestmark = pytest.mark.spark
JOBS = {bronze.recordings: 3, silver.recordings_enriched: 4, gold.daily_patient_avg: 2}


@pytest.fixture
def opened(monkeypatch):
    """Counts how often each log is opened."""
    times = Counter()

    class Counted(DeltaTable):
        def __init__(self, place, *more, **named):
            times[place] += 1
            super().__init__(place, *more, **named)

    monkeypatch.setattr(log, "DeltaTable", Counted)
    return times


def test_a_warm_increment_opens_each_log_once_and_starts_few_jobs(lake, spark, opened):
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    land("health", lake.settings.landing, 1)
    refresh(bronze.patients, lake, lambda: spark)
    for increment in range(3):
        land("health", lake.settings.landing, 1)
        for table, most in JOBS.items():
            opened.clear()
            before = scheduler.numTotalJobs()
            done = refresh(table, lake, lambda: spark)
            started = scheduler.numTotalJobs() - before
            assert done.total("written") > 0, table.key
            assert not increment or started <= most, f"{table.key}: {started} jobs"
            assert not increment or set(opened.values()) == {1}, f"{table.key}: {opened}"
