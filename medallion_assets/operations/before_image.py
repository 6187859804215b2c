"""How a table stood before a verb replaced it: remembered by version, put back in one commit each."""

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import write_json
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.static_versions import at_version
from medallion_assets.lake.writer import sole_writer

KEPT = ("checkpoint", "batches", "start.json", "idle.json", "followed.json", "following.json")
"""Bookkeeping that belongs to the rows: put back with them, or the next run would take rows twice."""

NOTED = ("upstream_version", "query", "generation")


def remember(table: Table, lake: Lake) -> None:
    """Keeps the table's versions and a copy of its bookkeeping; what was remembered before goes.

    The caller holds the table's lease.
    """
    aside = lake.state(table, "before")
    shutil.rmtree(aside, ignore_errors=True)
    for stream in (table, *table.flows):
        for what in KEPT:
            found = lake.state(stream, what)
            copy = shutil.copytree if found.is_dir() else shutil.copy2
            if found.exists():
                target = aside / (stream.flow or ".") / what
                target.parent.mkdir(parents=True, exist_ok=True)
                copy(found, target)
    versions = {"table": log.version(lake.path(table)), "quarantine": log.version(lake.quarantine(table))}
    # What its newest commit says of where it stands: a checkpoint lost after an undo goes on from there.
    note = {name: log.last_commit_metadata(lake.path(table), name) for name in NOTED}
    write_json(aside / "versions.json", {"versions": versions, "note": note})


def remembered(table: Table, lake: Lake) -> dict[str, Any]:
    """Return ``versions`` of table and quarantine as remembered, and ``note``; empty where none were."""
    file = lake.state(table, "before") / "versions.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def put_back(table: Table, lake: Lake, spark: SparkSession) -> None:
    """Make table, quarantine and bookkeeping what they were when they were remembered."""
    told = remembered(table, lake)
    with sole_writer(table, lake):
        _rows_back(spark, lake, table, told)
        aside = lake.state(table, "before")
        for stream in (table, *table.flows):
            for what in KEPT:
                _file_back(aside / (stream.flow or ".") / what, lake.state(stream, what))
        (aside / "versions.json").unlink()


def _rows_back(spark: SparkSession, lake: Lake, table: Table, told: dict[str, Any]) -> None:
    run, versions = uuid.uuid4().hex, told["versions"]
    for what, path in (("table", lake.path(table)), ("quarantine", lake.quarantine(table))):
        then, now = versions.get(what), log.version(path)
        if now is None or then == now:
            continue
        # A Delta RESTORE would do, but its commit cannot be signed.
        rows = at_version(spark, path, now if then is None else then)
        rows = rows.limit(0) if then is None else rows
        note = {"run_id": run, "table": table.key, "undo": then} | told["note"]
        append(
            rows, path, Transaction(f"{table.key}/undo/{run}", 0, note), mode="overwrite", keep_schema=True
        )


def _file_back(kept: Path, here: Path) -> None:
    if here.is_dir():
        shutil.rmtree(here)
    here.unlink(missing_ok=True)
    if kept.exists():
        (shutil.copytree if kept.is_dir() else shutil.copy2)(kept, here)
