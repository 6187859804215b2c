"""``undo``: a table as it was before its last full refresh."""

import uuid
from typing import Any

from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.batches import FLOWS, newest_flows
from medallion_assets.delta.commit import BEFORE, Transaction, append
from medallion_assets.delta.position import app_id
from medallion_assets.delta.rollback import roll_back
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import FULL_REFRESH, epoch
from medallion_assets.lake.static_versions import at_version
from medallion_assets.lake.writer import sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, refused

UNDO = "undo"


def undo(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Put the rows and the quarantine back that the last full refresh replaced.

    What landed upstream since is taken by the next run.

    Raises:
        TableBusy: Another process writes the table.
    """
    with sole_writer(table, lake):
        refresh = last_full_refresh(table, lake)
        if refresh is None:
            return refused(table, "no full refresh of it is remembered")
        then, now = int(refresh["version"]) - 1, log.version(lake.path(table))
        if asked.dry_run:
            words = f"version {now} would make way for what version {then} holds"
        else:
            _put_back(table, lake, spark(), then, log.commit_metadata_of(refresh)[BEFORE])
            words = f"version {then} stands again, as version {log.version(lake.path(table))}"
    return VerbResult(
        table.key, words, "its own earlier versions", "table and quarantine", downstream_of(table)
    )


def last_full_refresh(table: Table, lake: Lake) -> dict[str, Any] | None:
    """Return the commit (``commitInfo`` and ``version``) of the last full refresh; None after an undo."""
    if epoch(table, lake) == 0:
        return None
    for info in log.newest_commits(lake.path(table)):
        metadata = log.commit_metadata_of(info)
        if UNDO in metadata:
            return None
        if FULL_REFRESH in metadata:
            return info
    return None


def _put_back(table: Table, lake: Lake, spark: SparkSession, then: int, held: int | None) -> None:
    """Write the rows of a version, and the quarantine's, in one commit each: the table's begins an epoch."""
    run_id, path, quarantine = uuid.uuid4().hex, lake.path(table), lake.quarantine(table)
    roll_back(spark, path, quarantine, run_id)
    flows, number = newest_flows(path, then), epoch(table, lake) + 1
    told = {flow: {**state, "epoch": number, "checkpoint": ""} for flow, state in flows.items()}
    metadata = {
        "run_id": run_id,
        "table": table.key,
        UNDO: then,
        "epoch": number,
        FLOWS: told,
        "flow": "undo",
    }
    at = int(flows[""]["batch"]["position"])
    signed = Transaction(app_id(table.key, number), at, metadata, log.version(quarantine))
    if signed.before is not None:
        rows = at_version(spark, quarantine, signed.before if held is None else held)
        rows = rows if held is not None else rows.limit(0)
        append(rows, quarantine, signed.of_quarantine, mode="overwrite", keep_schema=True)
    # A Delta RESTORE would do, but its commit carries no transaction.
    append(at_version(spark, path, then), path, signed, mode="overwrite", keep_schema=True)
    progress.forget(lake.state(table, "checkpoint"))
