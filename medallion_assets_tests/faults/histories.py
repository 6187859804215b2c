"""Faults in the course of a lake: repairs, replacements, deletions, copies, odd files (A8 to G4)."""

import os
import shutil
from datetime import time as of_day
from decimal import Decimal
from types import SimpleNamespace

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.orchestration.sensors import requested
from medallion_assets.quality.verdicts import values_conserved
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.sources import autoload_to_table, copy_into
from medallion_assets_tests.faults.damaged_tables import told_by_verbs
from medallion_assets_tests.faults.trial import fault, shop_tables
from medallion_assets_tests.shop import json_lines


def replaced(trial, file, **counts):
    """Write a file anew: what it held is nowhere from then on."""
    gone = {line for line in file.read_text().splitlines() if line.endswith("}")}
    trial.rows_sent = [row for row in trial.rows_sent if json_lines(row).strip() not in gone]
    file.write_text(trial.text(**counts))
    return file


@fault("A8", "dies after bronze's commit, and its file is overwritten then", "goes on; told")
def overwritten_after_death(trial):
    for tail in ('{"id": -1, "total": null}\n', ""):
        file = trial.send()
        with trial.crash_at(2):
            trial.go()
        file.write_text(tail)
        trial.go()
    told = values_conserved(trial.tables[0], trial.lake)
    assert told.passed, told
    assert "changed since it was loaded" in told.words, told
    return trial.holds()


@fault("B4", "lake and landing zone are copied to another folder, without file times", "goes on there")
def copied(trial):
    trial.send()
    trial.go()
    there, settings = trial.lake.root.parent / "a=new place", trial.lake.settings
    for name in ("lake", "landing"):
        shutil.copytree(getattr(settings, name), there / name, copy_function=shutil.copyfile)
        shutil.rmtree(getattr(settings, name))
    moved = settings.model_copy(update={"lake": there / "lake", "landing": there / "landing"})
    trial.lake = Lake(moved)
    assert not any(done.total("read") for done in trial.go().values()), "something was taken again"
    trial.send()
    trial.go()
    return trial.holds()


@fault("C6", "a record is replayed, then its file comes corrected, in append mode", "both load")
def replayed_then_appended(trial):
    trial.tables = shop_tables(allow_overwrites="append")
    file = trial.send()
    trial.go()
    fix = """row = '{"id": 500000, "total": 5}'"""
    choice = QuarantineFilter(reasons=("parse",))
    told = VERBS["replay"](trial.tables[0], trial.lake, trial._spark, VerbRequest(fix=fix, choice=choice))
    assert told.well, told
    trial.rows_sent.append({"id": 500000, "total": 5})
    file.write_text(trial.text(broken=0))
    trial.go()
    return trial.holds()


@fault("C7", "a loaded file is truncated to nothing, then written back", "each once")
def truncated_and_back(trial):
    file = trial.send()
    text = file.read_text()
    for content in (text, "", text):
        file.write_text(content)
        trial.go()
    return trial.holds()


@fault("C8", "a file is replaced by one that is dated earlier, three times", "the newest seen stands")
def older_dated(trial):
    trial.tables = shop_tables(allow_overwrites="replace")
    file = trial.send(broken=0)
    trial.go()
    for good, day in ((3, 2), (6, 1), (4, 0)):
        os.utime(replaced(trial, file, good=good, broken=0), (day * 86400, day * 86400))
        trial.go()
    return trial.holds()


@fault("C9", "Parquet of float16, TIME, decimal(50,2), nanoseconds, no rows, junk", "told; good ones load")
def odd_parquet(trial):
    zone, check = trial.zone.with_name("odd"), str(trial.lake.root.parent / "check")
    zone.mkdir()
    odd = {
        "float16": pa.array([np.float16(1.5)]),
        "time": pa.array([of_day(1)]),
        "none": pa.array([], "int64"),
        "wide": pa.array([Decimal("1.25")], pa.decimal256(50, 2)),
        "nanos": pa.array([1], pa.timestamp("ns")),
    }
    for name, column in odd.items():
        pq.write_table(pa.table({"id": pa.array([9] * len(column)), "odd": column}), zone / f"{name}.parquet")
    (zone / "junk.parquet").write_text("PAR1 and nothing else")
    for number in range(3):
        pq.write_table(pa.table({"id": [number]}), zone / f"good{number}.parquet")
        with trial.patched():
            done = autoload_to_table(str(zone), "parquet", "shop.bronze.odd", check)
        assert (done.rows_unaccounted, done.values_unaccounted) == (0, {}), done
    ids = sorted(row["id"] for row in log.rows(done.path, "SELECT id FROM t WHERE id < 9"))
    assert ids == [0, 1, 2], ids
    held = log.row_count(done.path) + log.row_count(done.quarantine) + done.files_refused
    assert held == len(odd) + 3, done
    return f"3 good files, each once; {done.files_refused} of {len(odd) + 1} odd ones refused by name"


@fault("D5", "a select list whose expressions fail on some records", "those are held, the others load")
def failing_select(trial):
    zone = trial.zone.with_name("dates")
    zone.mkdir()
    records = [
        {"d": d, "n": n} for d, n in (("2024-01-31", 2), ("31.1.2024", 2), ("2024-01-31", 0), ("x", 5))
    ]
    (zone / "a.json").write_text(json_lines(*records))
    select = ["TO_DATE(d) AS day", "10 DIV n AS share", "split(d, '-')[1] AS month"]
    with trial.patched():
        load = copy_into("shop.bronze.dates", zone, "json", schema="d STRING, n INT", select=select).load
    assert (load.rows_loaded, load.rows_quarantined, load.rows_unaccounted) == (1, 3, 0), load
    return "1 row and 3 refused records, each once"


@fault("E3", "DELETE in bronze by hand, meant", "told; exact after accept_changes, downstream too")
def deleted_on_purpose(trial):
    trial.send()
    trial.go()
    forgotten = trial.rows_sent.pop(0)
    orders = trial.tables[0]
    trial._spark().sql(f"DELETE FROM delta.`{trial.lake.path(orders)}` WHERE id = {forgotten['id']}")
    said = told_by_verbs(trial)
    assert "accept_changes" in said, said
    request = VerbRequest(why="a wish to be forgotten")
    assert VERBS["accept_changes"](orders, trial.lake, trial._spark, request).well
    trial.send()
    trial.go()
    assert told_by_verbs(trial) == ""
    return trial.holds()


@fault("G4", "the run dies after bronze's commit, and no file lands any more", "the sensor asks; exact")
def died_after_bronze(trial):
    trial.send()
    with trial.crash_at(2):
        trial.go()
    pipeline = SimpleNamespace(name="shop", tables=trial.tables[0].registry)
    found = requested(pipeline, trial.lake)
    assert isinstance(found, dg.SensorResult), f"nothing asks for a run: {found}"
    trial.go()
    assert isinstance(requested(pipeline, trial.lake, found.cursor), dg.SkipReason)
    return trial.holds()
