"""Puts a run or a verb back to each of its renames, as if it had died there, and compares what comes after.

    python -m medallion_assets_tests.crash.sweep FOLDER [EVERY] [WORK]

The work is done once, and the lake copied before each EVERY-th publishing step: what a process that died
there would have left. Each trial puts one copy in the lake's place, does the work again, and compares every
table and quarantine with one nobody disturbed. WORK is one of ``works.WORKS``; ``school`` by default. Exits 1
where a trial lost, doubled or stuck.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.session import start_session
from medallion_assets.settings import Settings
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
    "arrival_time",
    "receipt_time",
    "_ingestion_timestamp",
    "tried_at",
    "replay_id",
    "replayed_at",
}

OF_THE_CLOCK = {"commerce/gold/orders_counts"}
"""Tables whose groups are made of the time a run was at: no two lakes have the same."""


def shim(folder):
    """Builds the watched disk; gives its library."""
    library = folder / "watched_disk.so"
    source = Path(__file__).with_name("watched_disk.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def watch(control, told):
    """Has the preloaded disk do as told, in ``watched_disk.c``'s words, with its counts at zero."""
    counts = Path(f"{control}.count")
    counts.touch()
    with counts.open("r+b") as mapped:  # never cut short: the process under trial has it mapped
        mapped.write(bytes(24))
    control.write_text(f"{told}\n")


def contents(path):
    return sorted(repr(lasting(row)) for row in log.rows(path, "SELECT * FROM t"))


def lasting(row):
    """Return what a row has that a repeated run may not change, of a quarantined row's text too."""
    kept = sorted((name, value) for name, value in row.items() if name not in OWN_TO_A_RUN)
    return [(name, lasting(json.loads(v)) if name == "row" and is_object(v) else v) for name, v in kept]


def is_object(text):
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def everything(lake, tables):
    tables = [table for table in tables if table.key not in OF_THE_CLOCK]
    paths = {t.key: lake.path(t) for t in tables} | {
        f"{t.key} quarantine": lake.quarantine(t) for t in tables
    }
    return {name: contents(path) for name, path in paths.items()}


def differences(found, expected):
    """Return, in words, each table and quarantine that does not hold what it should."""
    return [f"{k}: {len(found[k])} rows, not {len(v)}" for k, v in expected.items() if found[k] != v]


def rounded(tables):
    """Return rows as texts whose floating point numbers have nine digits: a sum depends on its order."""
    number = re.compile(r"\d+\.\d+(e-?\d+)?")
    shorter = partial(number.sub, lambda found: f"{float(found[0]):.9g}")
    return {name: sorted(map(shorter, rows)) for name, rows in tables.items()}


class Trials:
    """The lake under trial, and the disk it lies on."""

    def __init__(self, folder, work):
        self.folder = folder
        self.work = work
        self.settings = Settings(lake=folder / "live/lake", landing=folder / "live/landing").resolved()
        self.lake = Lake(self.settings)
        self.control = Path(os.environ["WATCHED_DISK"])

    def run(self, does=None):
        try:
            return (does or self.work.does)(self.work.tables, self.lake, self.spark)
        except Exception as error:
            return [str(error).strip().splitlines()[0]]

    def spark(self):
        return start_session(self.settings, stays=True)

    def prepare(self, every):
        """Does the work, copied on the way; gives what the lake holds in the end, and each step."""
        self.work.first(self.lake)
        assert not self.run(run)
        self.work.second(self.lake)
        shutil.copytree(self.folder / "live/landing", self.folder / "landing")
        watch(self.control, f"1 copy {every} {self.settings.lake}")
        wrong = self.run()
        assert not wrong, wrong
        watch(self.control, f"0 watch 1 {self.folder / 'nowhere'}")
        return everything(self.lake, self.work.tables), Path(f"{self.control}.log").read_text().splitlines()

    def is_over(self, at):
        """Return true where the work had ended at a step, and only a run like any other went on."""
        return bool(self.work.over) and (self.copied(at) / self.work.over).exists()

    def copied(self, at):
        return Path(f"{self.control}.copies/{at}")

    def put_back(self, at):
        shutil.rmtree(self.folder / "live")
        shutil.copytree(self.folder / "landing", self.folder / "live/landing")
        self.copied(at).rename(self.folder / "live/lake")
        # The process that died would have taken what it knew with it.
        self.spark()._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def trial(self, at, step, expected):
        self.put_back(at)
        problems = self.run() + differences(everything(self.lake, self.work.tables), expected)
        where = step.split()[-1].removeprefix(str(self.lake.root))
        print(f"step {at:3d} {'; '.join(problems) or 'held'}  ({where})", flush=True)
        return bool(problems)


def main(folder, every, work="school"):
    folder.mkdir(parents=True, exist_ok=True)
    trials = Trials(folder, WORKS[work]())
    expected, steps = trials.prepare(every)
    points = [at for at in range(0, len(steps), every) if not trials.is_over(at)]
    print(f"{len(steps)} publishing steps, {len(points)} of them tried", flush=True)
    broken = sum(trials.trial(at, steps[at], expected) for at in points)
    print(f"{len(points) - broken} held, {broken} broken")
    return bool(broken)


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    if "WATCHED_DISK" not in os.environ:
        place.mkdir(parents=True, exist_ok=True)
        watch(place / "disk", f"0 watch 1 {place / 'nowhere'}")
        (place / "disk.copies").mkdir()
        env = os.environ | {"WATCHED_DISK": str(place / "disk"), "LD_PRELOAD": str(shim(place))}
        os.execve(sys.executable, [sys.executable, "-m", __spec__.name, *sys.argv[1:]], env)
    sys.exit(main(place, int(sys.argv[2]) if len(sys.argv) > 2 else 1, *sys.argv[3:4]))
