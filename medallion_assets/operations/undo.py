"""``undo``: a table as it was before its last full refresh."""

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.operations.before_image import put_back, remembered
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, refused


def undo(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Put the rows, quarantine and checkpoint back that the last full refresh replaced.

    What landed upstream since is taken by the next run.

    Raises:
        TableBusy: Another process writes the table.
    """
    told = remembered(table, lake)
    if not told:
        return refused(table, "no full refresh of it is remembered")
    then, now = told["versions"]["table"], log.version(lake.path(table))
    if asked.dry_run:
        words = f"version {now} would make way for what version {then} holds"
    else:
        put_back(table, lake, spark())
        words = f"version {then} stands again, as version {log.version(lake.path(table))}"
    writes = "table, quarantine and checkpoint"
    return VerbResult(table.key, words, "its own earlier versions", writes, downstream_of(table))
