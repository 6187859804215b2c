"""Faults of processes: held still, side by side, under another clock (A7, F3, G1, G2)."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from medallion_assets.storage.lease import is_held
from medallion_assets_tests.faults.trial import fault

DAY = 86400


@fault("A7", "a run is held still by SIGSTOP with its lease; a second one is started", "the second waits")
def held_still(trial):
    trial.send()
    child = other_process(trial, 600)
    child.stdout.readline()
    lease = trial.lake.state(trial.tables[0], "lease")
    trial.send()
    while not is_held(lease):
        time.sleep(0.001)
    os.killpg(child.pid, signal.SIGSTOP)
    assert is_held(lease), "it was let go before it was held still"
    second = threading.Thread(target=trial.go)
    second.start()
    second.join(10)
    waited = second.is_alive()
    os.killpg(child.pid, signal.SIGCONT)
    second.join(120)
    killed(child)
    trial.go()
    assert waited, "the second run wrote beside the first"
    return trial.holds() + "; the second waited until the first went on"


@fault("A7", "a run is killed with its lease", "the next takes it over at once")
def killed_with_its_lease(trial):
    trial.send()
    child = other_process(trial, 600)
    child.stdout.readline()
    while not is_held(trial.lake.state(trial.tables[0], "lease")):
        time.sleep(0.001)
    killed(child)
    trial.send()
    began = time.monotonic()
    trial.go()
    assert time.monotonic() - began < 60
    return trial.holds()


@fault("G1", "two processes refresh the same tables without end for a minute, files landing", "exact")
def rivals(trial, seconds=60):
    trial.send()
    children = [other_process(trial, seconds) for _ in range(2)]
    landed_until_over(trial, children, seconds)
    rounds = [child.stdout.read().count("round") for child in children]
    assert all(rounds), "one of them never came through"
    trial.go()
    return trial.holds() + f"; {' and '.join(map(str, rounds))} rounds"


@fault("G2", "three processes refresh a table each, side by side", "exact")
def side_by_side(trial):
    trial.send()
    trial.run(*trial.tables[:2])
    children = [other_process(trial, 0, table.name) for table in trial.tables[1:]]
    assert [child.wait() for child in children] == [0, 0, 0]
    trial.send()
    trial.go()
    return trial.holds()


@fault("F3", "the machine's clock goes back a day between runs, then ahead a day", "exact")
def other_clocks(trial):
    library = trial.lake.root.parent / "other_clock.so"
    source = Path(__file__).with_name("other_clock.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    trial.send()
    trial.go()
    for off in (-DAY, DAY, 0):
        trial.send()
        child = other_process(trial, 0, env={"LD_PRELOAD": str(library), "OTHER_CLOCK": str(off)})
        assert child.wait() == 0
    trial.go()
    return trial.holds()


def other_process(trial, seconds, *tables, env=None, umask=-1):
    command = [sys.executable, "-m", "medallion_assets_tests.faults.child", str(trial.lake.root.parent)]
    return subprocess.Popen(
        [*command, str(seconds), *tables],
        env=os.environ | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        umask=umask,
    )


def killed(child):
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def landed_until_over(trial, children, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        trial.send()
        time.sleep(2)
    assert [child.wait() for child in children] == [0, 0], "one of them failed"
