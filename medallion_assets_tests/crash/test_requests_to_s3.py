"""Runs that die or stand still at a request to S3, and those after them: nothing lost, doubled or stuck."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.settings import Settings
from medallion_assets.storage import path_of
from medallion_assets_tests.crash.requests_to_s3 import LAKE, LANDING, lands
from medallion_assets_tests.crash.s3_proxy import until, watched_store
from medallion_assets_tests.faults.trial import shop_tables
from medallion_assets_tests.in_s3 import needs_jars
from medallion_assets_tests.s3_server import BUCKET

pytestmark = [pytest.mark.spark, needs_jars]

EXPIRES = "3"
RUN = [sys.executable, "-m", "medallion_assets_tests.crash.requests_to_s3", EXPIRES]


@pytest.fixture
def store(tmp_path):
    pytest.importorskip("moto.server", reason="moto[s3] and flask are not installed")
    with watched_store(tmp_path):
        yield tmp_path


@contextmanager
def running():
    """A run of the chain in a process group of its own, Java and all."""
    with subprocess.Popen(RUN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:  # fmt: skip
        try:
            yield process
        finally:
            # Not by the program `kill`: versions of it read -1234 as -1, which is every process there is.
            for sign in (signal.SIGCONT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, sign)


def ran():
    """Run the chain to its end; give what went wrong."""
    with running() as process:
        return told(process)


def told(process):
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    return json.loads(said.splitlines()[-1])


def trap(store, process, pattern, does):
    for left in ("trap.go", "trap.sprung"):
        (store / left).unlink(missing_ok=True)
    draft = store / "draft"
    draft.write_text(json.dumps({"pattern": pattern, "does": does, "group": process.pid}))
    draft.rename(store / "trap.json")


def landed(*numbers):
    house = Lakehouse(path_of(f"s3://{BUCKET}"), None)
    for number in numbers:
        lands(house, number)
    return house


def assert_exact(house):
    """Each record of both instalments is in its tables once, and nothing else is."""
    lake, (orders, sales, totals, merged) = Lake(Settings(lake=LAKE, landing=LANDING)), shop_tables()

    def ids(path, name="id"):
        return sorted(row[name] for row in log.rows(path, f"SELECT {name} FROM t"))

    assert ids(lake.path(orders)) == [0, 1, 2, 3, 10, 11, 12]
    assert ids(lake.path(sales)) == [0, 2, 10, 12]
    refused = [json.loads(text)["id"] for text in ids(lake.quarantine(sales), "row")]
    assert sorted(refused) == [1, 3, 11]
    assert log.row_count(lake.quarantine(orders)) == 2
    for gold in (totals, merged):
        rows = log.rows(lake.path(gold), "SELECT kind, total, sales FROM t")
        assert sorted((r["kind"], r["total"], r["sales"]) for r in rows) == [(0, 10, 2), (1, 3, 1), (2, 7, 1)]
    house.assert_conserved(orders, sales, totals, merged)


@pytest.mark.thorough
def test_runs_killed_at_a_commit_and_at_a_checkpoint_are_made_good_by_the_next(store):
    house = landed(0)
    for pattern, does in (("bronze/orders/_delta_log/0+.json", "kill before"),
                          ("silver/sales/checkpoint/offsets/0", "kill after")):  # fmt: skip
        with running() as process:
            trap(store, process, pattern, does)
            process.wait(300)
            assert (store / "trap.sprung").exists()
    landed(1)
    assert ran() == []
    assert_exact(house)


PLACES = ["bronze/orders/_delta_log/0+.json", *(
    pytest.param(place, marks=pytest.mark.thorough)
    for place in ("_ledger/orders/_delta_log/0+.json", "quarantine/orders/_delta_log/0+.json",
                  "bronze/orders/part-", "silver/sales/_delta_log/0+.json", "gold/merged/_delta_log/0+.json",
                  "gold/totals/checkpoint/commits/0")
)]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_run_stopped_within_its_commit_commits_nothing_once_another_took_over(store, place):
    house = landed(0, 1)
    with running() as paused:
        trap(store, paused, place, "stop")
        until((store / "trap.sprung").exists)
        assert ran() == []
        assert_exact(house)
        (store / "trap.go").touch()
        wrong = told(paused)
    assert_exact(house)
    assert any("LeaseLost" in word or "took this table over" in word for word in wrong), wrong
    assert ran() == []
    assert_exact(house)


@pytest.mark.thorough
def test_a_run_stopped_within_its_commit_commits_nothing_once_its_quarantine_was_rolled_back(store):
    house = landed(0)
    assert ran() == []
    landed(1)
    with running() as paused:
        trap(store, paused, "silver/sales/_delta_log/0+1.json", "stop")
        until((store / "trap.sprung").exists)
        with running() as dies:
            trap(store, dies, "silver/sales/part-", "kill before")
            dies.wait(300)
        (store / "trap.go").touch()
        told(paused)
    assert ran() == []
    assert_exact(house)


EVERY = 3
"""Requests from one trial to the next; ``sweep_in_s3 FOLDER`` tries each."""


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_a_lake_put_back_to_any_request_is_made_good_by_the_next_run(tmp_path):
    pytest.importorskip("moto.server", reason="moto[s3] and flask are not installed")
    command = [sys.executable, "-m", "medallion_assets_tests.crash.sweep_in_s3", str(tmp_path), str(EVERY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    trials = [line for line in done.stdout.splitlines() if line.startswith("request ")]
    assert done.returncode == 0, "\n".join(trials) + done.stderr[-2000:]
    assert len(trials) >= 10
