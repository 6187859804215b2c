"""A whole deployment on this machine, each part a process that can be killed.

Lake and landing zones are in an S3 server, runs go to a Spark master with two workers, Dagster's code
location and daemon share a Postgres. The files of one landing zone are found by the notifications in a queue
(SQS, of moto). SeaweedFS sends none in S3's form: the test tells the queue what has landed.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote_plus

import boto3
import pyspark
import pytest

from medallion_assets.session.start import OF_FEW_ROWS
from medallion_assets_tests import notified
from medallion_assets_tests.dagster_home import PROJECT, until
from medallion_assets_tests.s3_server import BUCKET, KEYS, free_ports, make_bucket, moto_server, s3_server
from medallion_assets_tests.team import BIN, end, listens, postgres

SMALL = {"spark.executor.memory": "768m", "spark.cores.max": "2",
         "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}  # fmt: skip


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
    """Start an S3 server that may be killed, and return its settings."""
    (folder / "store").mkdir()
    server = s3_server(folder / "store")
    if not server.keeps_objects:
        pytest.skip("SeaweedFS (weed) is not installed: moto loses its objects as it is killed")
    parts.start("store", *server.command, port=server.port)
    make_bucket(server.address)
    return {"AWS_ENDPOINT_URL": server.address, **KEYS}


def start_queue(parts):
    """Start a server of queues, and return the address of one."""
    server = moto_server()
    parts.start("queue", *server.command, port=server.port)
    return queue_client(server.address).create_queue(QueueName="landed")["QueueUrl"]


def start_cluster(parts):
    """Start a Spark master, and two workers of one core; return its address."""
    spark = Path(pyspark.__file__).parent / "bin/spark-class"
    port, at_master, *at_workers = free_ports(4)
    deploy, own = "org.apache.spark.deploy", ("--host", "127.0.0.1", "--webui-port")
    parts.start("master", spark, f"{deploy}.master.Master", *own, at_master, "--port", port, port=port)
    for name, at_worker in zip(("worker-1", "worker-2"), at_workers, strict=True):
        size = ("--cores", 1, "--memory", "1g", "--work-dir", parts.folder / name)
        parts.start(
            name, spark, f"{deploy}.worker.Worker", *own, at_worker, *size, f"spark://127.0.0.1:{port}"
        )
    return f"spark://127.0.0.1:{port}"


def start_dagster(parts, home):
    """Start code location and daemon, which share a Postgres alone."""
    home.mkdir()
    templates = PROJECT / "medallion_assets/templates"
    whole = (templates / "dagster.yaml").read_text() + (templates / "deploy/storage.yaml.jinja").read_text()
    # One run has both workers.
    whole = whole.replace("max_concurrent_runs: 2", "max_concurrent_runs: 1")
    (home / "dagster.yaml").write_text(whole)
    (port,) = free_ports(1)
    places = f"load_from: [{{grpc_server: {{host: 127.0.0.1, port: {port}, location_name: medallion}}}}]\n"
    (home / "workspace.yaml").write_text(places)
    parts.start("code", BIN / "dagster", "api", "grpc", "--host", "127.0.0.1", "--port", port,
                "--module-name", notified.__name__, port=port)  # fmt: skip
    parts.start("daemon", BIN / "dagster-daemon", "run", "--workspace", home / "workspace.yaml")


@contextmanager
def deployed(folder):
    """Run every part; yields them, with the lake's settings in the environment of this process."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        database = stack.enter_context(postgres())
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("MEDALLION_", "AWS_"))}
        parts = Parts(folder, clean | {"PYTHONPATH": ""})
        stack.callback(parts.end)
        for name, value in KEYS.items():
            patch.setenv(name, value)
        own = start_store(parts, folder) | {
            "MEDALLION_SPARK_MASTER": start_cluster(parts),
            "EVENTS_QUEUE": start_queue(parts),
            "MEDALLION_PIPELINES": notified.__name__,
            "MEDALLION_LAKE": f"s3://{BUCKET}/lake",
            "MEDALLION_LANDING": f"s3://{BUCKET}/landing",
            "MEDALLION_SPARK_CONF": json.dumps(OF_FEW_ROWS | SMALL),
            "PYSPARK_PYTHON": sys.executable,
            "DAGSTER_HOME": str(folder / "home"),
            "DAGSTER_POSTGRES_URL": database,
        }
        for name, value in own.items():
            patch.setenv(name, value)
        parts.environment |= own | {"PYTHONPATH": str(PROJECT)}
        start_dagster(parts, folder / "home")
        yield parts


def store_client():
    """Return a client of the store."""
    return boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def queue_client(address):
    """Return a client of the server of queues."""
    return boto3.client("sqs", endpoint_url=address, region_name=KEYS["AWS_REGION"])


def landed():
    """Return the keys of all that has landed, each with its time."""
    pages = store_client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="landing/")
    return {found["Key"]: found["LastModified"] for page in pages for found in page.get("Contents", ())}


def tell_queue():
    """Send the queue a notification of each object in its landing zone, of the older ones again."""
    url = os.environ["EVENTS_QUEUE"]
    for key in (key for key in landed() if key.startswith(f"landing/{notified.ZONE}/")):
        said = {"bucket": {"name": BUCKET}, "object": {"key": quote_plus(key)}}
        body = json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": said}]})
        queue_client(url.rsplit("/", 2)[0]).send_message(QueueUrl=url, MessageBody=body)
