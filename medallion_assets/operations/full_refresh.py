"""``full_refresh`` rewrites a table from all of upstream in one commit; ``undo`` restores it."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from medallion_assets.declare.errors import GateClosed
from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.batches import FLOWS, newest_flows
from medallion_assets.delta.changes import rewrites_all
from medallion_assets.delta.commit import BEFORE, Transaction, append, commit_nothing
from medallion_assets.delta.position import app_id
from medallion_assets.delta.rollback import roll_back
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.lake.position import (
    FULL_REFRESH,
    at_version,
    epoch,
    newest_batch,
    position,
    transaction,
)
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, many, refused
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.run import take_new
from medallion_assets.runtime.query import take_all_rows
from medallion_assets.runtime.write import Context


def full_refresh(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Recompute the table from all of upstream: stage it, check it, and publish it in one commit.

    Readers see the old rows until that commit. Where a blocking check fails on the new rows, or the run
    fails, nothing is published. ``undo`` restores the old version.

    Raises:
        TableBusy: Another process writes the table.
        RefreshFailed: The rows could not be computed; the table is unchanged.
    """
    gone = _missing_sources(table, lake)
    if gone:
        return refused(table, gone)
    path, rows = lake.path(table), log.row_count(lake.path(table))
    upstream = ", ".join(up.key for up in table.upstream)
    if request.dry_run:
        words = f"its {many(rows, 'row')} would be recomputed from all of upstream, in one commit"
        return VerbResult(
            table.key, words, upstream, "table, quarantine and checkpoint", downstream_of(table)
        )
    run_id = request.run_id or uuid.uuid4().hex
    try:
        with sole_writer(table, lake):
            _rewrite(table, lake, spark, run_id)
    except GateClosed as closed:
        return VerbResult(table.key, f"refused: {closed}", well=False)
    words = f"recomputed: {rows} rows before, {log.row_count(path)} now; {balance(table, lake)}"
    words += f"; `medallion undo {table.key}` restores the old ones"
    return VerbResult(table.key, words, upstream, "table, quarantine and checkpoint", downstream_of(table))


def _rewrite(table: Table, lake: Lake, spark: Spark, run_id: str) -> None:
    if newest_batch(table, lake) is None:
        take_new(table, lake, spark, run_id)
        return
    take_all_rows(Context(replace(table, write_audit_publish=True), lake, spark(), run_id))
    for flow in table.flows:
        # The flow's rows were rewritten as well; its own identifier has to say so.
        if position(flow, lake) >= 0:
            commit_nothing(spark(), lake.path(table), transaction(flow, lake, position(flow, lake), run_id))


def _missing_sources(table: Table, lake: Lake) -> str:
    """Return why a rebuild is impossible; empty where all of upstream is there."""
    if table.source:
        return (
            "bronze is not recomputed: its landing files may be gone. Use reprocess for files that are there"
        )
    lost = [up.key for up in table.upstream if not log.exists(lake.path(up))]
    return f"{', '.join(lost)} is missing, and the table would be computed from it" if lost else ""


UNDO = "undo"


def undo(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Restore the rows and the quarantine that the last full refresh replaced.

    The next run takes what reached upstream since.

    Raises:
        TableBusy: Another process writes the table.
    """
    with sole_writer(table, lake):
        refresh = last_full_refresh(table, lake)
        if refresh is None:
            return refused(table, "its history has no full refresh, or it was undone already")
        then, now = int(refresh["version"]) - 1, log.version(lake.path(table))
        if request.dry_run:
            words = f"the rows of version {then} would replace those of version {now}"
        else:
            _put_back(table, lake, spark(), then, log.commit_metadata_of(refresh)[BEFORE])
            words = f"version {then} is restored, as version {log.version(lake.path(table))}"
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


def commits_in_force(table: Table, lake: Lake) -> Iterator[dict[str, Any]]:
    """Return the commits that the table's rows come from, newest first.

    They begin with the last one in which a run rewrote the whole table (a full refresh, an aggregate in
    complete mode); those that an undo took back are not among them.
    """
    then: int | None = None
    for info in log.newest_commits(lake.path(table)):
        if then is not None and int(info["version"]) > then:
            continue
        metadata = log.commit_metadata_of(info)
        then = metadata.get(UNDO, then)
        if UNDO in metadata:
            continue
        yield info
        if metadata and (FULL_REFRESH in metadata or rewrites_all(info)):
            return


def _put_back(table: Table, lake: Lake, spark: SparkSession, then: int, held: int | None) -> None:
    """Write an older version's rows and quarantine, each in one commit; the table's begins an epoch."""
    run_id, path, quarantine = uuid.uuid4().hex, lake.path(table), lake.quarantine(table)
    roll_back(spark, path, quarantine, run_id)
    flows, number = newest_flows(path, then), epoch(table, lake) + 1
    restored = {flow: {**state, "epoch": number, "checkpoint": ""} for flow, state in flows.items()}
    metadata = {
        "run_id": run_id,
        "table": table.key,
        UNDO: then,
        "epoch": number,
        FLOWS: restored,
        "flow": "undo",
    }
    at = int(flows[""]["batch"]["position"])
    signed = Transaction(app_id(table.key, number), at, metadata, log.version(quarantine))
    if signed.before is not None:
        rows = at_version(spark, quarantine, signed.before if held is None else held)
        rows = rows if held is not None else rows.limit(0)
        append(rows, quarantine, signed.of_quarantine, mode="overwrite", keep_schema=True)
    # Not a Delta RESTORE: its commit carries no transaction identifier.
    append(at_version(spark, path, then), path, signed, mode="overwrite", keep_schema=True)
    progress.forget(lake.state(table, "checkpoint"))
