"""A run whose process is gone is told from one at work, so that nobody waits for it for ever."""

import json
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
import yaml

from medallion_assets.orchestration import run_launcher
from medallion_assets_tests.dagster_home import PROJECT, until


@pytest.fixture
def place():
    # A socket's path has a hundred characters at most; pytest's own folders are longer.
    with tempfile.TemporaryDirectory(prefix="run") as folder:
        yield Path(folder)


@contextmanager
def listening(path):
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(path))
        line.listen()
        yield


@contextmanager
def serving(path):
    """A real server of runs, which runs none."""
    code = path.with_suffix(".py")
    code.write_text("import dagster as dg\ndefs = dg.Definitions()\n")
    command = ["dagster", "api", "grpc", "--python-file", str(code), "--socket", str(path)]
    with subprocess.Popen([sys.executable, "-m", *command], stderr=subprocess.DEVNULL) as server:
        assert until(path.exists, 60)
        try:
            yield
        finally:
            server.kill()


def health(place, tags):
    """Return what the launcher that ``dagster.yaml`` names says of a started run."""
    (place / "home").mkdir()
    overrides = {
        "run_launcher": yaml.safe_load((PROJECT / "medallion_assets/templates/dagster.yaml").read_text())[
            "run_launcher"
        ]
    }
    with dg.DagsterInstance.local_temp(str(place / "home"), overrides=overrides) as instance:
        run = dg.DagsterRun("chain", status=dg.DagsterRunStatus.STARTED, tags=tags)
        instance.add_run(run)
        assert instance.run_launcher.supports_check_run_worker_health
        return instance.run_launcher.check_run_worker_health(run).status.value


def started_by(path):
    return {".dagster/grpc_info": json.dumps({"host": "localhost", "socket": str(path)})}


def test_a_run_whose_server_is_gone_has_failed(place):
    assert health(place, started_by(place / "gone")) == "FAILED"


def test_a_run_whose_server_is_too_busy_to_answer_is_alive(place, monkeypatch):
    monkeypatch.setattr(run_launcher, "SECONDS", 1)
    with listening(place / "busy"):
        assert health(place, started_by(place / "busy")) == "RUNNING"


def test_a_run_that_its_server_no_longer_has_has_failed(place):
    with serving(place / "server"):
        assert health(place, started_by(place / "server")) == "FAILED"


def test_a_run_in_a_persons_own_process_is_left_alone(place):
    assert health(place, {}) == "RUNNING"
