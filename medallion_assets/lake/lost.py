"""Whether a table's folder went while what it remembers of its inputs stayed."""

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.lake.paths import Lake
from medallion_assets.sources import file_status as outcomes


def is_lost(table: Table, lake: Lake) -> bool:
    """Return true where the table is gone, and batches wrote it.

    Batches whose files were all refused, or gone before they were read, leave no table behind.
    """
    if log.exists(lake.path(table)):
        return False
    if table.source:
        return outcomes.any_loaded(lake.ledger(table))
    return progress.last_number(lake.state(table, "checkpoint") / "commits") >= 0
