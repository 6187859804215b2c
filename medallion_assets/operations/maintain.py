"""``maintain``: small files put together and old versions let go, never one that a stream still needs."""

from pathlib import Path

from delta.tables import DeltaTable
from deltalake import DeltaTable as LedgerTable
from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import FLOW, FLOWS, newest_flows
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.merge import signed
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.writer import sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult
from medallion_assets.runtime.has_work import is_behind
from medallion_assets.sources.file_status import outcomes_of

LEAST_DAYS = 7
"""Delta's own bound: a query or a replayed batch may read versions of the last days."""


def maintain(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Put the small files of table, quarantine and ledger together, and removes files no version needs.

    Nothing is removed of a table that one downstream has not taken whole yet, nor what is younger than
    ``days`` (7 at least).

    Raises:
        TableBusy: Another process writes the table.
    """
    paths = [path for path in (lake.path(table), lake.quarantine(table)) if log.exists(path)]
    if not paths:
        return VerbResult(table.key, "there is nothing of it yet")
    days, behind = max(asked.days, LEAST_DAYS), _behind(table, lake)
    kept = f"; its old files stay, since {', '.join(behind)} has not taken all of it" if behind else ""
    files = sum(len(LedgerTable(str(path)).file_uris()) for path in paths)
    if asked.dry_run:
        words = f"{files} files would be put together, versions of the last {days:g} days stay{kept}"
        return VerbResult(table.key, words, "its files", "its files", (), True, {"files_before": files})
    with sole_writer(table, lake):
        for path in paths:
            _tidied(spark(), path, 0 if behind else days)
        if table.source:
            _tidy_ledger(lake.ledger(table), 0 if behind else days)
    now = sum(len(LedgerTable(str(path)).file_uris()) for path in paths)
    words = f"{files} files became {now}{kept}"
    return VerbResult(table.key, words, "its files", "its files", (), True,
                {"files_before": files, "files_now": now, "days_kept": days})  # fmt: skip


def _behind(table: Table, lake: Lake) -> list[str]:
    """Return the tables that read this one and have not taken its newest version."""
    newest = log.version(lake.path(table)) or 0
    readers = [t for t in table.registry.values() if t.streams_from and t.streams_from.key == table.key]
    readers += [f for t in table.registry.values() for f in t.flows
                if f.streams_from and f.streams_from.key == table.key]  # fmt: skip
    return [t.key for t in readers if is_behind(t, lake, newest)]


def _tidied(spark: SparkSession, path: Path, days: float) -> None:
    table, flows = DeltaTable.forPath(spark, str(path)), newest_flows(path)
    # Delta drops a log's old entries; what the newest batches did is carried on by this commit.
    metadata = {"run_id": "", FLOW: "upkeep", FLOWS: flows} if flows else {"run_id": ""}
    with signed(spark, Transaction("", 0, metadata)):
        table.optimize().executeCompaction()
    if days:
        table.vacuum(days * 24)


def _tidy_ledger(ledger: Path, days: float) -> None:
    for path in (ledger, outcomes_of(ledger)):
        if log.exists(path):
            table = LedgerTable(str(path))
            table.optimize.compact()
            table.create_checkpoint()
            if days:
                table.vacuum(retention_hours=int(days * 24), dry_run=False)
