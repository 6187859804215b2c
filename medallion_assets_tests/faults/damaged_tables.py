"""Faults of tables: log entries and data files cut up or gone, a table recomputed by hand (B2)."""

import json
import shutil

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from medallion_assets.delta import log
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets_tests.faults.storage import cut, mended
from medallion_assets_tests.faults.trial import fault

TOLD = "told by the run, by doctor or by the audit; exact after the verb that is named"


def entry(path, number):
    return path / "_delta_log" / f"{number:020d}.json"


def damaged(damage):
    """Three files in, the damage to silver's table, a fourth file in: whether anything tells of it."""

    def run(trial):
        for _ in range(3):
            trial.send()
            trial.go()
        damage(trial.lake.path(trial.tables[1]))
        trial.send()
        said = trial.try_to_go() or told_by_verbs(trial)
        assert said, "nothing told of it"
        return mended_as(said, trial)

    return run


def mended_as(said, trial, table=1):
    """Does what the message says, and what tables downstream say then; gives what stands in the end."""
    verb = next((word for word in ("reset", "full_refresh") if word in said), "")
    assert verb, f"no verb is named: {said}"
    VERBS[verb](trial.tables[table], trial.lake, trial._spark, VerbRequest())
    stops = mended(trial)
    more = f" and {stops} full_refresh downstream" if stops else ""
    return f"told: {said.splitlines()[0][:70]}; after {verb}{more} {trial.holds()}"


def told_by_verbs(trial):
    told = []
    for verb in ("doctor", "audit"):
        for table in trial.tables:
            try:
                answer = VERBS[verb](table, trial.lake, trial._spark, VerbRequest())
                told += [] if answer.well else [answer.does]
            except Exception as error:
                told.append(f"{verb}: {error}")
    return "; ".join(told)


def newest_data_file(path):
    last = log.version(path)
    while True:
        actions = [json.loads(line) for line in entry(path, last).read_text().splitlines() if line]
        adds = [a["add"]["path"] for a in actions if "add" in a]
        if adds:
            return path / adds[0]
        last -= 1


def recreated(path):
    rows = log.rows(path, "SELECT * FROM t LIMIT 1")
    shutil.rmtree(path)
    write_deltalake(str(path), pa.Table.from_pylist(rows))


def restored(path):
    DeltaTable(str(path)).restore(1)


DAMAGES = {
    "newest log entry emptied, as power loss leaves it": lambda p: cut(entry(p, log.version(p)), "emptied"),
    "newest log entry cut off": lambda p: cut(entry(p, log.version(p)), "truncated"),
    "newest log entry deleted": lambda p: cut(entry(p, log.version(p)), "deleted"),
    "log entry in the middle deleted": lambda p: cut(entry(p, log.version(p) - 1), "deleted"),
    "first log entry deleted": lambda p: cut(entry(p, 0), "deleted"),
    "newest data file deleted": lambda p: newest_data_file(p).unlink(),
    "newest data file cut off": lambda p: cut(newest_data_file(p), "truncated"),
    "folder deleted": shutil.rmtree,
    "folder deleted, and a table of one row made there by hand": recreated,
    "RESTORE to an earlier version": restored,
}

for words, damage in DAMAGES.items():
    fault("B2", f"silver's table: its {words}", TOLD)(damaged(damage))


@fault("B2", "a log entry whose checksum file is of another one", TOLD)
def stale_checksum(trial):
    for _ in range(2):
        trial.send()
        trial.go()
    # Of the small tables' commits those that Spark writes have a checksum.
    path = trial.lake.path(trial.tables[3])
    own, other = (entry(path, n).with_name(f".{entry(path, n).name}.crc") for n in (0, 1))
    shutil.copy(other, own)
    trial.send()
    said = trial.try_to_go()
    return mended_as(said, trial, 3) if said else trial.holds()
