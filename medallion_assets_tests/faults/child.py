"""A process of its own that takes a trial's shop through, once or for some seconds.

python -m medallion_assets_tests.faults.child FOLDER [SECONDS] [TABLE ...]
"""

import sys
import time
from pathlib import Path

from medallion_assets.runs.run import refresh
from medallion_assets.session import start_session
from medallion_assets_tests.faults.trial import ReplayPlan


def main(folder, seconds, names):
    trial = ReplayPlan(folder, lambda: start_session(trial.lake.settings))
    tables = [t for t in trial.tables if t.name in names or not names]
    end, rounds = time.monotonic() + seconds, 0
    while not rounds or time.monotonic() < end:
        for table in tables:
            refresh(table, trial.lake, trial._spark)
        rounds += 1
        print(f"round {rounds}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0, sys.argv[3:])
