"""``maintain`` compacts files and removes old versions; ``accept_changes`` accepts rows deleted by hand."""

import getpass
import uuid
from pathlib import Path

from delta.tables import DeltaTable
from deltalake import BloomFilterProperties, ColumnProperties, WriterProperties
from deltalake import DeltaTable as LedgerTable
from pyspark.sql import SparkSession

from medallion_assets.declare.pipeline import readers_of
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import FLOW, FLOWS, Batch, newest_flows, stamp
from medallion_assets.delta.commit import Transaction, commit_nothing, signed
from medallion_assets.delta.events import delete_old_events
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.lake.position import newest_batch, position
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, many, refused
from medallion_assets.quality.conservation import balance, explains, hand_made, swapped
from medallion_assets.runtime.static_changes import is_behind
from medallion_assets.sources.file_status import outcomes_of

LEAST_DAYS = 7
"""Delta's own lower bound: a running query or a repeated batch may read versions of the last days."""


def maintain(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Compact the small files of table, quarantine and ledger, and remove files that no kept version needs.

    Nothing is removed while a table downstream has versions of this one left to read, and nothing that is
    younger than ``days`` (at least 7).

    Raises:
        TableBusy: Another process writes the table.
    """
    paths = [path for path in (lake.path(table), lake.quarantine(table)) if log.exists(path)]
    if not paths:
        return VerbResult(table.key, "nothing to maintain: it has no rows yet")
    days, behind = max(request.days, LEAST_DAYS), _behind(table, lake)
    kept = f"; old versions are kept, since {', '.join(behind)} has not taken all of it" if behind else ""
    files = sum(len(LedgerTable(str(path)).file_uris()) for path in paths)
    if request.dry_run:
        words = f"{many(files, 'file')} would be compacted, versions of the last {days:g} days kept{kept}"
        return VerbResult(table.key, words, "its files", "its files", (), True, {"files_before": files})
    with sole_writer(table, lake):
        for path in paths:
            _tidied(spark(), path, 0 if behind else days)
        delete_old_events(lake.root, lake.settings.events_days)
        if table.source:
            _tidy_ledger(lake.ledger(table), 0 if behind else days)
    now = sum(len(LedgerTable(str(path)).file_uris()) for path in paths)
    words = f"{many(files, 'file')} compacted to {now}, versions of the last {days:g} days kept{kept}"
    return VerbResult(table.key, words, "its files", "its files", (), True,
                {"files_before": files, "files_now": now, "days_kept": days})  # fmt: skip


def _behind(table: Table, lake: Lake) -> list[str]:
    """Return the tables that read this one and have not taken its newest version."""
    newest = log.version(lake.path(table)) or 0
    streams = [stream for reader in readers_of(table) for stream in (reader, *reader.flows)]
    readers = [s for s in streams if s.streams_from and s.streams_from.key == table.key]
    return [t.key for t in readers if is_behind(t, lake, newest)]


def _tidied(spark: SparkSession, path: Path, days: float) -> None:
    table, flows = DeltaTable.forPath(spark, str(path)), newest_flows(path)
    # Delta drops old log entries; this commit carries on what the newest batches did.
    metadata = {"run_id": "", FLOW: "upkeep", FLOWS: flows} if flows else {"run_id": ""}
    with signed(spark, path, Transaction("", 0, metadata)):
        table.optimize().executeCompaction()
    if days:
        table.vacuum(days * 24)


FOUND_BY_PATH = WriterProperties(
    compression="ZSTD",
    max_row_group_size=100_000,
    column_properties={
        "path": ColumnProperties(bloom_filter_properties=BloomFilterProperties(True, 0.01, 100_000))
    },
)
"""Bloom filters: a look that knows the names of its files reads no others of millions."""


def _tidy_ledger(ledger: Path, days: float) -> None:
    for path in (ledger, outcomes_of(ledger)):
        if log.exists(path):
            table = LedgerTable(str(path))
            table.optimize.compact(writer_properties=FOUND_BY_PATH)
            table.create_checkpoint()
            if days:
                table.vacuum(retention_hours=int(days * 24), dry_run=False)


ACCEPTED = "accepted"
"""In the metadata of the commit that counts rows as removed by hand."""


def accept_changes(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Count the rows that a DELETE by hand removed as "removed by hand", with user, time and reason.

    It never accepts more rows than such commits removed: rows that are missing for another reason stay
    missing. User, reason and count are written into a commit of the table.

    Raises:
        TableBusy: Another process writes the table.
    """
    if not request.why.strip():
        return refused(table, "say why with --why; the reason stays in the table's history")
    if table.row_count_column:
        return refused(table, f"it is an aggregate; rebuild it with `medallion full_refresh {table.key}`")
    with sole_writer(table, lake):
        books, made = balance(table, lake), hand_made(table, lake)
        exchanged = swapped(made, table, lake)
        if books.holds and not exchanged:
            return VerbResult(table.key, f"nothing to accept: {books}")
        removed, named = sum(change.removed for change in made), "; ".join(map(str, made)) or "none"
        if not explains(made, books):
            return refused(table, f"{books}; commits by hand explain {removed} of it ({named})")
        if not request.dry_run:
            _record(table, lake, spark, request, books.missing, exchanged)
    word = "would count" if request.dry_run else "count"
    words = f"{books.missing} rows {word} as removed by hand ({named}): {request.why}"
    words += f"; {exchanged} were put in for as many of other files" if exchanged else ""
    return VerbResult(table.key, words, "its log", "a commit without rows", (), True, {"rows": books.missing})


def _record(table: Table, lake: Lake, spark: Spark, request: VerbRequest, rows: int, exchanged: int) -> None:
    run, path, last = request.run_id or uuid.uuid4().hex, lake.path(table), newest_batch(table, lake)
    batch = Batch(
        position(table, lake), 0, 0, 0, by_hand=rows, put_in_by_hand=exchanged + max(0, -rows),
        statics=dict(last.statics) if last else {}, run_id=run,
        strategy=f"removed by hand, accepted: {request.why}", open_rows=last.open_rows if last else 0,
    )  # fmt: skip
    accepted = {"rows": rows, "why": request.why, "who": _user()}
    metadata = {"run_id": run, "table": table.key, ACCEPTED: accepted}
    signed = Transaction(f"{table.key}/accept/{run}", 0, metadata)
    commit_nothing(spark(), path, stamp(signed, path, table.flow, batch))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container's user may have a number and no name.
        return "unknown"
