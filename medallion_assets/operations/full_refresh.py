"""``full_refresh``: a table recomputed aside, from all of upstream, and published where its books hold."""

import uuid
from dataclasses import replace

from medallion_assets.declare.errors import GateClosed
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import begin_anew
from medallion_assets.lake.staging import StagedLake, staged
from medallion_assets.lake.writer import sole_writer
from medallion_assets.operations.before_image import remember
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, refused
from medallion_assets.quality.conservation import balance
from medallion_assets.quality.gate import refuse_unfit
from medallion_assets.runs.refresh import take_new


def full_refresh(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Make the table anew from all of upstream: built aside, compared, and put in the old one's place.

    Readers see the old rows until then. Where the new ones do not balance with upstream, or the run
    fails, nothing is published. What stood is remembered for ``undo``.

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
    try:
        with sole_writer(table, lake), staged(table, lake) as aside:
            _make_anew(table, aside, spark, asked.run_id)
            remember(table, lake)
    except GateClosed as closed:
        return VerbResult(table.key, f"refused: {closed}", well=False)
    words = f"recomputed: {rows} rows before, {log.row_count(path)} now; {balance(table, lake)}"
    return VerbResult(table.key, words, upstream, "table, quarantine and checkpoint", downstream_of(table))


def _make_anew(table: Table, aside: StagedLake, spark: Spark, run_id: str) -> None:
    for stream in (table, *table.flows):
        begin_anew(stream, aside)
    take_new(replace(table, write_audit_publish=False), aside, spark, run_id or uuid.uuid4().hex)
    refuse_unfit(table, aside)


def _missing_sources(table: Table, lake: Lake) -> str:
    """Say what a rebuild would need and is gone; empty where all is there."""
    if table.source:
        return "bronze is what landed, and landing files go; reprocess takes again those that are there"
    lost = [up.key for up in table.upstream if not log.exists(lake.path(up))]
    return f"{', '.join(lost)} is gone, and it would be made from it" if lost else ""
