"""Whether a table has anything to take, told from logs alone."""

from medallion_assets.declare.errors import CheckpointMismatch
from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.lake.arrivals import is_filled
from medallion_assets.lake.lost import is_lost
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import idle_at, noted_version, position
from medallion_assets.runtime.static_changes import moved_statics


def why_not(table: Table, lake: Lake) -> str:
    """Say why a refresh has nothing to do, empty where it has; needs no JVM."""
    checkpoint = lake.state(table, "checkpoint")
    if is_lost(table, lake):
        raise CheckpointMismatch(
            f"{table.key}: the table at {lake.path(table)} is gone but its checkpoint is not, so a refresh "
            f"would bring only new rows. Upstream still holds them all: run `medallion reset {table.key} "
            "--yes`, which takes what is made from it too, and run again to make all of it anew."
        )
    if is_filled(table, lake):
        return "filled once, and left as it is"
    newest = log.version(lake.upstream_log(table))
    if newest is None or (newest == 0 and table.source and not log.row_count(lake.ledger(table))):
        return "nothing has landed yet" if table.source else "its upstream has no rows yet"
    missing = [t.key for t in table.statics.values() if not log.exists(lake.path(t))]
    if missing:
        return f"waits for {', '.join(missing)}, which it reads and which has no rows yet"
    at = position(table, lake)
    new = newest > max(at.version, idle_at(table, lake), noted_version(table, lake))
    if new or at.partly or progress.is_interrupted(checkpoint) or any(moved_statics(table, lake)):
        return ""
    return "nothing new"
