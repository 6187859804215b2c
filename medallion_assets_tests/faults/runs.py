"""Faults of runs: two writers, deaths at each commit, upstream that changes, late rows (A, E, G, S)."""

import threading
import time

import pytest

from medallion_assets.delta.errors import TableBusy
from medallion_assets.delta.lease import held
from medallion_assets.tables.refresh import refresh
from medallion_assets.verbs import VERBS, Asked
from medallion_assets_tests.faults.trial import fault

COMMITS = 9


def dies(commit, when):
    def run(trial):
        trial.send()
        trial.go()
        trial.send()
        try:
            with trial.crash_at(commit, when):
                trial.go()
        except AssertionError as never:
            return f"{trial.holds()} ({never})"
        trial.go()
        return trial.holds()

    return run


for number in range(1, COMMITS):
    for moment in ("before", "after"):
        fault("A1", f"dies {moment} its {number}. Delta commit", "exact with the next run")(
            dies(number, moment)
        )


@fault("E1", "rows of a table deleted and changed behind its back", "travel down; the books tell of it")
def upstream_changed(trial):
    trial.send()
    trial.go()
    spark, path = trial._spark(), trial.lake.path(trial.tables[1])
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 0")
    trial.send()
    trial.go()
    told = VERBS["doctor"](trial.tables[1], trial.lake, trial._spark, Asked())
    assert not told.well, "a row went and no check told of it"
    VERBS["full_refresh"](trial.tables[1], trial.lake, trial._spark, Asked())
    trial.go()
    return trial.holds() + " after full_refresh"


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


@fault("S3", "a link out of the landing zone", "refused; what it names is in no table")
def link_out(trial):
    secret = trial.lake.settings.landing.parent / "secret.json"
    secret.write_text('{"id": 424242, "total": 1}\n')
    (trial.zone / "link.json").symlink_to(secret)
    trial.send()
    trial.go()
    assert not trial.rows(trial.tables[0], "SELECT id FROM t WHERE id = 424242")
    return trial.holds()
