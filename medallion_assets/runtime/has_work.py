"""Whether a table has anything to take, told from logs alone."""

from medallion_assets.declare.errors import CheckpointMismatch
from medallion_assets.declare.table import Table
from medallion_assets.delta import changes, log, progress
from medallion_assets.delta.changes import VersionRange
from medallion_assets.lake.arrivals import is_filled
from medallion_assets.lake.lost import is_lost
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import has_other_upstream, has_unfinished_batch, position
from medallion_assets.runtime.static_changes import moved_statics


def why_not(table: Table, lake: Lake) -> str:
    """Say why a refresh has nothing to do, empty where it has; needs no JVM."""
    if is_lost(table, lake):
        raise CheckpointMismatch(
            f"{table.key}: the table at {lake.path(table)} is gone but its checkpoint is not, so a refresh "
            f"would bring only new rows. Upstream still holds them all: run `medallion reset {table.key} "
            "--yes`, which takes what is made from it too, and run again to make all of it anew."
        )
    if has_other_upstream(table, lake):
        what, verb = ("its file ledger", "reset") if table.source else ("its upstream", "full_refresh")
        raise CheckpointMismatch(
            f"{table.key}: {what} at {lake.upstream_log(table)} was created again since the table took it, "
            "so that its versions say nothing of what the table has. Nothing was read or written: run "
            f"`medallion {verb} {table.key}`{' --yes, and run again' if table.source else ''}."
        )
    if has_unfinished_batch(table, lake):
        return ""
    if is_filled(table, lake):
        return "filled once, and left as it is"
    newest = log.version(lake.upstream_log(table))
    if newest is None or (newest == 0 and table.source and not log.row_count(lake.ledger(table))):
        return "nothing has landed yet" if table.source else "its upstream has no rows yet"
    missing = [t.key for t in table.statics.values() if not log.exists(lake.path(t))]
    if missing:
        return f"waits for {', '.join(missing)}, which it reads and which has no rows yet"
    if is_behind(table, lake, newest) or any(moved_statics(table, lake)):
        return ""
    return "nothing new"


def is_behind(table: Table, lake: Lake, newest: int) -> bool:
    """Return true where upstream has changes that the table has not, or a stateful batch did not end.

    Args:
        table: The table.
        lake: Where it is.
        newest: Upstream's newest version.
    """
    at, checkpoint = position(table, lake), lake.state(table, "checkpoint")
    if table.source and not log.exists(lake.path(table)):
        # Without a table nothing is committed; what the checkpoint took were files that gave no row.
        at = max(at, progress.committed_position(checkpoint))
    if table.stateful and progress.is_interrupted(checkpoint):
        return True
    if at < 0 and not table.source:
        return log.row_count(lake.upstream_log(table)) > 0
    return newest > at and changes.moves_data(lake.upstream_log(table), VersionRange(at, newest))
