"""The processes of ``deploy/compose.yaml`` without containers: Postgres, code, web servers and daemon."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import dagster as dg
import pytest
import requests
import yaml
from dagster._core.instance.ref import InstanceRef

from medallion_assets_tests.dagster_home import PROJECT, until
from medallion_assets_tests.s3_server import free_ports

ACCOUNT = "postgres"
"""Of the system: Postgres refuses to be started by root."""
BIN = Path(sys.executable).parent


def program(name):
    """Return a server program's path; Debian keeps Postgres's beside its libraries."""
    places = [*os.environ["PATH"].split(os.pathsep), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    found = shutil.which(name, path=os.pathsep.join([str(BIN), *places]))
    return str(Path(found).resolve()) if found else None


@contextmanager
def postgres():
    """Run a Postgres of this test's own; yields its address, or skips where there is none."""
    initdb, server = program("initdb"), program("postgres")
    if not initdb or not server:
        pytest.skip("Postgres is not installed")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    account = {"user": ACCOUNT, "group": ACCOUNT} if os.geteuid() == 0 else {}
    if account:
        shutil.chown(folder, ACCOUNT, ACCOUNT)
    (port,), data = free_ports(1), folder / "data"
    made = [initdb, "--pgdata", data, "--username", "dagster", "--auth", "trust", "--no-sync"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=folder, **account)
    options = [
        "-D",
        data,
        "-p",
        str(port),
        "-c",
        "listen_addresses=127.0.0.1",
        "-k",
        folder,
        "-c",
        "fsync=off",
    ]
    with (folder / "said.log").open("w") as said:
        process = subprocess.Popen([server, *options], stdout=said, stderr=said, cwd=folder, **account)
        try:
            assert until(lambda: listens(port), 60), (folder / "said.log").read_text()
            yield f"postgresql://dagster@127.0.0.1:{port}/postgres"
        finally:
            # Ends connections at once; the default waits for them.
            process.send_signal(signal.SIGINT)
            process.wait(60)
            shutil.rmtree(folder, ignore_errors=True)


def listens(port):
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def end(process):
    """Ask a process and those it started to end."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


class Team:
    """The services of a project's compose file, each a process of this machine."""

    def __init__(self, project, home, database):
        self.project, self.home, self.stack = project, home, ExitStack()
        self.services = yaml.safe_load((project / "deploy/compose.yaml").read_text())["services"]
        self.ports = dict(zip(("code", "viewer", "operator"), free_ports(3), strict=True))
        self.home.mkdir()
        shutil.copy(project / "deploy/dagster.yaml", home)
        places = (project / "deploy/workspace.yaml").read_text()
        places = places.replace("host: code", "host: 127.0.0.1").replace("4000", str(self.ports["code"]))
        (home / "workspace.yaml").write_text(places)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("MEDALLION_")} | {
            "DAGSTER_HOME": str(home),
            "DAGSTER_POSTGRES_URL": database,
            "PYTHONPATH": os.pathsep.join([str(project), str(PROJECT)]),
        }

    def start(self, service):
        """Start a service by its command in the compose file, on a port of its own."""
        words = [str(word) for word in self.services[service]["command"]]
        port = str(self.ports.get(service, ""))
        own = {"0.0.0.0": "127.0.0.1", "4000": port, "3000": port,
               "/opt/dagster/workspace.yaml": str(self.home / "workspace.yaml")}  # fmt: skip
        command = [str(BIN / words[0]), *(own.get(word, word) for word in words[1:])]
        return self.run(service, command, self.environment)

    def run(self, name, command, environment):
        """Run a process until the team ends; gives the file of what it says."""
        said = self.home / f"{name}.log"
        file = self.stack.enter_context(said.open("w"))
        process = subprocess.Popen(
            command, cwd=self.project, env=environment, stdout=file, stderr=file, start_new_session=True
        )
        self.stack.callback(process.wait, 60)
        self.stack.callback(end, process)
        port = self.ports.get(name)
        if port:
            until(lambda: listens(port) or process.poll() is not None, 120)
            assert listens(port), said.read_text()[-3000:]
        return said

    @contextmanager
    def instance(self):
        """Open the team's Dagster instance in this process."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DAGSTER_POSTGRES_URL", self.environment["DAGSTER_POSTGRES_URL"])
            with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(self.home))) as instance:
                yield instance

    def ask(self, service, query, prefix="", **variables):
        """Return what a web server answers to a GraphQL query."""
        url = f"http://127.0.0.1:{self.ports[service]}{prefix}/graphql"
        status, answer = post(url, {"query": query, "variables": variables})
        assert status == 200, answer
        return json.loads(answer)


def post(url, content, login=None):
    """Return the status and body of an answer to a POST."""
    answer = requests.post(url, json=content, auth=login, timeout=60)
    return answer.status_code, answer.text
