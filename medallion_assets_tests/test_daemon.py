"""The landing sensor under Dagster's own daemon: a file dropped, and gold without a hand laid on it."""

import pytest

from medallion_assets.delta import log
from medallion_assets.simulators import land
from medallion_assets_tests.dagster_home import daemon_up, until

SECONDS = 240
"""A quiet machine needs about 40: sensor tick, run process, Spark."""


@pytest.mark.spark
def test_a_dropped_file_reaches_gold_by_itself_and_each_sensor_run_starts_once(lake, tmp_path):
    land("health", lake.settings.landing, 1)
    gold = lake.root / "health/gold/daily_patient_avg"
    with daemon_up(tmp_path / "dagster_home", lake.root, lake.settings.landing) as said:
        assert until(lambda: log.row_count(gold) > 0, SECONDS), said.read_text()[-3000:]
        assert until(lambda: "RUN_SUCCESS" in said.read_text(), 60)
    assert said.read_text().count('Started execution of run for "health_chain"') == 1
