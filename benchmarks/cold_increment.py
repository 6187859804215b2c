"""One more file of 1,000 records to gold in a fresh process: ours against plain notebooks, in turn.

    python -m benchmarks.cold_increment [ROUNDS]

Each round lands a file and runs the notebook (tuned and stock) and ``medallion run school`` on it, each in
a process of its own, in turn; the first round warms caches, makes the archive and is not counted.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from medallion_assets.simulators import land

MEDALLION = str(Path(sys.executable).with_name("medallion"))


def seconds(command, env):
    started = time.monotonic()
    subprocess.run(command, env=env, check=True, capture_output=True)
    return time.monotonic() - started


def main(rounds):
    folder = Path(tempfile.mkdtemp(prefix="cold-increment-"))
    env = os.environ | {"MEDALLION_LAKE": str(folder / "lake"), "MEDALLION_LANDING": str(folder / "landing")}
    (folder / "stock").mkdir()
    (folder / "stock" / "landing").symlink_to(folder / "landing")
    notebook = [sys.executable, "-m", "benchmarks.notebook"]
    sides = {
        "ours": [MEDALLION, "run", "school"],
        "tuned notebook": [*notebook, str(folder), "tuned"],
        "stock notebook": [*notebook, str(folder / "stock")],
    }
    measured = {name: [] for name in sides}
    for turn in range(rounds + 1):
        land("school", folder / "landing", 1)
        for name, command in sides.items():
            took = seconds(command, env)
            print(f"round {turn} {name:15s} {took:6.1f} s{'' if turn else '  (not counted)'}", flush=True)
            if turn:
                measured[name].append(took)
    for name in list(sides)[1:]:
        ratios = [a / b for a, b in zip(measured["ours"], measured[name], strict=True)]
        print(f"ours / {name}: {statistics.median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
