"""``full_refresh``: a table made anew aside, from all of upstream, and published where its books hold."""

import uuid
from dataclasses import replace

from medallion_assets.delta import log
from medallion_assets.tables.checks.conservation import balance
from medallion_assets.tables.checks.gate import refuse_unfit
from medallion_assets.tables.declaration.errors import GateClosed
from medallion_assets.tables.declaration.table import Table
from medallion_assets.tables.refresh import take_new
from medallion_assets.tables.standing.aside import Aside, worked_aside
from medallion_assets.tables.standing.lake import Lake
from medallion_assets.tables.standing.starts import begin_anew
from medallion_assets.tables.standing.writer import sole_writer
from medallion_assets.verbs.asked import Asked, Spark, Told, downstream_of, refused
from medallion_assets.verbs.before import remember


def full_refresh(table: Table, lake: Lake, spark: Spark, asked: Asked) -> Told:
    """Makes the table anew from all of upstream: built aside, compared, and put in the old one's place.

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
        words = f"its {rows} rows would be made anew from all of upstream, in one commit"
        return Told(table.key, words, upstream, "table, quarantine and checkpoint", downstream_of(table))
    try:
        with sole_writer(table, lake), worked_aside(table, lake) as aside:
            _make_anew(table, aside, spark, asked.run_id)
            remember(table, lake)
    except GateClosed as closed:
        return Told(table.key, f"refused: {closed}", well=False)
    words = f"made anew: {rows} rows before, {log.row_count(path)} now; {balance(table, lake)}"
    return Told(table.key, words, upstream, "table, quarantine and checkpoint", downstream_of(table))


def _make_anew(table: Table, aside: Aside, spark: Spark, run_id: str) -> None:
    for stream in (table, *table.flows):
        begin_anew(stream, aside)
    take_new(replace(table, gate=False), aside, spark, run_id or uuid.uuid4().hex)
    refuse_unfit(table, aside)


def _missing_sources(table: Table, lake: Lake) -> str:
    """Says what a rebuild would need and is gone; empty where all is there."""
    if table.source:
        return "bronze is what landed, and landing files go; reprocess takes again those that are there"
    lost = [up.key for up in table.upstream if not log.exists(lake.path(up))]
    return f"{', '.join(lost)} is gone, and it would be made from it" if lost else ""
