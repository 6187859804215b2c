"""Faults of processes: held still, side by side, on a bad disk, under another clock (A7, F, G1, G2)."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from medallion_assets.delta.lease import is_held
from medallion_assets_tests.crash.sweep import shim, watch
from medallion_assets_tests.faults.trial import fault

DAY = 86400
MIB = 1 << 20


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


@fault("F1", "the disk of tables and checkpoints runs full in a run", "red, then exact once there is space")
def disk_full(trial):
    if os.geteuid():
        pytest.skip("only root may mount a small disk")
    with small_disk(trial.lake.root, 48):
        trial.send()
        trial.go()
        filler = trial.lake.root / "filler"
        filled(filler)
        trial.send()
        said = trial.try_to_go()
        assert said, "a run on a full disk said it was well"
        filler.unlink()
        trial.go()
        return trial.holds() + f"; told: {said.splitlines()[0][:60]}"


@fault("F2", "every K-th write fails with EIO, K of 89, 53, 31, 17 and 7", "exact with a run on a sound disk")
def failing_disk(trial):
    folder = trial.lake.root.parent
    disk, library = folder / "disk", shim(folder)
    told = {"LD_PRELOAD": str(library), "WATCHED_DISK": str(disk)}
    trial.send()
    trial.go()
    failed, red = 0, 0
    for number, every in enumerate((89, 53, 31, 17, 7)):
        watch(disk, f"{number} fail {every} {trial.lake.root}")
        trial.send()
        red += other_process(trial, 0, env=told).wait() != 0
        hit = [line for line in Path(f"{disk}.log").read_text().splitlines() if " FAILED " in line]
        assert len(hit) > failed, f"no write failed of every {every}"
        failed = len(hit)
        trial.go()
    return trial.holds() + f"; {failed} writes failed, {red} of 5 runs were red"


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


def other_process(trial, seconds, *tables, env=None):
    command = [sys.executable, "-m", "medallion_assets_tests.faults.child", str(trial.lake.root.parent)]
    return subprocess.Popen(
        [*command, str(seconds), *tables],
        env=os.environ | (env or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
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


@contextmanager
def small_disk(folder, mebibytes):
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def filled(file):
    with file.open("wb") as disk:
        try:
            while True:
                disk.write(bytes(MIB))
                disk.flush()
        except OSError as full:
            if full.errno != errno.ENOSPC:
                raise
