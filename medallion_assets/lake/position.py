"""Where a table is: its epoch, its position upstream, and whether its checkpoint is of that position."""

import json
from dataclasses import replace

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.batches import UPSTREAM, Batch, newest, newest_flows
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.position import app_id, epoch_of, position_of
from medallion_assets.delta.rollback import unfinished
from medallion_assets.lake.code_version import code_version
from medallion_assets.lake.paths import Lake

STATE = "stream_state.json"
"""Beside the checkpoint: what Spark said of the state after the newest batch, for people to read."""


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
    batch, told = newest(lake.path(table), table.flow), lake.state(table, STATE)
    if batch is None or not table.stateful or not told.exists():
        return batch
    state = json.loads(told.read_text())
    if state.pop("position") != batch.position:
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
    before = log.version(lake.quarantine(table))
    return Transaction(app or app_id(table.key, number, table.flow), version, metadata, before)
