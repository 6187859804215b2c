"""The state and history of tables, as rows to print."""

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from medallion_assets.declare.table import Table
from medallion_assets.delta import batches, log
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.verdicts import Verdict, verdicts
from medallion_assets.sources.quarantine import held_rows

NOT_RUN = "not run yet"
"""A check of a table that does not exist: nothing has been checked, and nothing has passed."""


def statuses(tables: Iterable[Table], lake: Lake) -> list[dict[str, Any]]:
    """Return, per table: pipeline, layer, table, path, version, rows, quarantined, last_run, checks.

    ``rows`` are the rows in the table, here and in every other report.
    """
    return [_status(table, lake) for table in tables]


def history_of(table: Table, lake: Lake, limit: int) -> list[dict[str, Any]]:
    """Return a table's newest commits: version, time, operation, rows_written, batch and run."""
    return [_commit(entry) for entry in log.history(lake.path(table), limit)]


def last_run(table: Table, lake: Lake) -> str | None:
    """Return when the table was last written, ISO 8601 in UTC."""
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
        "quarantined": held_rows(lake.quarantine(table)),
        "last_run": last_run(table, lake),
        "checks": {v.name: _state(v) if log.exists(path) else NOT_RUN for v in verdicts(table, lake)},
    }


def _state(verdict: Verdict) -> str:
    return "passed" if verdict.passed else "failed" if verdict.blocking else "warned"


def _commit(entry: dict[str, Any]) -> dict[str, Any]:
    note = log.commit_metadata_of(entry)
    metrics = entry.get("operationMetrics") or {}
    return {
        "version": entry.get("version"),
        "time": _time(entry["timestamp"]),
        "operation": entry.get("operation"),
        "rows_written": metrics.get("numOutputRows"),
        "batch": _position(note),
        "run": note.get("run_id"),
    }


def _position(note: dict[str, Any]) -> int | None:
    """Return the upstream version a commit of ours brought its flow to, None for any other commit."""
    state = note.get(batches.FLOWS, {}).get(note.get(batches.FLOW))
    return int(state["batch"]["position"]) if state else None


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="seconds")


def batches_of(table: Table, lake: Lake) -> list[batches.Batch]:
    """Return the table's last micro-batches, oldest first."""
    return batches.recorded(lake.path(table), table.flow)
