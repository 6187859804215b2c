"""Where a table is: its epoch, its position upstream, and the versions of its static inputs.

Every commit of a table holds them, so that no other record is needed: a batch that crashes before its commit
has no effect, and runs again with the versions that are current then.
"""

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.batches import UPSTREAM, Batch, newest, newest_flows, read_json
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.position import app_id, epoch_of, position_of, static_app_id
from medallion_assets.delta.rollback import unfinished, version_before
from medallion_assets.lake.code_version import code_version
from medallion_assets.lake.paths import Lake
from medallion_assets.session.frames import FEW_BYTES, FEW_ROWS, computed, copied

STATE = "stream_state.json"
"""A file beside the checkpoint with Spark's state metrics after the newest batch."""


FULL_REFRESH = "full_refresh"
"""In the metadata of the commit of a full refresh."""


def epoch(table: Table, lake: Lake) -> int:
    """Return the table's epoch."""
    return epoch_of(lake.path(table), table.key)


def position(table: Table, lake: Lake) -> int:
    """Return the upstream version up to which the table's rows are committed, -1 for none."""
    return position_of(lake.path(table), table.key, table.flow)


def newest_batch(table: Table, lake: Lake) -> Batch | None:
    """Return the table's (or flow's) newest committed batch, None where there is none."""
    batch, file = newest(lake.path(table), table.flow), lake.state(table, STATE)
    state = read_json(file) if batch and table.stateful else None
    if batch is None or state is None or state.pop("position") != batch.position:
        return batch
    return replace(batch, **state)


def has_unfinished_batch(table: Table, lake: Lake) -> bool:
    """Return true where a batch died between its commit to the quarantine and the one to the table."""
    return unfinished(lake.path(table), lake.quarantine(table)) is not None


def has_other_upstream(table: Table, lake: Lake) -> bool:
    """Return true where upstream is another Delta table than the one the position counts versions of."""
    known = newest_flows(lake.path(table)).get(table.flow, {}).get(UPSTREAM)
    now = log.table_id(lake.upstream_log(table))
    return bool(known and now) and known != now


def checkpoint_agrees(table: Table, lake: Lake) -> bool:
    """Return true where the stream can go on with its checkpoint.

    A checkpoint with state has to be the very one that the table's newest batch was written with.
    """
    checkpoint, at = lake.state(table, "checkpoint"), position(table, lake)
    if not table.stateful:
        return progress.goes_on(checkpoint, at)
    if at < 0 or not progress.agrees(checkpoint, at):
        return progress.committed_position(checkpoint) == at
    written_with = newest_flows(lake.path(table)).get(table.flow, {}).get("checkpoint")
    return progress.query_id(checkpoint) == written_with


def transaction(
    table: Table,
    lake: Lake,
    version: int,
    run_id: str,
    in_epoch: int | None = None,
    app: str = "",
) -> Transaction:
    """Return the transaction of a batch.

    Args:
        table: The table.
        lake: Where it is.
        version: The upstream version the batch brings it to.
        run_id: Who asked.
        in_epoch: The epoch the commit belongs to; the table's own where it is None.
        app: Another application id than the stream's.

    Raises:
        LateCommit: A run that lost the table's lease has committed to its quarantine since.
    """
    number = epoch(table, lake) if in_epoch is None else in_epoch
    metadata = {
        "run_id": run_id,
        "table": table.key,
        "epoch": number,
        "code": code_version(table),
        "checkpoint": progress.query_id(lake.state(table, "checkpoint")),
        UPSTREAM: log.table_id(lake.upstream_log(table)),
    }
    before = version_before(lake.path(table), lake.quarantine(table), run_id)
    return Transaction(app or app_id(table.key, number, table.flow), version, metadata, before)


HELD_AT = "/quarantine"
"""The key of the quarantine's version among the static versions."""


def batch_versions(table: Table, lake: Lake, quarantine: int | None) -> dict[str, int]:
    """Return the Delta version of every static input (and of the table and its quarantine) a batch reads.

    Args:
        table: The table.
        lake: Where it is.
        quarantine: The quarantine's version before the batch, None where there is none.
    """
    own = log.version(lake.path(table))
    versions = current_static_versions(table, lake) | ({} if own is None else {table.key: own})
    return versions | ({} if quarantine is None else {HELD_AT: quarantine})


def current_static_versions(table: Table, lake: Lake) -> dict[str, int]:
    """Return the version of each static input to join rows with: the newest, or the one followed so far.

    All rows of a table that follows a static input are joined with the same version of it. New rows are
    joined with that version too, so that a later change is found for all of them.
    """
    found = {name: log.version(lake.path(t)) for name, t in table.statics.items()}
    return {name: v for name, v in found.items() if v is not None} | followed_statics(table, lake)


def followed_statics(table: Table, lake: Lake) -> dict[str, int]:
    """Return, for each static input with ``retry`` or ``follow``, the version up to which it was taken."""
    wanted = [n for n, read in table.reads if read.table and (read.follow or read.unmatched == "retry")]
    if not wanted or not log.exists(lake.path(table)):
        return {}
    last, number = newest_batch(table, lake), epoch(table, lake)
    taken = dict(last.statics) if last else {}
    for name in wanted:
        app = static_app_id(table.key, number, name, table.flow)
        taken[name] = max(taken.get(name, -1), log.committed_version(lake.path(table), app))
    return {name: taken[name] for name in wanted if taken[name] >= 0}


def last_static_versions(table: Table, lake: Lake) -> dict[str, int]:
    """Return the versions of static inputs that the last micro-batch was made with."""
    last = newest_batch(table, lake)
    return dict(last.statics) if last else {}


def at_version(spark: SparkSession, path: Path, version: int) -> DataFrame:
    """Return a Delta table as it was at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(str(path))


_VALUES: OrderedDict[tuple[str, str, str, int], DataFrame] = OrderedDict()
"""Small static inputs by session, path, id of the table and version: what was read is read no more."""

MOST_VALUES = 8


def values_of(spark: SparkSession, path: Path, version: int) -> DataFrame:
    """Return a Delta table as it was at a version; few rows as values that the session keeps.

    Static inputs seldom change: each increment listed and read the same files.
    """
    if log.version(path) != version or not _is_small(path):
        return at_version(spark, path, version)
    key = (spark.sparkContext.applicationId, str(path), log.table_id(path), version)
    values = _VALUES.pop(key, None)
    if values is None:
        values = computed(at_version(spark, path, version))
    if values is None:
        return at_version(spark, path, version)
    _VALUES[key] = values
    while len(_VALUES) > MOST_VALUES:
        _VALUES.popitem(last=False)
    return copied(values, spark)


def _is_small(path: Path) -> bool:
    rows, size = log.rows_and_bytes(path)
    return rows <= FEW_ROWS and size <= FEW_BYTES
