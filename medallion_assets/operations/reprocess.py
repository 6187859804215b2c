"""``reprocess``: landing files read again; ``replay``, ``discard``: quarantined rows taken or given up."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timezone

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import FLOW, FLOWS, REPROCESSED, newest_flows
from medallion_assets.delta.commit import Transaction, commit_nothing
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, refused
from medallion_assets.quarantine.choice import discard as given_up
from medallion_assets.replay.replay import replay as taken_again
from medallion_assets.runs.run import refresh
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.ledger import address, is_named
from medallion_assets.sources.malformed import unrescue
from medallion_assets.sources.quarantine import held_rows
from medallion_assets.storage import storage_of

NEWEST = (
    f"SELECT path, max(discovered_at) AS at FROM ledger WHERE status = '{ledgers.ADMITTED}' "
    "GROUP BY path ORDER BY path"
)
"""``at`` is compared with the time a person gives; it orders nothing."""


def reprocess(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Read chosen landing files again by today's schema, query and rules, and replaces their old rows.

    Raises:
        TableBusy: Another process writes the table.
        RefreshFailed: The files could not be loaded; the old rows stay.
    """
    if not table.source or table.source.allow_overwrites == "append" or table.once:
        return refused(table, "only bronze tables whose files each count once are reprocessed")
    chosen = list(_chosen(table, lake, asked))
    root = load_target_of(table, lake).root
    gone = [path for path in chosen if not storage_of(address(root, path)).stat(address(root, path))]
    there = chosen
    if gone:
        return refused(
            table, f"{', '.join(gone[:5])} is gone, and its rows could not be made again", gone=gone
        )
    if not there:
        return VerbResult(table.key, "no file it has taken is as the choice says")
    numbers = {"files": len(there)}
    if asked.dry_run:
        words = f"{len(there)} files would be read again and replace the rows they gave"
    else:
        done = _read_again(table, lake, spark, asked, there)
        before, now = (sum(counts) for counts in zip(*done.values(), strict=True)) if done else (0, 0)
        numbers |= {"records_before": before, "records_now": now}
        words = f"{len(there)} files were read again: {before} records before, {now} now"
    return VerbResult(
        table.key, words, "landing files", "table and quarantine", downstream_of(table), True, numbers
    )


def _chosen(table: Table, lake: Lake, asked: VerbRequest) -> Iterator[str]:
    since = datetime.fromisoformat(asked.since) if asked.since else None
    since = since.replace(tzinfo=since.tzinfo or timezone.utc) if since else None
    for row in ledgers.rows(lake.ledger(table), NEWEST):
        path, at = str(row["path"]), row["at"]
        named = not asked.files or any(is_named(path, file) for file in asked.files)
        if named and (since is None or (isinstance(at, datetime) and at >= since)):
            yield path


def _read_again(
    table: Table, lake: Lake, spark: Spark, asked: VerbRequest, paths: list[str]
) -> dict[str, list[int]]:
    _let_files_replace(table, lake, spark)
    done = refresh(table, lake, spark, asked.run_id, again=frozenset(paths))
    return {path: counts for batch in done.batches for path, counts in batch.replaced.items()}


def _let_files_replace(table: Table, lake: Lake, spark: Spark) -> None:
    """Commit that from now on each file counts as it came last, before the first is in the ledger again."""
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
"""As a reason: not of quarantined rows, but of rows with fields no column took."""


def replay(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Mends chosen quarantined rows, judges them by today's rules and writes the good ones, once.

    Raises:
        ReplayRefused: The choice or the fix cannot be read; nothing was moved.
    """
    if RESCUED in asked.choice.reasons:
        return _unrescued(table, lake, spark, asked)
    if not held_rows(lake.quarantine(table)):
        return VerbResult(table.key, "nothing stands in its quarantine")
    done = taken_again(table, lake, spark(), asked.choice, asked.fix, asked.run_id, asked.dry_run)
    if not done.tried:
        return VerbResult(table.key, "no open row is as the choice says")
    word = "would be" if asked.dry_run else "were"
    words = f"{done.tried} rows {word} tried: {done.written} written, {done.still_open} stay open"
    words += f", {done.duplicates} stand already" if done.duplicates else ""
    words += f", {done.dropped} dropped by rule" if done.dropped else ""
    shown = ("tried", "written", "still_open", "duplicates", "dropped", "replay_id")
    numbers = {name: getattr(done, name) for name in shown}
    reads = "its quarantine" + ("" if table.source else " and its upstream tables")
    return VerbResult(
        table.key, words, reads, "the table and its quarantine", downstream_of(table), True, numbers
    )


def _unrescued(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Put rescued fields into the columns the table has for them by now."""
    path = lake.path(table)
    if table.source is None or not table.source.rescued or not log.exists(path):
        return VerbResult(table.key, "it has no rescued data")
    run = asked.run_id or uuid.uuid4().hex
    transaction = Transaction(f"{table.key}/unrescue/{run}", 0, {"run_id": run, "table": table.key})
    with sole_writer(table, lake):
        rows = unrescue(spark(), path, table.source.rescued, asked.choice.files, transaction, asked.dry_run)
    word = "would get" if asked.dry_run else "got"
    words = f"{rows} rows {word} rescued fields into their columns"
    return VerbResult(table.key, words, "the table", "the table", downstream_of(table), True, {"rows": rows})


def discard(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Return up chosen quarantined rows: they stay, marked with the reason, and are not tried again.

    Raises:
        ReplayRefused: No reason is given, or the choice cannot be read; nothing was moved.
    """
    if not held_rows(lake.quarantine(table)):
        return VerbResult(table.key, "nothing stands in its quarantine")
    count = given_up(table, lake, spark(), asked.choice, asked.why, asked.dry_run)
    word = "would be" if asked.dry_run else "were"
    words = f"{count} rows {word} given up: {asked.why}"
    return VerbResult(table.key, words, "its quarantine", "its quarantine", (), True, {"discarded": count})
