"""Faults of what starts runs: Dagster's own writes, its daemon, and several starters at once (A4, A6, G3)."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from medallion_assets.declare.pipeline import chosen
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.orchestration import metadata as report
from medallion_assets.orchestration.assets import as_asset, asset_key
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.pipelines import PIPELINES
from medallion_assets.pytest_plugin import Crashed
from medallion_assets.runs.run import run_tables
from medallion_assets.runtime.static_changes import why_not
from medallion_assets.settings import Settings
from medallion_assets.simulators import land
from medallion_assets.sources import ledger as ledgers
from medallion_assets_tests.crash.sweep import differences, everything
from medallion_assets_tests.dagster_home import daemon_up, until
from medallion_assets_tests.faults.trial import fault

PIPELINE = "health"
LONGEST = 300


def between(table):
    """A death after a table's Delta commits, before its materialization is on record."""

    def run(trial):
        with trial.patched() as patch, dg.DagsterInstance.local_temp(str(trial.home)) as instance:
            trial.send()
            materialized(trial, instance)
            trial.send()
            refreshed, dead = report.refreshed, []

            def dies(of, *rest):
                if of.name == table and not dead:
                    dead.append(of)
                    raise Crashed
                return refreshed(of, *rest)

            patch.setattr(report, "refreshed", dies)
            assert not materialized(trial, instance).success, "nothing died"
            assert materialized(trial, instance).success
            for made in trial.tables:
                event = instance.get_latest_materialization_event(asset_key(made))
                told = event.asset_materialization.metadata["dagster/row_count"].value
                assert told == log.row_count(trial.lake.path(made)), f"{made.key}: {told} rows told"
            return trial.holds() + "; each row count told is the log's"

    return run


for name in ("orders", "sales", "totals", "merged"):
    words = f"a run in Dagster dies after the commits of {name}, before its materialization"
    fault("A4", words, "exact with the next run, its numbers right")(between(name))


def materialized(trial, instance):
    resources = {"lake": LakeResource(), "spark": SparkResource()}
    trial._spark()
    return dg.materialize(
        [as_asset(table) for table in trial.tables],
        instance=instance,
        resources=resources,
        raise_on_error=False,
    )


@fault("A6", "web server, daemon and runs killed four times while files land", "all taken, each once")
def daemon_killed(trial):
    folder = trial.lake.root.parent / "daemon"
    for seconds in (8, 14, 20, 26):
        land(PIPELINE, folder / "landing", 1, with_faults=True)
        with up(folder, signal.SIGKILL):
            time.sleep(seconds)
    with up(folder, signal.SIGTERM):
        assert until(lambda: is_all_taken(folder), LONGEST), "not all was taken"
        time.sleep(5)
    return same_as_calm(folder, trial)


@fault("G3", "the sensor and runs by hand at once, while 20 files land", "all taken, each once")
def several_starters(trial):
    folder = trial.lake.root.parent / "starters"
    land(PIPELINE, folder / "landing", 1)
    with up(folder, signal.SIGTERM):
        by_hand = []
        for number in range(19):
            land(PIPELINE, folder / "landing", 1, with_faults=True)
            if number % 8 == 0:
                by_hand.append(run_by_hand(folder))
            time.sleep(2)
        assert [run.wait() for run in by_hand] == [0] * len(by_hand), "a run by hand failed"
        assert until(lambda: is_all_taken(folder), LONGEST), "not all was taken"
        time.sleep(5)
    return same_as_calm(folder, trial)


@contextmanager
def up(folder, how_it_ends):
    with daemon_up(folder / "home", folder / "lake", folder / "landing", how_it_ends):
        yield


def run_by_hand(folder):
    medallion = str(Path(sys.executable).with_name("medallion"))
    env = os.environ | {"MEDALLION_LANDING": str(folder / "landing"), "MEDALLION_LAKE": str(folder / "lake")}
    return subprocess.Popen([medallion, "run", PIPELINE], env=env, stdout=subprocess.DEVNULL)


def lake_of(folder, name="lake"):
    return Lake(Settings(lake=folder / name, landing=folder / "landing").resolved())


def is_all_taken(folder):
    """Return true where each landed file is known, and every table has come as far as the one above it."""
    lake, tables = lake_of(folder), chosen(PIPELINES, [PIPELINE])
    for table in tables:
        zone = lake.landing(table.pipeline, table.source) if table.source else None
        known = len(ledgers.last_seen(lake.ledger(table))) if table.source else 0
        if zone and known < sum(1 for f in zone.rglob("*") if f.is_file()):
            return False
    return all(log.exists(lake.path(t)) and why_not(t, lake) for t in tables)


def same_as_calm(folder, trial):
    calm, tables = lake_of(folder, "calm"), chosen(PIPELINES, [PIPELINE])
    wrong = [o.error for o in run_tables(tables, calm, trial._spark) if not o.is_well]
    assert not wrong, wrong
    still = everything(calm, tables)
    differ = differences(everything(lake_of(folder), tables), still)
    assert not differ, "; ".join(differ)
    return f"{sum(map(len, still.values()))} rows of {len(still)} tables are a calm lake's, each once"
