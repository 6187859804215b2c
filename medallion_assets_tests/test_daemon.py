"""The landing sensor under Dagster's own daemon: a file dropped, and gold without a hand laid on it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medallion_assets.delta import log
from medallion_assets.simulators import land

SECONDS = 240
"""A quiet machine needs about 40: sensor tick, run process, Spark."""


@pytest.fixture
def daemon(lake, tmp_path):
    home = tmp_path / "dagster_home"
    home.mkdir()
    shutil.copy("dagster.yaml", home)
    command = [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", "0"]
    with (tmp_path / "dagster.log").open("w") as said:
        process = subprocess.Popen(
            command,
            env=os.environ | {"DAGSTER_HOME": str(home)},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        yield tmp_path / "dagster.log"
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def until(is_so, seconds):
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(1)
    return is_so()


@pytest.mark.spark
def test_a_dropped_file_reaches_gold_by_itself_and_each_sensor_run_starts_once(lake, daemon):
    land("health", lake.settings.landing, 1)
    gold = lake.root / "health/gold/daily_patient_avg"
    words = Path(daemon)
    assert until(lambda: log.row_count(gold) > 0, SECONDS), words.read_text()[-3000:]
    assert until(lambda: "RUN_SUCCESS" in words.read_text(), 60)
    assert words.read_text().count('Started execution of run for "health_chain"') == 1
