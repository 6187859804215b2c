"""A run that dies at a publishing step, and the one after it: nothing lost, doubled or stuck."""

import os
import shutil
import subprocess
import sys

import pytest

SAMPLES = {"school": 14, "full_refresh": 110}
"""Every so many steps; `python -m medallion_assets_tests.crash.sweep FOLDER 1 WORK` tries each."""

# Each starts a session of its own and takes minutes.
WORKS = ["school", pytest.param("full_refresh", marks=pytest.mark.thorough)]


@pytest.mark.spark
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler here to build the watched disk with")
@pytest.mark.skipif(sys.platform != "linux", reason="the watched disk is preloaded the way Linux does it")
@pytest.mark.parametrize("work", WORKS)
def test_work_that_died_at_a_step_is_made_good_by_doing_it_again(tmp_path, work):
    command = [sys.executable, "-m", "medallion_assets_tests.crash.sweep", str(tmp_path)]
    command += [str(SAMPLES[work]), work]
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEDALLION_L")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    steps = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    assert done.returncode == 0, "\n".join(steps) + done.stderr[-2000:]
    assert len(steps) >= 3
