"""``full_refresh``: a table made anew from all of upstream, and put back where its books do not hold."""

from medallion_assets.delta import log
from medallion_assets.tables.conservation import balance
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.refresh import full_refresh as begun_anew
from medallion_assets.tables.refresh import refresh
from medallion_assets.tables.table import Table
from medallion_assets.verbs.asked import Asked, Spark, Told, downstream_of, refused
from medallion_assets.verbs.before import put_back, remember


def full_refresh(table: Table, lake: Lake, spark: Spark, asked: Asked) -> Told:
    """Makes the table anew from all of upstream, in one commit; readers see the old rows until then.

    What stood is remembered for ``undo``. Where the new rows do not balance with upstream, or the run
    fails, it is put back at once.

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
    remember(table, lake)
    try:
        begun_anew(table, lake)
        refresh(table, lake, spark, asked.run_id)
    except Exception:
        put_back(table, lake, spark())
        raise
    books = balance(table, lake)
    if not books.holds:
        put_back(table, lake, spark())
        return Told(table.key, f"put back as it was: made anew, it would say {books}", well=False)
    words = f"made anew: {rows} rows before, {log.row_count(path)} now; {books}"
    return Told(table.key, words, upstream, "table, quarantine and checkpoint", downstream_of(table))


def _missing_sources(table: Table, lake: Lake) -> str:
    """Says what a rebuild would need and is gone; empty where all is there."""
    if table.source:
        return "bronze is what landed, and landing files go; reprocess takes again those that are there"
    lost = [up.key for up in table.upstream if not log.exists(lake.path(up))]
    return f"{', '.join(lost)} is gone, and it would be made from it" if lost else ""
