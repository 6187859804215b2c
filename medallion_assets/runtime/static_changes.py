"""Late and changed rows of a static input, and whether a table has anything to take."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.declare.errors import CheckpointMismatch
from medallion_assets.declare.table import Read, Table
from medallion_assets.delta import changes, log, progress
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.position import static_app_id
from medallion_assets.lake.arrivals import is_filled
from medallion_assets.lake.paths import Lake, is_lost
from medallion_assets.lake.position import (
    batch_versions,
    epoch,
    followed_statics,
    has_other_upstream,
    has_unfinished_batch,
    last_static_versions,
    position,
    transaction,
)
from medallion_assets.quarantine.quarantined import JUDGED
from medallion_assets.runtime.flow import batch_of
from medallion_assets.runtime.recompute import RecomputeScope, prepare_recompute
from medallion_assets.runtime.write import Context, commit
from medallion_assets.session.frames import cut_off
from medallion_assets.sources.quarantine import JOIN, OPEN
from medallion_assets.sources.row_json import read_row


class Moved(NamedTuple):
    """A static input, and the versions of it that were not processed yet."""

    name: str
    read: Read
    versions: VersionRange


def moved_statics(table: Table, lake: Lake) -> Iterator[Moved]:
    """Return the static inputs with ``retry`` or ``follow`` that changed since they were taken; no JVM."""
    known, reads = followed_statics(table, lake), dict(table.reads)
    for name, upstream in _followed(table):
        now = log.version(lake.path(upstream))
        if name in known and now is not None and now > known[name]:
            yield Moved(name, reads[name], VersionRange(known[name], now))


def _followed(table: Table) -> Iterator[tuple[str, Table]]:
    for name, read in table.reads:
        if read.table and (read.follow or read.unmatched == "retry"):
            yield name, read.table


def take_statics(context: Context) -> list[Batch]:
    """Recompute the rows that join changed static rows; return a batch for each input."""
    moved = list(moved_statics(context.table, context.lake))
    is_begun = bool(moved) and position(context.table, context.lake) >= 0
    return [_taken(context, one) for one in moved] if is_begun else []


def _taken(context: Context, moved: Moved) -> Batch:
    table, lake, spark = context.table, context.lake, context.spark
    started, upto = time.monotonic(), position(table, lake)
    app = static_app_id(table.key, epoch(table, lake), moved.name, table.flow)
    signed = transaction(table, lake, moved.versions.upto, context.run_id, app=app)
    old = batch_versions(table, lake, signed.before) | last_static_versions(table, lake)
    old |= followed_statics(table, lake)
    new = old | {moved.name: moved.versions.upto}
    keys = _reached(context, moved)
    scope = RecomputeScope(keys, VersionRange(upto, upto), new, old)
    prepared = prepare_recompute(spark, table, lake, scope)
    prepared = prepared._replace(strategy=f"recomputed for the rows that {moved.name} now knows otherwise")
    batch = batch_of(prepared, table, upto, new, context.run_id, time.monotonic() - started)
    return commit(prepared, batch, context, signed)


def _reached(context: Context, change: Moved) -> DataFrame:
    """Return the table's keys whose rows, waiting or written, are joined with a changed static row."""
    table, lake, spark, read = context.table, context.lake, context.spark, change.read
    assert read.table is not None
    moved = changes.changed(spark, lake.path(read.table), change.versions).select(*read.on).distinct()
    found = _waiting(context, read, moved)
    if read.follow:
        existing = spark.read.format("delta").load(str(lake.path(table)))
        rejoined = existing.join(moved, list(read.on), "left_semi").select(*table.unique_by)
        found = rejoined if found is None else found.union(rejoined)
    if found is None:
        found = spark.read.format("delta").load(str(lake.path(table))).select(*table.unique_by).limit(0)
    # Not persisted: Spark recomputes a cached frame when one of its tables is written.
    return cut_off(found.distinct())


def _waiting(context: Context, read: Read, moved: DataFrame) -> DataFrame | None:
    table, lake, spark = context.table, context.lake, context.spark
    path = lake.quarantine(table)
    if not log.exists(path):
        return None
    wanted = spark.read.format("delta").load(str(lake.path(table))).select(*table.unique_by)
    fields = [*wanted.schema.fields, *(f for f in moved.schema.fields if f.name not in wanted.columns)]
    # A rule may have refused a row for what the static row said: where the table follows, it is judged again.
    which = JUDGED if read.follow else f"reason_class = '{JOIN}'"
    held = spark.read.format("delta").load(str(path)).where(f"{which} AND status = '{OPEN}'")
    rows = held.select(read_row(F.col("row"), StructType(fields)).alias("r")).select("r.*")
    return rows.join(moved, list(read.on), "left_semi").select(*table.unique_by)


def _fate(table: Table, lake: Lake) -> str:
    is_there = log.exists(lake.path(table))
    return (
        "was removed and another made there by hand, and its checkpoint stayed"
        if is_there
        else ("is gone but its checkpoint is not")
    )


def why_not(table: Table, lake: Lake) -> str:
    """Return why a refresh has nothing to do, empty where it has work; needs no JVM."""
    if is_lost(table, lake):
        raise CheckpointMismatch(
            f"{table.key}: the table at {lake.path(table)} {_fate(table, lake)}, so that a refresh would "
            "bring only new rows. Upstream still holds them all: run "
            f"`medallion reset {table.key} --yes`, which takes what is made from it too, and run again to "
            "load all of it again."
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
