"""A run that dies at a publishing step, and the one after it: nothing lost, doubled or stuck."""

import os
import shutil
import subprocess
import sys

import pytest

EVERY = 6
"""A sample for each change; `python -m medallion_assets_tests.crash.sweep FOLDER` tries every step."""


@pytest.mark.spark
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler here to build the frozen disk with")
@pytest.mark.skipif(sys.platform != "linux", reason="the frozen disk is preloaded the way Linux does it")
def test_a_school_run_frozen_at_a_step_is_made_good_by_the_next_one(tmp_path):
    command = [sys.executable, "-m", "medallion_assets_tests.crash.sweep", str(tmp_path), str(EVERY)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEDALLION_L")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    steps = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    assert done.returncode == 0, "\n".join(steps) + done.stderr[-2000:]
    assert len(steps) >= 5
