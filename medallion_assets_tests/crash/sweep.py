"""Crashes a run or a verb at its renames, one after another, in one JVM, and compares what comes after.

    python -m medallion_assets_tests.crash.sweep FOLDER [EVERY] [WORK]

Each trial puts the lake back as it was after a first file, lands a second one, freezes the disk at one
publishing step, does its work (which fails), thaws it, does it again, and compares every table and
quarantine with one nobody disturbed. WORK is one of ``works.WORKS``; ``school`` by default. Exits 1 where
a trial lost, doubled or stuck, or where its disk never froze.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from medallion_assets.delta import log
from medallion_assets.session import start_session
from medallion_assets.settings import Settings
from medallion_assets.tables.standing.lake import Lake
from medallion_assets_tests.crash.works import WORKS, run

# What an undisturbed run and a repeated one may differ in.
OWN_TO_A_RUN = {
    "_ingested_at",
    "_batch_id",
    "_source_modified_at",
    "quarantined_at",
    "entry_id",
    "run_id",
    "batch_id",
    "processing_time",
    "tried_at",
    "replay_id",
}


def shim(folder):
    """Builds the frozen disk; gives its library."""
    library = folder / "frozen_disk.so"
    source = Path(__file__).with_name("frozen_disk.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


def contents(path):
    rows = log.rows(path, "SELECT * FROM t")
    return sorted(repr(sorted((k, v) for k, v in row.items() if k not in OWN_TO_A_RUN)) for row in rows)


def everything(lake, tables):
    paths = {t.key: lake.path(t) for t in tables} | {
        f"{t.key} quarantine": lake.quarantine(t) for t in tables
    }
    return {name: contents(path) for name, path in paths.items()}


def differences(found, expected):
    """Gives, in words, each table and quarantine that does not hold what it should."""
    return [f"{k}: {len(found[k])} rows, not {len(v)}" for k, v in expected.items() if found[k] != v]


class Trials:
    """The lake under trial, and the disk it lies on."""

    def __init__(self, folder, work):
        self.folder = folder
        self.work = work
        self.settings = Settings(lake=folder / "live/lake", landing=folder / "live/landing").resolved()
        self.lake = Lake(self.settings)
        self.control = Path(os.environ["FROZEN_DISK"])
        self.number = 0

    def disk(self, at):
        self.number += 1
        with Path(f"{self.control}.count").open("r+b") as count:
            count.write(bytes(24))
        self.control.write_text(f"{self.number} {at} {self.settings.lake}\n")

    def steps(self):
        lines = Path(f"{self.control}.log").read_text().splitlines()
        return [line for line in lines if line.startswith(f"{self.number} ")]

    def run(self, does=None):
        try:
            return (does or self.work.does)(
                self.work.tables, self.lake, lambda: start_session(self.settings, stays=True)
            )
        except Exception as error:
            return [str(error).strip().splitlines()[0]]

    def restart(self):
        shutil.rmtree(self.folder / "live", ignore_errors=True)
        shutil.copytree(self.folder / "before", self.folder / "live")

    def prepare(self):
        self.work.first(self.lake)
        assert not self.run(run)
        self.work.second(self.lake)
        shutil.copytree(self.folder / "live", self.folder / "before")
        self.disk(-1)
        wrong = self.run()
        assert not wrong, wrong
        return everything(self.lake, self.work.tables), len(self.steps())

    def trial(self, at, expected):
        self.restart()
        self.disk(at)
        self.run()
        froze = any(" FROZEN " in line for line in self.steps())
        where = next((line.split()[-1] for line in self.steps() if " FROZEN " in line), "nowhere")
        self.disk(-1)
        stuck = self.run()
        wrong = differences(everything(self.lake, self.work.tables), expected)
        problems = stuck + wrong + ([] if froze else ["the disk never froze"])
        print(
            f"step {at:3d} {'; '.join(problems) or 'held'}  ({where.removeprefix(str(self.lake.root))})",
            flush=True,
        )
        return bool(problems)


def main(folder, every, work="school"):
    folder.mkdir(parents=True, exist_ok=True)
    trials = Trials(folder, WORKS[work]())
    expected, steps = trials.prepare()
    points = range(0, steps, every)
    print(f"{steps} publishing steps, {len(points)} of them tried", flush=True)
    broken = sum(trials.trial(at, expected) for at in points)
    print(f"{len(points) - broken} held, {broken} broken")
    return bool(broken)


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    if "FROZEN_DISK" not in os.environ:
        place.mkdir(parents=True, exist_ok=True)
        env = os.environ | {"FROZEN_DISK": str(place / "disk"), "LD_PRELOAD": str(shim(place))}
        (place / "disk").write_text(f"0 -1 {place / 'nowhere'}\n")
        (place / "disk.count").write_bytes(bytes(24))
        os.execve(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]], env)
    sys.exit(main(place, int(sys.argv[2]) if len(sys.argv) > 2 else 1, *sys.argv[3:4]))
