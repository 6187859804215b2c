"""Faults of landing files: names, kinds, times, second deliveries (C1 to C5)."""

import gzip
import json
import os
import tempfile
import time
from pathlib import Path

import pytest

from medallion_assets.sources import Source, discover
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.errors import FolderDenied
from medallion_assets_tests.faults.trial import fault

NAMES = [
    "a b.json", "\u00e9.json", "e\u0301.json", "\U0001f600.json", "a%20b.json", "%zz.json", "a\nb.json",
    "a\tb.json", " lead.json", "trail .json", "'q'.json", '"q".json', ";DROP TABLE t.json", "$(id).json",
    "#.json", "a+b=c.json", "q?.json", "[x].json", "{y}.json", "*.json", "back\\slash.json", "co:lon.json",
    "n" * 250 + ".json", "`tick`.json", "<b>.json", "&amp;.json", "=cmd().json",
]  # fmt: skip
NOBODY = 65534
PASSED_OVER = ["_x.json", ".x.json", "x.json._COPYING_", "x.json.tmp"]


@fault("C1", f"{len(NAMES)} odd file names, and {len(PASSED_OVER)} that are passed over", "each once")
def odd_names(trial):
    for name in NAMES:
        (trial.zone / name).write_text(trial.text())
    for name in PASSED_OVER:
        (trial.zone / name).write_text('{"id": -1, "total": 1}\n')
    (trial.zone.joinpath(os.fsdecode(b"bad\xff.json"))).write_text('{"id": -2, "total": 1}\n')
    trial.go()
    assert status_of(trial, "bad") == "refused"
    return trial.holds()


@fault("C2", "overwritten, appended to, delivered twice, a week old, from the future", "each once, or told")
def second_deliveries(trial):
    first, grown = trial.send(), trial.send()
    text = first.read_text()
    old, ahead = trial.send(), trial.send()
    os.utime(old, (time.time() - 60 * 86400,) * 2)
    os.utime(ahead, (time.time() + 30 * 86400,) * 2)
    trial.go()
    first.write_text('{"id": -1, "total": 1}\n')
    with grown.open("a") as file:
        file.write('{"id": -2, "total": 1}\n')
    trial.send("later.json")
    trial.land("shop/orders", "first again.json", text)
    records, broken = text.splitlines()[:-1], text.splitlines()[-1:]
    trial.rows_sent += [json.loads(record) for record in records]
    trial.malformed += len(broken)
    late = trial.send("late.json")
    os.utime(late, (time.time() - 8 * 86400,) * 2)
    trial.go()
    assert status_of(trial, first.name) == status_of(trial, grown.name) == "changed"
    return trial.holds() + "; the two overwritten ones are told"


@fault("C3", "a file that is still being written", "read whole, once it has settled")
def half_written(trial):
    from dataclasses import replace

    settings = trial.lake.settings.model_copy(update={"settle_seconds": 2.0})
    trial.lake = replace(trial.lake, settings=settings)
    text = trial.text(good=50)
    path = trial.zone / "slow.json"
    for at in range(0, len(text), len(text) // 4 + 1):
        with path.open("a") as file:
            file.write(text[at : at + len(text) // 4 + 1])
        trial.try_to_go()
    time.sleep(2.1)
    trial.go()
    return trial.holds()


@fault("C4", "empty, blank, folder, link, broken link, FIFO, bad gzip, wrong ending", "each once or refused")
def odd_kinds(trial):
    zone, outside = trial.zone, trial.zone.parent / "secret.json"
    outside.write_text('{"id": -1, "total": 1}\n')
    (zone / "empty.json").touch()
    (zone / "blank.json").write_text("\n \n\n")
    (zone / "folder.json").mkdir()
    (zone / "deep/er").mkdir(parents=True)
    (zone / "deep/er/nested.json").write_text(trial.text())
    (zone / "link.json").symlink_to(outside)
    (zone / "broken.json").symlink_to(zone / "nothing")
    (zone / "loop").symlink_to(zone)
    os.mkfifo(zone / "fifo.json")
    packed = gzip.compress(trial.text().encode())
    (zone / "ok.json.gz").write_bytes(packed)
    (zone / "members.json.gz").write_bytes(
        gzip.compress(trial.text().encode()) + gzip.compress(trial.text().encode())
    )
    (zone / "short.json.gz").write_bytes(packed[:-9])
    (zone / "plain.json.gz").write_text('{"id": -1, "total": 1}\n')
    (zone / "packed.json").write_bytes(gzip.compress(trial.text().encode()))
    trial.go()
    refused = ["link.json", "broken.json", "fifo.json", "short.json.gz", "plain.json.gz"]
    assert {status_of(trial, name) for name in refused} == {"refused"}
    return trial.holds() + f"; {len(refused)} refused by name"


@fault("C4", "a file that may not be read, then a folder that may not be listed", "refused; stopped by name")
def unreadable(trial):
    if os.geteuid():
        pytest.skip("only root may become a user who may not read its files")
    with tempfile.TemporaryDirectory() as folder:
        zone, ledger = Path(folder, "zone"), Path(folder, "ledger")
        for place in (zone / "deep", ledger):
            place.mkdir(parents=True)
        for name in ("open.json", "shut.json", "deep/deep.json"):
            (zone / name).write_text(trial.text(good=3, bad=0, broken=0))
        for place in (Path(folder), zone, ledger):
            os.chown(place, NOBODY, NOBODY)
        (zone / "shut.json").chmod(0)
        assert seen_by_nobody(zone, ledger) == (2, 1)
        (zone / "shut.json").chmod(0o644)
        (zone / "deep").chmod(0)
        with pytest.raises(FolderDenied, match="zone/deep may not be listed"):
            seen_by_nobody(zone, ledger)
        (zone / "deep").chmod(0o755)
        assert seen_by_nobody(zone, ledger) == (1, 0)
    return "3 files, each once: one refused till it may be read, one in a folder that stopped discovery"


def seen_by_nobody(zone, ledger):
    """Lets discovery look as a user who owns neither; gives how many files it took and refused."""
    os.seteuid(NOBODY)
    try:
        found = discover(zone, ledger, Source("s", "json"))
    finally:
        os.seteuid(0)
    return found.admitted, found.refused


@fault("C5", "a file that goes between discovery and reading", "told as missing, and taken when it is back")
def gone_before_reading(trial):
    from medallion_assets.lake.arrivals import take_arrivals
    from medallion_assets.lake.paths import sole_writer

    file = trial.send()
    trial.send()
    with sole_writer(trial.tables[0], trial.lake):
        take_arrivals(trial.tables[0], trial.lake)
    text = file.read_text()
    file.unlink()
    done = trial.go()["shop/bronze/orders"]
    assert done.total("missing") == 6
    trial.land("shop/orders", file.name, text)
    trial.go()
    return trial.holds()


def status_of(trial, name):
    entries = ledgers.rows(trial.lake.ledger(trial.tables[0]), "SELECT * FROM ledger ORDER BY sequence")
    return next((str(e["status"]) for e in reversed(entries) if name in str(e["path"])), "unknown")
