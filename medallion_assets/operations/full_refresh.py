"""``full_refresh``: a table rewritten from all of upstream in one commit, where its books hold."""

import uuid
from dataclasses import replace

from medallion_assets.declare.errors import GateClosed
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.commit import commit_nothing
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import newest_batch, position, transaction
from medallion_assets.lake.writer import sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, refused
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.refresh import take_new
from medallion_assets.runtime.query import take_all_rows


def full_refresh(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Recompute the table from all of upstream: staged, compared, and published in one commit.

    Readers see the old rows until then. Where the new ones do not balance with upstream, or the run
    fails, nothing is published. ``undo`` puts the old version back.

    Raises:
        TableBusy: Another process writes the table.
        RefreshFailed: It could not be made; the table is as it was.
    """
    gone = _missing_sources(table, lake)
    if gone:
        return refused(table, gone)
    path, rows = lake.path(table), log.row_count(lake.path(table))
    upstream = ", ".join(up.key for up in table.upstream)
    if asked.dry_run:
        words = f"its {rows} rows would be recomputed from all of upstream, in one commit"
        return VerbResult(
            table.key, words, upstream, "table, quarantine and checkpoint", downstream_of(table)
        )
    run_id = asked.run_id or uuid.uuid4().hex
    try:
        with sole_writer(table, lake):
            _rewrite(table, lake, spark, run_id)
    except GateClosed as closed:
        return VerbResult(table.key, f"refused: {closed}", well=False)
    words = f"recomputed: {rows} rows before, {log.row_count(path)} now; {balance(table, lake)}"
    return VerbResult(table.key, words, upstream, "table, quarantine and checkpoint", downstream_of(table))


def _rewrite(table: Table, lake: Lake, spark: Spark, run_id: str) -> None:
    if newest_batch(table, lake) is None:
        take_new(table, lake, spark, run_id)
        return
    take_all_rows(replace(table, write_audit_publish=True), lake, spark(), run_id)
    for flow in table.flows:
        # Its rows were rewritten with the others; its own identifier says so from now on, too.
        if position(flow, lake) >= 0:
            commit_nothing(spark(), lake.path(table), transaction(flow, lake, position(flow, lake), run_id))


def _missing_sources(table: Table, lake: Lake) -> str:
    """Say what a rebuild would need and is gone; empty where all is there."""
    if table.source:
        return "bronze is what landed, and landing files go; reprocess takes again those that are there"
    lost = [up.key for up in table.upstream if not log.exists(lake.path(up))]
    return f"{', '.join(lost)} is gone, and it would be made from it" if lost else ""
