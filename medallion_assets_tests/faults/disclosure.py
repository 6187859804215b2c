"""Faults of what is told to whom: ports, pickles, secrets, persons, markup, modes (S1, S5 to S8, S10)."""

import re
import socket
import stat
import struct
from pathlib import Path

import dagster as dg

from medallion_assets.orchestration.assets import asset_key
from medallion_assets_tests.dagster_home import daemon_up, until
from medallion_assets_tests.faults.corpora import tests_pass
from medallion_assets_tests.faults.orchestrated import materialized
from medallion_assets_tests.faults.processes import other_process
from medallion_assets_tests.faults.trial import fault
from medallion_assets_tests.shop import json_lines

LISTENS = "0A"
MARKUP = [
    "<img src=x onerror=alert(1)>.json",
    "[x](javascript:1).json",
    "=cmd().json",
    "a\n<b>c.json",
    "|.json",
]
PERSON = 987654321987


@fault("S1", "web server, daemon and Spark are up", "each listens to this machine alone")
def who_listens(trial):
    folder = trial.lake.root.parent
    conf = trial._spark().sparkContext.getConf()
    assert conf.get("spark.ui.enabled") == "false"
    ours = f"DAGSTER_HOME={folder / 'home'}"
    with daemon_up(folder / "home", folder / "lake", folder / "landing"):
        assert until(lambda: listening(processes_with(ours)), 120), "nothing came up"
        found = listening(processes_with(ours)) | listening(processes_with("_PYSPARK_DRIVER_CONN"))
    addresses = {address for address, _ in found}
    assert addresses == {"127.0.0.1"}, f"listens on {addresses}"
    return f"{len(found)} ports, all on 127.0.0.1"


def processes_with(setting):
    """Return the processes that have this in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if setting.encode() in (folder / "environ").read_bytes():
                found.append(folder)
        except OSError:
            continue
    return found


def listening(processes):
    """Return address and port of each socket these processes listen on."""
    own = {str(fd.readlink()) for p in processes for fd in (p / "fd").glob("*") if fd.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENS and f"socket:[{inode}]" in own:
                found.add(spelt(*local.split(":")))
    return found


def spelt(address, port):
    # The kernel writes four bytes at a time, each four turned round; ::ffff:127.0.0.1 is 127.0.0.1.
    words = struct.pack(
        f"={len(address) // 8}I", *(int(address[i : i + 8], 16) for i in range(0, len(address), 8))
    )
    return socket.inet_ntoa(words[-4:]), int(port, 16)


@fault("S5, S6", "a secret among Spark's options, a run in Dagster", "in no event, row or output; no pickle")
def secret_option(_):
    name = "test_a_secret_option_is_in_no_event_and_no_row_and_nothing_is_pickled"
    return tests_pass(f"test_security.py::{name}")


@fault("S7", "a refused row holds a person's number", "in no event, check or metadata, unless asked for")
def person_in_quarantine(trial):
    kept = {}
    for shown in ("0", "3"):
        home = trial.home / shown
        home.mkdir()
        with trial.patched() as patch, dg.DagsterInstance.local_temp(str(home)) as instance:
            patch.setenv("MEDALLION_SAMPLE_ROWS", shown)
            trial.rows_sent.append({"id": PERSON + int(shown), "total": -1})
            trial.land("shop/orders", f"person{shown}.json", json_lines(trial.rows_sent[-1]) + trial.text())
            assert materialized(trial, instance).success
        number = str(PERSON + int(shown)).encode()
        kept[shown] = [f for f in home.rglob("*") if f.is_file() and number in f.read_bytes()]
    assert not kept["0"], f"it stands in {kept['0']}"
    assert kept["3"], "it is not there where it was asked for: nothing was looked at"
    return trial.holds()


@fault("S8", f"{len(MARKUP)} file names that are HTML, links or formulas", "shown as code")
def markup_in_names(trial):
    for name in MARKUP:
        (trial.zone / name).write_text(trial.text())
    with trial.patched(), dg.DagsterInstance.local_temp(str(trial.home)) as instance:
        assert materialized(trial, instance).success
        event = instance.get_latest_materialization_event(asset_key(trial.tables[0]))
        shown = event.asset_materialization.metadata["file_ledger"].value
    assert all(text in shown for text in ("<img", "](javascript", "=cmd()", "<b>c")), shown
    rest = re.sub(r"`[^`\n]*`", "", shown)
    assert not re.search(r"<|\]\(|=cmd", rest), rest
    return trial.holds()


@fault("S10", "a run under umask 077", "no file of the lake is for others to read")
def private_lake(trial):
    trial.send()
    child = other_process(trial, 0, umask=0o077)
    assert child.wait() == 0
    found = [f for f in trial.lake.root.rglob("*") if stat.S_IMODE(f.lstat().st_mode) & 0o077]
    assert not found, f"{len(found)} are, {found[0]} first"
    trial.go()
    return trial.holds()
