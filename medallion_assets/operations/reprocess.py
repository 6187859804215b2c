"""``reprocess``: landing files read again; ``replay``, ``discard``: quarantined rows taken or given up."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timezone

from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import FLOW, FLOWS, REPROCESSED, committed_after, newest_flows
from medallion_assets.delta.commit import Transaction, commit_nothing
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.loaded import LoadedLake
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.operations.requests import (
    Spark,
    VerbRequest,
    VerbResult,
    downstream_of,
    many,
    refused,
    was,
)
from medallion_assets.quarantine.choice import discard as given_up
from medallion_assets.replay.replay import replay as taken_again
from medallion_assets.runs.run import refresh
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.ledger import address, is_named
from medallion_assets.sources.loaders import load_new
from medallion_assets.sources.quarantine import held_rows
from medallion_assets.sources.rescued_data import unrescue
from medallion_assets.storage import storage_of

NEWEST = (
    f"SELECT path, max(discovered_at) AS at FROM ledger WHERE status = '{ledgers.ADMITTED}' "
    "GROUP BY path ORDER BY path"
)
"""``at`` is compared with the time a person gives; it orders nothing."""


def reprocess(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Read chosen landing files again with today's schema, query and rules, and replace their old rows.

    Raises:
        TableBusy: Another process writes the table.
        RefreshFailed: The files could not be loaded; the old rows are kept.
    """
    if not table.source or table.source.allow_overwrites == "append" or table.once:
        return refused(table, "only bronze tables that load each file once can be reprocessed")
    try:
        arrived = _time(request.since, FIRST), _time(request.until, LAST)
    except ValueError:
        told = " and ".join(filter(None, (request.since, request.until)))
        return refused(table, f"{told}: a time is ISO 8601, as 2026-01-31 or 2026-01-31T12:00:00Z")
    chosen = list(_chosen(table, lake, spark, request, *arrived))
    root = load_target_of(table, lake).root
    gone = [path for path in chosen if not storage_of(address(root, path)).stat(address(root, path))]
    there = chosen
    if gone:
        return refused(
            table, f"{', '.join(gone[:5])} was deleted, so its rows could not be loaded again", gone=gone
        )
    if not there:
        return VerbResult(table.key, "nothing to do: no loaded file matches --file, --since and --until")
    numbers = {"files": len(there)}
    if request.dry_run:
        words = f"{many(len(there), 'file')} would be read again; the new rows would replace the old ones"
    else:
        done = _read_again(table, lake, spark, request, there)
        before, now = (sum(counts) for counts in zip(*done.values(), strict=True)) if done else (0, 0)
        numbers |= {"records_before": before, "records_now": now}
        words = f"{many(len(there), 'file')} read again: {before} records before, {now} now"
    return VerbResult(
        table.key, words, "landing files", "table and quarantine", downstream_of(table), True, numbers
    )


def _chosen(
    table: Table, lake: Lake, spark: Spark, request: VerbRequest, since: datetime, until: datetime
) -> Iterator[str]:
    happened = _with_rows_between(table, lake, spark, request.event_time, since, until)
    for row in ledgers.rows(lake.ledger(table), NEWEST):
        path, at = str(row["path"]), row["at"]
        named = not request.files or any(is_named(path, file) for file in request.files)
        between = isinstance(at, datetime) and since <= at < until if happened is None else path in happened
        if named and between:
            yield path


FIRST, LAST = (datetime(year, 1, 1, tzinfo=timezone.utc) for year in (1, 9999))


def _time(text: str, otherwise: datetime) -> datetime:
    """Return a time a person gave, in UTC where it says no other zone."""
    time = datetime.fromisoformat(text.replace("Z", "+00:00")) if text else otherwise
    return time.replace(tzinfo=time.tzinfo or timezone.utc)


def _with_rows_between(
    table: Table, lake: Lake, spark: Spark, event_time: str, since: datetime, until: datetime
) -> set[str] | None:
    """Return the files that gave rows of such an event time; None where none is asked for."""
    if not event_time or not log.exists(lake.path(table)):
        return None
    rows = spark().read.format("delta").load(str(lake.path(table)))
    at = F.expr(f"({event_time})").try_cast("timestamp")
    found = rows.where((at >= F.lit(since)) & (at < F.lit(until))).select("_source_file").distinct()
    return {str(row[0]) for row in found.collect()}


def _read_again(
    table: Table, lake: Lake, spark: Spark, request: VerbRequest, paths: list[str]
) -> dict[str, list[int]]:
    """Load the files again; return for each how many records it had before and has now."""
    _let_files_replace(table, lake, spark)
    before, again = log.version(lake.path(table)), frozenset(paths)
    if isinstance(lake, LoadedLake):
        look = DiscoveryOptions(0, again, again=True, must_exist=True)
        load_new(lake.target, lake.state(table, "lease"), spark(), lake.settings, look)
    else:
        refresh(table, lake, spark, request.run_id, again=again)
    batches = committed_after(lake.path(table), before)
    return {path: counts for batch in batches for path, counts in batch.replaced.items()}


def _let_files_replace(table: Table, lake: Lake, spark: Spark) -> None:
    """Commit, before a file enters the ledger again, that only the newest contents of each file count."""
    path = lake.path(table)
    with sole_writer(table, lake):
        flows = newest_flows(path)
        if flows.get("", {}).get(REPROCESSED):
            return
        flows[""] = {**flows.get("", {}), REPROCESSED: True}
        run = uuid.uuid4().hex
        metadata = {"run_id": run, "table": table.key, FLOW: "reprocess", FLOWS: flows}
        commit_nothing(spark(), path, Transaction(f"{table.key}/reprocess/{run}", 0, metadata))


RESCUED = "rescued"
"""As a reason: rows of the table with rescued fields, not quarantined rows."""


def replay(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Fix chosen quarantined rows, judge them by today's rules, and write the good ones once.

    Raises:
        ReplayRefused: The choice or the fix cannot be read; nothing was moved.
    """
    if RESCUED in request.choice.reasons:
        return _unrescued(table, lake, spark, request)
    if not held_rows(lake.quarantine(table)):
        return VerbResult(table.key, "nothing to do: its quarantine is empty")
    done = taken_again(table, lake, spark(), request.choice, request.fix, request.run_id, request.dry_run)
    if not done.tried:
        return VerbResult(table.key, "nothing to do: no open quarantined row matches the filter")
    word = "would be" if request.dry_run else was(done.tried)
    words = f"{many(done.tried, 'row')} {word} judged again: {done.written} written"
    words += f", {done.still_open} still quarantined"
    words += f", {done.duplicates} duplicates of rows in the table" if done.duplicates else ""
    words += f", {done.dropped} dropped by a rule" if done.dropped else ""
    shown = ("tried", "written", "still_open", "duplicates", "dropped", "replay_id")
    numbers = {name: getattr(done, name) for name in shown}
    reads = "its quarantine" + ("" if table.source else " and its upstream tables")
    return VerbResult(
        table.key, words, reads, "the table and its quarantine", downstream_of(table), True, numbers
    )


def _unrescued(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Move rescued fields into the columns that the table has for them by now."""
    path = lake.path(table)
    if table.source is None or not table.source.rescued or not log.exists(path):
        return VerbResult(table.key, "nothing to do: it has no rescued data")
    run = request.run_id or uuid.uuid4().hex
    transaction = Transaction(f"{table.key}/unrescue/{run}", 0, {"run_id": run, "table": table.key})
    with sole_writer(table, lake):
        rows = unrescue(spark(), path, table.source, request.choice.files, transaction, request.dry_run)
    word = "would be" if request.dry_run else "were"
    words = f"rescued fields of {many(rows, 'row')} {word} moved into their columns"
    return VerbResult(table.key, words, "the table", "the table", downstream_of(table), True, {"rows": rows})


def discard(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Mark chosen quarantined rows as discarded, with the reason; they stay and are not tried again.

    Raises:
        ReplayRefused: No reason is given, or the choice cannot be read; nothing was moved.
    """
    if not held_rows(lake.quarantine(table)):
        return VerbResult(table.key, "nothing to do: its quarantine is empty")
    count = given_up(table, lake, spark(), request.choice, request.why, request.dry_run)
    word = "would be" if request.dry_run else was(count)
    words = f"{many(count, 'row')} {word} discarded: {request.why}; what is discarded stays and is counted"
    return VerbResult(table.key, words, "its quarantine", "its quarantine", (), True, {"discarded": count})
