"""Run all three pipelines beyond one machine, kill each part once, and compare with a laptop's runs.

    python -m medallion_assets_tests.stack FOLDER

Lake and landing zones are in an S3 server, runs go to a Spark master with two workers, Dagster's code
location and daemon share a Postgres. Files land in instalments that the daemon's sensors take; a Spark
worker, a run's process and the store are killed with SIGKILL while one is under way. After each instalment
the same files are copied to a disk and run there. Exits 1 where a table differs in the end.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import boto3
import dagster as dg
import psutil
import pyspark
import pytest
from dagster._core.instance.ref import InstanceRef

from medallion_assets.declare.pipeline import chosen
from medallion_assets.lake.paths import Lake
from medallion_assets.pipelines import PIPELINES
from medallion_assets.session.start import OF_FEW_ROWS
from medallion_assets.settings import Settings
from medallion_assets_tests.crash.sweep import differences, everything
from medallion_assets_tests.dagster_home import PROJECT, until
from medallion_assets_tests.team import BIN, end, free_port, listens, postgres, program

KEYS = {"AWS_ACCESS_KEY_ID": "stack", "AWS_SECRET_ACCESS_KEY": "stack", "AWS_REGION": "us-east-1"}
SMALL = {"spark.executor.memory": "768m", "spark.cores.max": "2",
         "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}  # fmt: skip
CAUGHT_UP = 900
"""Seconds for an instalment: three runs, each with a session on the cluster, on as few as two cores."""


class Parts:
    """The processes, each started again by the name it has, and what each says in a file."""

    def __init__(self, folder, environment):
        self.folder, self.environment, self.running, self.commands = folder, environment, {}, {}

    def start(self, name, *command, port=None):
        """Start a part, and wait until it listens on its port."""
        self.commands[name] = (command, port)
        with (self.folder / f"{name}.log").open("a") as said:
            process = subprocess.Popen(
                list(map(str, command)), env=self.environment, cwd=self.folder, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
        self.running[name] = process
        assert port is None or until(lambda: listens(port) or process.poll() is not None, 120), name
        assert process.poll() is None, (self.folder / f"{name}.log").read_text()[-3000:]

    def kill(self, name):
        """Kill a part with all it started."""
        os.killpg(self.running[name].pid, signal.SIGKILL)
        self.running.pop(name).wait()

    def again(self, name):
        """Start a part that was killed as it was started before."""
        command, port = self.commands[name]
        self.start(name, *command, port=port)

    def end(self):
        """End all parts, the last one started first."""
        for process in reversed(list(self.running.values())):
            end(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def start_store(parts, folder):
    """Start an S3 server that keeps its objects on disk, so that it may be killed; return its settings."""
    weed = program("weed")
    if not weed:
        pytest.skip("SeaweedFS (weed) is not installed")
    may = {"identities": [{"name": "stack", "actions": ["Admin"], "credentials": [
        {"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}]}]}  # fmt: skip
    (folder / "identities.json").write_text(json.dumps(may))
    (folder / "objects").mkdir()
    port, *others = (free_port() for _ in range(4))
    ports = [
        f"-{part}.port={number}" for part, number in zip(("master", "volume", "filer"), others, strict=True)
    ]
    parts.start(
        "store", weed, "server", "-ip=127.0.0.1", f"-dir={folder / 'objects'}", "-s3", f"-s3.port={port}",
        f"-s3.config={folder / 'identities.json'}", "-volume.max=50", "-master.volumeSizeLimitMB=64", *ports,
        port=port,
    )  # fmt: skip
    return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true", **KEYS}


def start_cluster(parts):
    """Start a Spark master, and two workers of one core; return its address."""
    spark = Path(pyspark.__file__).parent / "bin/spark-class"
    port = free_port()
    deploy, own = "org.apache.spark.deploy", ("--host", "127.0.0.1", "--webui-port")
    parts.start("master", spark, f"{deploy}.master.Master", *own, free_port(), "--port", port, port=port)
    for name in ("worker-1", "worker-2"):
        size = ("--cores", 1, "--memory", "1g", "--work-dir", parts.folder / name)
        parts.start(
            name, spark, f"{deploy}.worker.Worker", *own, free_port(), *size, f"spark://127.0.0.1:{port}"
        )
    return f"spark://127.0.0.1:{port}"


def start_dagster(parts, home):
    """Start code location and daemon, which share a Postgres alone."""
    home.mkdir()
    templates = PROJECT / "medallion_assets/templates"
    whole = (templates / "dagster.yaml").read_text() + (templates / "deploy/storage.yaml.jinja").read_text()
    (home / "dagster.yaml").write_text(whole)
    port = free_port()
    places = f"load_from: [{{grpc_server: {{host: 127.0.0.1, port: {port}, location_name: medallion}}}}]\n"
    (home / "workspace.yaml").write_text(places)
    parts.start("code", BIN / "dagster", "api", "grpc", "--host", "127.0.0.1", "--port", port,
                "--module-name", "medallion_assets.definitions", port=port)  # fmt: skip
    parts.start("daemon", BIN / "dagster-daemon", "run", "--workspace", home / "workspace.yaml")


@contextmanager
def stack(folder):
    """Run every part; yields them, with the lake's settings in the environment of this process."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        database = stack.enter_context(postgres())
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("MEDALLION_", "AWS_"))}
        parts = Parts(folder, clean | {"PYTHONPATH": ""})
        stack.callback(parts.end)
        master = start_cluster(parts)
        own = start_store(parts, folder) | {
            "MEDALLION_LAKE": "s3://stack/lake",
            "MEDALLION_LANDING": "s3://stack/landing",
            "MEDALLION_SPARK_MASTER": master,
            # One run at a time has both workers.
            "MEDALLION_SPARK_CONF": json.dumps(OF_FEW_ROWS | SMALL),
            "PYSPARK_PYTHON": sys.executable,
            "DAGSTER_HOME": str(folder / "home"),
            "DAGSTER_POSTGRES_URL": database,
        }
        for name, value in own.items():
            patch.setenv(name, value)
        parts.environment |= own | {"PYTHONPATH": str(PROJECT)}
        client().create_bucket(Bucket="stack")
        start_dagster(parts, folder / "home")
        yield parts


def client():
    """Return a client of the store."""
    return boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def instance():
    """Open the shared Dagster instance."""
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(os.environ["DAGSTER_HOME"]))


def started():
    """Return the runs under way."""
    with instance() as shared:
        return shared.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))


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
    assert until(lambda: started() and executors(), 300), "no run came up"
    time.sleep(5)
    code = psutil.Process(parts.running["code"].pid)
    drivers = [p for p in code.children(recursive=True) if "SparkSubmit" in " ".join(p.cmdline())]
    for process in (p for driver in drivers for p in (driver.parent(), driver)):
        process.kill()


def kill_the_store(parts):
    """Kill the S3 server in the middle of a run, and start it again."""
    assert until(lambda: started() and executors(), 300), "no run came up"
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
    """Copy what has landed in the store to a disk, each file once."""
    for page in client().get_paginator("list_objects_v2").paginate(Bucket="stack", Prefix="landing/"):
        for found in page.get("Contents", ()):
            file = target / found["Key"].removeprefix("landing/")
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                client().download_file("stack", found["Key"], str(file))


def main(folder):
    """Land and kill in instalments; print, for each, what differs once it has caught up."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tables, wrong = list(chosen(PIPELINES)), []
    laptop = Settings(lake=folder / "laptop/lake", landing=folder / "laptop/landing").resolved()
    here = {"MEDALLION_LAKE": str(laptop.lake), "MEDALLION_LANDING": str(laptop.landing),
            "MEDALLION_SPARK_MASTER": "local[2]", "MEDALLION_SPARK_CONF": "{}"}  # fmt: skip
    with stack(folder) as parts:
        there = Lake(Settings().resolved())
        for number, kill in enumerate(INSTALMENTS):
            began = time.monotonic()
            for pipeline in PIPELINES:
                medallion("land", pipeline, "--files", "1", "--seed", str(number))
            if kill:
                kill(parts)
            copy_landing(laptop.landing)
            medallion("run", **here)
            expected = everything(Lake(laptop), tables)
            until(lambda expected=expected: not differing(there, tables, expected), CAUGHT_UP)
            wrong = differing(there, tables, expected)
            what = kill.__doc__.split(",")[0].split(" while")[0] if kill else "Nothing is killed"
            words = "; ".join(wrong) or f"all {len(tables)} tables equal the laptop's"
            sys.stdout.write(f"{what}: {words} after {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()
            if wrong:
                break
    return bool(wrong)


def differing(lake, tables, expected):
    """Return which tables differ; all, where the store does not answer."""
    try:
        return differences(everything(lake, tables), expected)
    except Exception as error:
        return [f"the lake could not be read: {type(error).__name__}"]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
