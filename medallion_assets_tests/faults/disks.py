"""Faults of disks: full ones, of tables and of Dagster's own, and writes that fail (F1, F2)."""

import errno
import gzip
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from medallion_assets_tests.crash.sweep import shim, watch
from medallion_assets_tests.faults.orchestrated import materialized
from medallion_assets_tests.faults.processes import other_process
from medallion_assets_tests.faults.trial import fault

MIB = 1 << 20


@fault("F1", "the disk of tables and checkpoints runs full in a run", "red, then exact once there is space")
def disk_full(trial):
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


@fault("F1", "the disk of DAGSTER_HOME runs full in a run", "red, then exact once there is space")
def dagsters_disk_full(trial):
    with small_disk(trial.home, 16), trial.patched():
        filler = trial.home / "filler"
        with dg.DagsterInstance.local_temp(str(trial.home)) as instance:
            trial.send()
            assert materialized(trial, instance).success
            filled(filler)
            trial.send()
            said = red(trial, instance)
            filler.unlink()
            assert materialized(trial, instance).success
    return trial.holds() + f"; told: {said[:60]}"


def red(trial, instance):
    """Return how a run in Dagster ended that could not; fails where it says it was well."""
    try:
        done = materialized(trial, instance)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    assert not done.success, "a run that could not be recorded said it was well"
    return "the run failed"


@fault(
    "F1", "the disk of the landing zone runs full while a file is written", "refused, taken once it is whole"
)
def landing_disk_full(trial):
    with small_disk(trial.zone, 4):
        packed = gzip.compress(trial.text(good=4000).encode())
        filler = trial.zone / "_filler"
        filled(filler)
        with filler.open("r+b") as room:
            room.truncate(filler.stat().st_size - len(packed) // 2)
        with pytest.raises(OSError, match="No space"):
            written(trial.zone / "cut.json.gz", packed)
        trial.try_to_go()
        assert not trial.rows(trial.tables[0]), "half a file became rows"
        filler.unlink()
        (trial.zone / "cut.json.gz").write_bytes(packed)
        trial.go()
        return trial.holds()


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


@contextmanager
def small_disk(folder, mebibytes):
    if os.geteuid():
        pytest.skip("only root may mount a small disk")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def written(path, data):
    with path.open("wb", 0) as file:
        while data:
            data = data[file.write(data) :]


def filled(file):
    with file.open("wb") as disk:
        try:
            while True:
                disk.write(bytes(MIB))
                disk.flush()
        except OSError as full:
            if full.errno != errno.ENOSPC:
                raise
