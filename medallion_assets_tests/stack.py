"""Run all three pipelines beyond one machine, kill each part once, and compare with a laptop's runs.

    python -m medallion_assets_tests.stack FOLDER [PIPELINE ...]

Files of all pipelines, or of these, land in instalments, which the sensors of a whole deployment
(``deployment``) take; a Spark worker, a run's process and the store are killed with SIGKILL while a run is
under way. After each instalment the same files are copied to a disk and run there. Exits 1 where a table
differs in the end.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import psutil
from dagster._core.instance.ref import InstanceRef

from medallion_assets.declare.pipeline import chosen
from medallion_assets.lake.paths import Lake
from medallion_assets.pipelines import PIPELINES
from medallion_assets.settings import Settings
from medallion_assets_tests.crash.sweep import differences, everything, rounded
from medallion_assets_tests.dagster_home import PROJECT, until
from medallion_assets_tests.deployment import deployed, landed, store_client, tell_queue
from medallion_assets_tests.s3_server import BUCKET

CAUGHT_UP = 900
"""Seconds for an instalment: three runs, each with a session on the cluster, on as few as two cores."""

Status = dg.DagsterRunStatus
UNDER_WAY = (Status.NOT_STARTED, Status.QUEUED, Status.STARTING, Status.STARTED, Status.CANCELING)


def instance():
    """Open the shared Dagster instance."""
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(os.environ["DAGSTER_HOME"]))


def runs(*statuses):
    """Return the runs that have one of these statuses."""
    with instance() as shared:
        return shared.get_runs(dg.RunsFilter(statuses=statuses))


def executors():
    """Return the processes that executors of a Spark application run in."""
    return [
        p
        for p in psutil.process_iter(["cmdline"])
        if "CoarseGrainedExecutorBackend" in str(p.info["cmdline"])
    ]


def kill_a_worker(parts):
    """Kill a worker with its executor while tasks are given to it, and start another."""
    assert until(lambda: len(executors()) > 1, 300), "no executor came up"
    time.sleep(5)
    for process in psutil.Process(parts.running["worker-1"].pid).children(recursive=True):
        process.kill()
    parts.kill("worker-1")
    time.sleep(10)
    parts.again("worker-1")


def kill_a_driver(parts):
    """Kill the process of a run, and the JVM with it, while it has executors."""
    assert until(lambda: runs(Status.STARTED) and executors(), 300), "no run came up"
    time.sleep(5)
    code = psutil.Process(parts.running["code"].pid)
    # A process that has ended, and that nobody has waited for, has no command line.
    live = [p for p in code.children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    drivers = [p for p in live if "SparkSubmit" in " ".join(p.cmdline())]
    for process in (p for driver in drivers for p in (driver.parent(), driver)):
        process.kill()


def kill_the_store(parts):
    """Kill the S3 server in the middle of a run, and start it again."""
    assert until(lambda: runs(Status.STARTED) and executors(), 300), "no run came up"
    time.sleep(8)
    parts.kill("store")
    time.sleep(5)
    parts.again("store")


INSTALMENTS = (None, kill_a_worker, kill_a_driver, kill_the_store)


def medallion(*words, **settings):
    """Run a command of the project; ends the trial where it fails."""
    command = [sys.executable, "-m", "medallion_assets.cli", *words]
    subprocess.run(command, env=os.environ | settings, cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)


def copy_landing(target):
    """Copy what has landed in the store to a disk, each file once, with its time there."""
    for key, at in landed().items():
        file = target / key.removeprefix("landing/")
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            store_client().download_file(BUCKET, key, str(file))
            os.utime(file, (at.timestamp(), at.timestamp()))


def main(folder, *pipelines):
    """Land and kill in instalments; print, for each, what differs once it has caught up."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pipelines = pipelines or tuple(PIPELINES)
    tables, wrong = list(chosen(PIPELINES, pipelines)), []
    laptop = Settings(lake=folder / "laptop/lake", landing=folder / "laptop/landing").resolved()
    here = {"MEDALLION_LAKE": str(laptop.lake), "MEDALLION_LANDING": str(laptop.landing), "EVENTS_QUEUE": "",
            "MEDALLION_SPARK_MASTER": "local[2]", "MEDALLION_SPARK_CONF": "{}"}  # fmt: skip
    with deployed(folder) as parts:
        there = Lake(Settings().resolved())
        for number, kill in enumerate(INSTALMENTS):
            began = time.monotonic()
            for pipeline in pipelines:
                medallion("land", pipeline, "--files", "1", "--seed", str(number))
            tell_queue()
            if kill:
                kill(parts)
            copy_landing(laptop.landing)
            medallion("run", *pipelines, **here)
            expected = everything(Lake(laptop), tables)
            wrong = differing_in_the_end(there, tables, expected)
            what = kill.__doc__.split(",")[0].split(" while")[0] if kill else "Nothing is killed"
            words = "; ".join(wrong) or f"all {len(tables)} tables equal the laptop's"
            sys.stdout.write(f"{what}: {words} after {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()
            if wrong:
                break
    return bool(wrong)


def differing_in_the_end(lake, tables, expected):
    """Return which tables differ once nothing runs any more, or when it took too long."""
    end, wrong = time.monotonic() + CAUGHT_UP, ["nothing has ended"]
    while wrong and time.monotonic() < end:
        time.sleep(5)
        # To read every table takes the cores that the runs need.
        if not runs(*UNDER_WAY):
            wrong = differing(lake, tables, expected)
    return wrong


def differing(lake, tables, expected):
    """Return which tables differ; all, where the store does not answer."""
    try:
        return differences(rounded(everything(lake, tables)), rounded(expected))
    except Exception as error:
        return [f"the lake could not be read: {type(error).__name__}"]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), *sys.argv[2:]))
