"""How far a table has come, by its own commits: Delta keeps the last version of each application id for ever.

The version is that of the log upstream, so that it means the same with any checkpoint or none. An epoch ends
where a table is rewritten as a whole (full refresh, rebuilt state) or put back (undo): Delta skips a write
whose version is not higher without a word, and a position may only go back under another identifier.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from medallion_assets.delta import log
from medallion_assets.delta.batches import newest_flows


def app_id(key: str, epoch: int, flow: str = "") -> str:
    """Return the application id of a table's stream, or of one of its further flows, in an epoch."""
    return f"{key}/{flow}@{epoch}"


def static_app_id(key: str, epoch: int, name: str, flow: str = "") -> str:
    """Return the application id under which a table takes changed rows of a static input."""
    return f"{key}/{flow}/static/{name}@{epoch}"


def epoch_of(path: Path, key: str) -> int:
    """Return the table's epoch: the one its newest commit of ours names, or a later one it has begun."""
    if not log.exists(path):
        return 0
    return _epoch(log.opened(path), newest_flows(path), key)


def position_of(path: Path, key: str, flow: str = "") -> int:
    """Return the upstream version up to which a flow of the table is committed, -1 for none.

    The commit that begins an epoch names the position of every flow; each flow's own identifier follows
    with its next batch.
    """
    if not log.exists(path):
        return -1
    table, flows = log.opened(path), newest_flows(path)
    epoch, state = _epoch(table, flows, key), flows.get(flow, {})
    recorded = int(state["batch"]["position"]) if state and state.get("epoch") == epoch else -1
    committed = table.transaction_version(app_id(key, epoch, flow))
    return recorded if committed is None else max(recorded, int(committed))


def _epoch(table: DeltaTable, flows: Mapping[str, Mapping[str, Any]], key: str) -> int:
    # A staged clone has the identifiers of its own commits alone; a log may have lost its old entries.
    epoch = max((int(state.get("epoch", 0)) for state in flows.values()), default=0)
    while table.transaction_version(app_id(key, epoch + 1)) is not None:
        epoch += 1
    return epoch
