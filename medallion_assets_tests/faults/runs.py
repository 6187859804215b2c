"""Faults of runs: deaths at each commit, and two runs of a table (A1 to A3, G1)."""

import threading
import time

import pytest

from medallion_assets.runs.run import refresh
from medallion_assets.storage.lease import TableBusy, held
from medallion_assets_tests.faults.trial import fault

COMMITS = [
    ("A1", "bronze's quarantine"), ("A1", "bronze"), ("A2", "silver's quarantine"), ("A2", "silver"),
    ("A3", "a complete aggregate"), ("A3", "an incremental aggregate"),
]  # fmt: skip
"""Of a run of the shop, in their order, with the row of the matrix each belongs to."""


def dies(commit, when):
    def run(trial):
        trial.send()
        trial.go()
        trial.send()
        with trial.crash_at(commit, when):
            trial.go()
        trial.go()
        return trial.holds()

    return run


for number, (row, of) in enumerate(COMMITS, 1):
    for moment in ("before", "after"):
        fault(row, f"the run dies {moment} the commit of {of}", "exact with the next run")(
            dies(number, moment)
        )


@fault("G1", "a second run of a table while the first holds it", "waits, or refuses by name")
def two_runs(trial):
    trial.send()
    inside = threading.Event()

    def first():
        with held(trial.lake.state(trial.tables[0], "lease"), "the first"):
            inside.set()
            time.sleep(3)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    lease = trial.lake.state(trial.tables[0], "lease")
    with pytest.raises(TableBusy, match="shop/bronze/orders"), held(lease, "shop/bronze/orders", 0.1):
        pass
    began = time.monotonic()
    refresh(trial.tables[0], trial.lake, trial._spark)
    waited = time.monotonic() - began
    thread.join()
    trial.go()
    assert waited > 1
    return f"{trial.holds()}; the second waited"
