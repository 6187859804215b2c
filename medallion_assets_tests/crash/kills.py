"""Kills runs with SIGKILL at random instants while files go on landing, and compares with a calm lake.

    python -m medallion_assets_tests.crash.kills FOLDER [KILLS] [SEED]

Each round lands a file for both pipelines, starts ``medallion run`` and kills it, Java and all. After the
last, one run is let end; then every table and quarantine must equal those of a lake nobody disturbed. Of a
table that is filled once, this is so of the files that lay there when it was filled.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from medallion_assets.declare.pipeline import chosen
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.pipelines import PIPELINES
from medallion_assets.settings import Settings
from medallion_assets.simulators import land
from medallion_assets_tests.crash.sweep import differences, everything

MEDALLION = str(Path(sys.executable).with_name("medallion"))
LONGEST_SECONDS = 20.0


def started(folder, lake):
    env = os.environ | {"MEDALLION_LANDING": str(folder / "landing"), "MEDALLION_LAKE": str(folder / lake)}
    return subprocess.Popen(
        [MEDALLION, "run"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )


def killed(folder, after):
    run = started(folder, "shaken")
    time.sleep(after)
    was_alive = run.poll() is None
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    return was_alive


def main(folder, kills, seed):
    chance, hit = random.Random(seed), 0
    for number in range(kills):
        for pipeline in PIPELINES:
            land(pipeline, folder / "landing", 1, with_faults=True)
        after = chance.uniform(1.0, LONGEST_SECONDS)
        alive = killed(folder, after)
        hit += alive
        print(f"kill {number} after {after:4.1f} s {'in its run' if alive else 'too late'}", flush=True)
    said = {lake: started(folder, lake).communicate()[0].decode() for lake in ("shaken", "calm")}
    print(said["shaken"])
    tables = chosen(PIPELINES)
    landing = folder / "landing"
    shaken, calm = (
        everything(Lake(Settings(lake=folder / name, landing=landing)), tables) for name in ("shaken", "calm")
    )
    for table in (table for table in tables if table.once):
        path = Lake(Settings(lake=folder / "shaken", landing=landing)).path(table)
        files = [repr(row["_source_file"]) for row in log.rows(path, "SELECT DISTINCT _source_file FROM t")]
        for name in (table.key, f"{table.key} quarantine"):
            calm[name] = [row for row in calm[name] if any(file in row for file in files)]
    wrong = differences(shaken, calm)
    print("\n".join(wrong) or f"{hit} kills hit a run; all {len(calm)} tables are those of the calm lake")
    return bool(wrong) or not hit or " failed:" in said["shaken"]


if __name__ == "__main__":
    place, kills, seed = [*sys.argv[1:], *["10", "1"][len(sys.argv) - 2 :]][:3]
    sys.exit(main(Path(place).resolve(), int(kills), int(seed)))
