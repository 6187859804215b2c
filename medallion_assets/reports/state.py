"""The state and history of tables, as rows to print."""

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from medallion_assets.declare.table import Table
from medallion_assets.delta import batches, log
from medallion_assets.delta.changes import rows_written
from medallion_assets.lake.arrivals import is_filled
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import position
from medallion_assets.quality.verdicts import Verdict, verdicts
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources import unseen_files
from medallion_assets.sources.errors import FolderDenied, SourceMissing
from medallion_assets.sources.listing import overlooked
from medallion_assets.sources.looks import notices
from medallion_assets.sources.quarantine import held_rows

NOT_RUN = "not run yet"
"""A check of a table that does not exist: nothing has been checked, and nothing has passed."""


def statuses(tables: Iterable[Table], lake: Lake) -> list[dict[str, Any]]:
    """Return, per table: user_schema, pipeline, layer, table, path, version, rows, quarantined, last_run,
    checks.

    ``rows`` are the rows in the table, here and in every other report.
    """
    return [_status(table, lake) for table in tables]


def history_of(table: Table, lake: Lake, limit: int) -> list[dict[str, Any]]:
    """Return a table's newest commits: version, time, operation, rows_written, batch and run.

    ``batch`` is the upstream version that the commit brought the table to, None where it is no batch's.
    ``rows_written`` are the batch's, as its run told them; of another commit those it added or changed.
    """
    return [_commit(entry) for entry in log.history(lake.path(table), limit)]


def last_run(table: Table, lake: Lake) -> str | None:
    """Return when the table was last written, ISO 8601 in UTC."""
    newest = log.history(lake.path(table), 1)
    return _time(newest[0]["timestamp"]) if newest else None


def _status(table: Table, lake: Lake) -> dict[str, Any]:
    path = lake.path(table)
    return {
        "user_schema": lake.settings.user_schema,
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
    batch = batches.batch_of(entry)
    return {
        "version": entry.get("version"),
        "time": _time(entry["timestamp"]),
        "operation": entry.get("operation"),
        # Files that a MERGE or DELETE rewrites hold rows that no one wrote again.
        "rows_written": batch.written if batch else rows_written(entry),
        "batch": batch.position if batch else None,
        "run": log.commit_metadata_of(entry).get("run_id"),
    }


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="seconds")


def batches_of(table: Table, lake: Lake) -> list[batches.Batch]:
    """Return the table's last micro-batches, oldest first."""
    return batches.recorded(lake.path(table), table.flow)


COLUMNS = ("path", "size", "create_time", "discovery_time", "processed_time", "commit_time",
           "archive_time", "archive_mode", "move_location", "status", "reason", "rows_read", "rows_loaded",
           "rows_quarantined", "rows_rescued", "batch_id", "run_id")  # fmt: skip
"""Names as in Databricks' ``cloud_files_state`` where it has them."""

SHOWN = ("path", "size", "status", "rows_read", "rows_loaded", "rows_quarantined", "rows_rescued", "reason")
"""What fits a terminal."""


def files_of(table: Table, lake: Lake) -> list[dict[str, Any]]:
    """Return a row for each file, under ``COLUMNS``: those of the ledger, and those that lie there beside it.

    Their ``status``: ``waiting``, ``committed``, ``missing``, ``corrupt``, ``refused``, ``changed``,
    ``skipped``; ``landed`` where no run has looked at it, ``ignored`` where it is passed over by its name.
    ``notice`` is what a look had to tell, as of a malformed event.
    """
    assert table.source is not None
    became = outcomes.newest(lake.ledger(table))
    taken = _taken_sequences(table, lake)
    entries = ledgers.rows(lake.ledger(table), "SELECT * FROM ledger ORDER BY sequence")
    rows = [_row(entry, became.get(int(str(entry["sequence"]))), taken) for entry in entries]
    rows += _landed(table, lake)
    location = lake.landing(table.pipeline, table.source)
    ignored = overlooked(location, ledgers.root_of(location, lake.ledger(table)), table.source)
    rows += [{"path": path, "status": "ignored", "reason": why} for path, why in ignored]
    told = notices(lake.ledger(table))
    rows += [{"path": n["path"], "status": "notice", "reason": f"{n['kind']}: {n['reason']}"} for n in told]
    return [{"table": table.key} | {name: row.get(name) for name in COLUMNS} for row in rows]


def _landed(table: Table, lake: Lake) -> list[dict[str, Any]]:
    """Return the files that the next run would look at; of a source that events tell of, the queue knows."""
    assert table.source is not None
    if table.source.file_events or is_filled(table, lake):
        return []
    location = lake.landing(table.pipeline, table.source)
    try:
        found = unseen_files(location, lake.ledger(table), table.source)
    except (SourceMissing, FolderDenied):
        return []
    return [{"path": f.path, "size": f.size, "create_time": f.modified_at, "status": "landed"} for f in found]


def last_files(table: Table, lake: Lake, limit: int = 10) -> list[dict[str, Any]]:
    """Return the files read last, newest first: path, what was read of it and what became of that."""
    shown = ("path", "status", "rows_read", "rows_loaded", "rows_quarantined", "rows_rescued")
    found = outcomes.last_rows(lake.ledger(table), limit)
    return [{name: row[name] for name in shown} for row in found]


def _row(entry: dict[str, Any], became: dict[str, Any] | None, taken: set[object]) -> dict[str, Any]:
    row = {
        "path": entry["path"], "size": entry["size"], "create_time": entry["modified_at"],
        "discovery_time": entry["discovered_at"], "rows_read": entry["records"],
        "status": entry["status"], "reason": entry["reason"] or None,
    }  # fmt: skip
    if entry["status"] != ledgers.ADMITTED:
        return row
    if became is None:
        return row | {"status": "committed" if entry["sequence"] in taken else "waiting"}
    word = "committed" if became["status"] == outcomes.LOADED else str(became["status"]).lower()
    return row | {name: became[name] for name in COLUMNS if became.get(name) is not None} | {"status": word}


def _taken_sequences(table: Table, lake: Lake) -> set[object]:
    at = position(table, lake)
    if at < 0:
        return set()
    sql = f"SELECT sequence FROM ledger WHERE status = '{ledgers.ADMITTED}'"
    return {row["sequence"] for row in ledgers.rows(lake.ledger(table), sql, at)}
