"""How many rows commits brought, as their log entries say: no Spark job, and no history read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medallion_assets.delta import log
from medallion_assets.delta.changes import VersionRange

NEW_ROWS = {
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated"),
    "UPDATE": ("numUpdatedRows",),
    "DELETE": (),
}
"""By operation, its metrics of rows that are new as they stand: its files hold rows that only moved, too."""


def rows_brought(path: Path, versions: VersionRange) -> int:
    """Return the rows that came in with the commits of a range, changed ones with them."""
    if versions.after < 0:
        return log.row_count(path, versions.upto)
    return sum(_brought_by(log.actions(path, v) or []) for v in range(versions.after + 1, versions.upto + 1))


def rows_written(info: Mapping[str, Any]) -> int:
    """Return the rows a commit wrote, by the metrics of its ``commitInfo``."""
    metrics, operation = info.get("operationMetrics") or {}, str(info.get("operation"))
    return sum(int(metrics.get(name, 0)) for name in NEW_ROWS.get(operation, ("numOutputRows",)))


def _brought_by(actions: list[dict[str, Any]]) -> int:
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    if info.get("operation") in NEW_ROWS:
        return rows_written(info)
    added = [action["add"] for action in actions if "add" in action]
    # OPTIMIZE adds files too, but says that it changed no data.
    stats = [json.loads(a.get("stats") or "{}") for a in added if a.get("dataChange", True)]
    return sum(int(stat.get("numRecords", 0)) for stat in stats)
