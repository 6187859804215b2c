"""How tables and files stand, as rows to print."""

import json
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from medallion_assets.delta import batches, log, progress
from medallion_assets.ingestion import ledger as ledgers
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.table import Table
from medallion_assets.tables.verdicts import verdicts


def statuses(tables: Iterable[Table], lake: Lake) -> list[dict[str, Any]]:
    """Gives, per table: pipeline, layer, table, path, version, rows, quarantined, last_run, checks."""
    return [_status(table, lake) for table in tables]


def history_of(table: Table, lake: Lake, limit: int) -> list[dict[str, Any]]:
    """Gives a table's newest commits: version, time, operation, rows, micro-batch and run."""
    return [_commit(entry) for entry in log.history(lake.path(table), limit)]


def files_of(table: Table, lake: Lake) -> list[dict[str, Any]]:
    """Gives what the ledger knows of each file, with how far its bronze table has come."""
    assert table.source is not None
    ledger = lake.ledger(table.pipeline, table.source)
    taken = _taken_paths(table, lake)
    found = ledgers.rows(ledger, "SELECT * FROM ledger ORDER BY discovered_at, path")
    return [
        {
            "table": table.key,
            "path": row["path"],
            "size": row["size"],
            "records": row["records"],
            "status": _file_status(row, taken),
            "reason": row["reason"],
            "modified_at": row["modified_at"],
            "discovered_at": row["discovered_at"],
        }
        for row in found
    ]


def last_run(table: Table, lake: Lake) -> str | None:
    """Gives when the table was last written, ISO 8601 in UTC."""
    newest = log.history(lake.path(table), 1)
    return _time(newest[0]["timestamp"]) if newest else None


def _status(table: Table, lake: Lake) -> dict[str, Any]:
    path = lake.path(table)
    return {
        "pipeline": table.pipeline,
        "layer": table.layer,
        "table": table.name,
        "path": str(path),
        "version": log.version(path),
        "rows": log.row_count(path),
        "quarantined": log.row_count(lake.quarantine(table)),
        "last_run": last_run(table, lake),
        "checks": {v.name: "passed" if v.passed else "failed" if v.blocking else "warned"
                   for v in verdicts(table, lake)},
    }  # fmt: skip


def _commit(entry: dict[str, Any]) -> dict[str, Any]:
    note = json.loads(entry.get("userMetadata") or "{}")
    metrics = entry.get("operationMetrics") or {}
    return {
        "version": entry.get("version"),
        "time": _time(entry["timestamp"]),
        "operation": entry.get("operation"),
        "rows": metrics.get("numOutputRows"),
        "batch": note.get("batch"),
        "run": note.get("run_id"),
    }


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="seconds")


def _taken_paths(table: Table, lake: Lake) -> set[object]:
    assert table.source is not None
    place = progress.committed_position(lake.state(table, "checkpoint"))
    if place.version < 0:
        return set()
    sql = f"SELECT path FROM ledger WHERE status = '{ledgers.ADMITTED}'"
    return {
        row["path"] for row in ledgers.rows(lake.ledger(table.pipeline, table.source), sql, place.version)
    }


def _file_status(row: dict[str, object], taken: set[object]) -> object:
    if row["status"] != ledgers.ADMITTED:
        return row["status"]
    return "committed" if row["path"] in taken else "waiting"


def batches_of(table: Table, lake: Lake) -> list[batches.Batch]:
    """Gives the table's last micro-batches, oldest first."""
    return batches.recorded(lake.state(table, "batches"))
