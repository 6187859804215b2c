"""``reprocess``: landing files read again, their rows put in the place of those they gave before."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timezone

from medallion_assets.declare.table import Table
from medallion_assets.delta.batches import FLOW, FLOWS, REPROCESSED, newest_flows
from medallion_assets.delta.commit import Transaction, commit_nothing
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.writer import sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, refused
from medallion_assets.runs.refresh import refresh
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.ledger import is_named, located

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
    gone = [path for path in chosen if not located(root, path).exists()]
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
