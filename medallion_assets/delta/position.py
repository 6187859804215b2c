"""How far a table has come, by its own commits: Delta keeps the last version of each application id for ever.

The version is that of the log upstream, so that it means the same with any checkpoint or none. An epoch ends
where a table is rewritten as a whole (full refresh, rebuilt state) or put back (undo): Delta skips a write
whose version is not higher without a word, and a position may only go back under another identifier.
"""

from pathlib import Path

from medallion_assets.delta import log
from medallion_assets.delta.batches import newest_flows


def app_id(key: str, epoch: int, flow: str = "") -> str:
    """Return the application id of a table's stream, or of one of its further flows, in an epoch."""
    return f"{key}/{flow}@{epoch}"


def static_app_id(key: str, epoch: int, name: str, flow: str = "") -> str:
    """Return the application id under which a table takes changed rows of a static input."""
    return f"{key}/{flow}/static/{name}@{epoch}"


def epoch_of(path: Path, key: str) -> int:
    """Return the table's epoch: 0, or the highest whose first commit it has."""
    if not log.exists(path):
        return 0
    table, epoch = log.opened(path), 0
    while table.transaction_version(app_id(key, epoch + 1)) is not None:
        epoch += 1
    return epoch


def position_of(path: Path, key: str, flow: str = "") -> int:
    """Return the upstream version up to which a flow of the table is committed, -1 for none.

    The commit that begins an epoch names the position of every flow; each flow's own identifier follows
    with its next batch.
    """
    if not log.exists(path):
        return -1
    epoch = epoch_of(path, key)
    state = newest_flows(path).get(flow, {})
    told = int(state["batch"]["position"]) if state and state.get("epoch") == epoch else -1
    return max(told, log.committed_version(path, app_id(key, epoch, flow)))
