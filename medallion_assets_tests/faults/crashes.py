"""Deaths of processes: at the steps that make a file visible, and by SIGKILL at random (A1 to A5)."""

import os
import shutil
import subprocess
import sys

import pytest

from medallion_assets_tests.faults.trial import fault

KILLS = 8
SWEEPS = {
    "A1": ("school", 5, "the run of a pipeline dies as a file becomes visible: bronze, quarantine, joins"),
    "A2": ("shop", 6, "the same of type 2 history, a gate and both kinds of gold"),
    "A4": ("dagster", 8, "the same in Dagster"),
}
"""By row: the work of ``crash.sweep``, how many steps are left out between two, and what it is."""


def swept(work, every):
    def run(trial):
        if sys.platform != "linux" or not shutil.which("cc"):
            pytest.skip("the watched disk needs Linux and a C compiler")
        said = ended("sweep", trial, str(every), work)
        return f"{said[-1]}, of {said[0].split()[0]} steps each {every}th tried"

    return run


for row, (work, every, words) in SWEEPS.items():
    fault(row, words, "0 lost, 0 doubled, 0 stuck")(swept(work, every))


@fault(
    "A5", f"{KILLS} times SIGKILL to the run and its Java, 1 to 20 s after its start", "a calm lake's tables"
)
def killed_at_random(trial):
    return ended("kills", trial, str(KILLS), "5")[-1]


def ended(command, trial, *asked):
    """Run a command of ``crash`` in a process of its own; gives its lines, and fails where it does."""
    module = f"medallion_assets_tests.crash.{command}"
    folder = str(trial.lake.root.parent / command)
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEDALLION_L")}
    done = subprocess.run(
        [sys.executable, "-m", module, folder, *asked], env=env, capture_output=True, text=True, check=False
    )
    said = done.stdout.strip().splitlines()
    wrong = [line for line in said if line.startswith("step ") and "held" not in line] or said[-3:]
    assert done.returncode == 0, "; ".join(wrong) or done.stderr[-300:]
    return said
