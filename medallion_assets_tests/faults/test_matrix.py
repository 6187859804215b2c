"""A part of the fault matrix for each change, and proof that it can fail: a guard taken out turns it red."""

import pytest

from medallion_assets.delta import commit, log
from medallion_assets.lake import position
from medallion_assets.runtime import query, static_changes
from medallion_assets.sources import discovery
from medallion_assets.storage import lease
from medallion_assets_tests.faults import landing, names, records, runs, storage
from medallion_assets_tests.faults.trial import ReplayPlan

pytestmark = pytest.mark.spark

CHOSEN = {
    "odd names": landing.odd_names,
    "second deliveries": landing.second_deliveries,
    "odd kinds": landing.odd_kinds,
    "unreadable": landing.unreadable,
    "poison records": records.poison_records,
    "links out": names.links_out,
    "older checkpoints": storage.rolled_back(2),
    "lost checkpoints": storage.checkpoints_lost,
    "dies after bronze": runs.dies(2, "after"),
    "dies after silver's quarantine": runs.dies(3, "after"),
}


@pytest.fixture
def trial(tmp_path, medallion_spark):
    return ReplayPlan(tmp_path, medallion_spark)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_fault_loses_and_doubles_nothing(trial, name):
    assert "each once" in CHOSEN[name](trial)


class NoLock:
    def __init__(self, *_):
        pass

    def acquire(self, **_):
        pass

    release = acquire


def plain_save(writer, path, transaction):
    writer.save(str(path))


WITHOUT = {
    "transaction ids": (
        [
            (commit, "_save", plain_save),
            (commit, "write_few", lambda *_: False),
            # A table without them is refused as one that was made by hand.
            (static_changes, "is_lost", lambda *_: False),
        ],
        runs.dies(2, "after"),
    ),
    "ledger": ([(discovery, "known_files", lambda *_, **__: {})], landing.second_deliveries),
    "position": ([(query, "position", lambda *_: -1)], storage.checkpoints_lost),
    "rollback": (
        [
            (query, "roll_back", lambda *_: False),
            # What another run left in the quarantine is refused as late where it was not taken back.
            (position, "version_before", lambda _, quarantine, __: log.version(quarantine)),
            (commit.Transaction, "refuse_others", lambda *_: None),
        ],
        runs.dies(3, "after"),
    ),
    "lease": ([(lease, "FileLock", NoLock)], runs.two_runs),
}


@pytest.mark.parametrize("guard", WITHOUT)
def test_without_a_guard_the_matrix_turns_red(trial, monkeypatch, guard):
    mutations, case = WITHOUT[guard]
    for mutation in mutations:
        monkeypatch.setattr(*mutation)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        case(trial)
