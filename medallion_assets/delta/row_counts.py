"""How many rows commits brought, as their log entries say: no Spark job, and no history read."""

import json
from pathlib import Path
from typing import Any

from medallion_assets.delta import log
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction

NEW_ROWS = {
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated"),
    "UPDATE": ("numUpdatedRows",),
    "DELETE": (),
}
"""By operation, its metrics of rows that are new as they stand: its files hold rows that only moved, too."""

NEAR = 20
"""Commits among which a batch's own is looked for: upkeep may have come after it."""


def rows_brought(path: Path, versions: VersionRange) -> int:
    """Return the rows that came in with the versions's commits, changed ones with them."""
    if versions.after < 0:
        return log.row_count(path, versions.upto)
    return sum(_brought_by(log.actions(path, v) or []) for v in range(versions.after + 1, versions.upto + 1))


def rows_committed(path: Path, transaction: Transaction) -> int:
    """Return the rows a micro-batch brought its table, also where an earlier attempt committed it."""
    newest = log.version(path) or 0
    for version in range(newest, max(newest - NEAR, -1), -1):
        actions = log.actions(path, version) or []
        if any(_is_of(action["txn"], transaction) for action in actions if "txn" in action):
            return _brought_by(actions)
    return 0


def _is_of(action: dict[str, Any], transaction: Transaction) -> bool:
    return (action["appId"], action["version"]) == (transaction.app_id, transaction.batch_id)


def _brought_by(actions: list[dict[str, Any]]) -> int:
    told: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    metrics, names = told.get("operationMetrics", {}), NEW_ROWS.get(told.get("operation", ""))
    if names is not None:
        return sum(int(metrics.get(name, 0)) for name in names)
    added = [action["add"] for action in actions if "add" in action]
    # OPTIMIZE adds files too, but says that it changed no data.
    stats = [json.loads(a.get("stats") or "{}") for a in added if a.get("dataChange", True)]
    return sum(int(stat.get("numRecords", 0)) for stat in stats)
