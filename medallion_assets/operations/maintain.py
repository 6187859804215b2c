"""``maintain``: files compacted, old versions removed; ``accept_changes``: rows deleted by hand."""

import getpass
import uuid
from pathlib import Path

from delta.tables import DeltaTable
from deltalake import DeltaTable as LedgerTable
from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import FLOW, FLOWS, Batch, newest_flows, stamp
from medallion_assets.delta.commit import Transaction, commit_nothing, signed
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.lake.position import newest_batch, position
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, refused
from medallion_assets.quality.conservation import balance, hand_made
from medallion_assets.runtime.static_changes import is_behind
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


def accept_changes(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Count rows that a DELETE by hand took out as removed by hand, with who, when and why.

    Never more rows than such commits took out: what is missing besides stays missing. Who, why and how many
    go into a commit of the table.

    Raises:
        TableBusy: Another process writes the table.
    """
    if not asked.why.strip():
        return refused(table, "say why with --why; the reason stays in the table's history")
    if table.row_count_column:
        return refused(table, f"an aggregate is made again by `medallion full_refresh {table.key}`")
    with sole_writer(table, lake):
        books, made = balance(table, lake), hand_made(table, lake)
        if books.holds:
            return VerbResult(table.key, f"nothing to accept: {books}")
        removed, total = sum(change.removed for change in made), books.by_hand + books.missing
        named = "; ".join(map(str, made)) or "none"
        if not min(0, removed) <= total <= max(0, removed):
            return refused(table, f"{books}; commits by hand explain {removed} of it ({named})")
        if not asked.dry_run:
            _record(table, lake, spark, asked, books.missing)
    word = "would count" if asked.dry_run else "count"
    words = f"{books.missing} rows {word} as removed by hand ({named}): {asked.why}"
    return VerbResult(table.key, words, "its log", "a commit without rows", (), True, {"rows": books.missing})


def _record(table: Table, lake: Lake, spark: Spark, asked: VerbRequest, rows: int) -> None:
    run, path, last = asked.run_id or uuid.uuid4().hex, lake.path(table), newest_batch(table, lake)
    batch = Batch(
        position(table, lake), 0, 0, 0, by_hand=rows, statics=dict(last.statics) if last else {}, run_id=run,
        strategy=f"removed by hand, accepted: {asked.why}", open_rows=last.open_rows if last else 0,
    )  # fmt: skip
    accepted = {"rows": rows, "why": asked.why, "who": _user()}
    metadata = {"run_id": run, "table": table.key, "accepted": accepted}
    signed = Transaction(f"{table.key}/accept/{run}", 0, metadata)
    commit_nothing(spark(), path, stamp(signed, path, table.flow, batch))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container's user may have a number and no name.
        return "unknown"
