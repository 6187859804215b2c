"""Files that came again, changed: their old records make way for the new ones in the same commit."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.merge import take_out
from medallion_assets.session.frames import frame_of
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.ledger import ADMITTED, Entry
from medallion_assets.sources.options import Source

REPROCESSED = "reprocessed.json"
"""Beside the checkpoint of a table some of whose files were read again on request."""


def replaces_files(source: Source, state: Path) -> bool:
    """Return true where a file that is in the ledger again stands in for what it gave before."""
    return source.allow_overwrites == "replace" or (state / REPROCESSED).exists()


def superseded(ledger: Path, files: Sequence[Entry]) -> set[tuple[str, object]]:
    """Return path and modification time of the entries a later one of the same path replaces."""
    newest = f"SELECT path, max(modified_at) AS m FROM ledger WHERE status = '{ADMITTED}' GROUP BY path"
    last = {row["path"]: row["m"] for row in ledgers.rows(ledger, newest)}
    return {(f.path, f.modified_at) for f in files if last.get(f.path, f.modified_at) != f.modified_at}


def come_again(ledger: Path, files: Sequence[Entry]) -> list[str]:
    """Return the paths of files that were taken before with other contents."""
    mine = {file.path for file in files}
    twice = f"SELECT path FROM ledger WHERE status = '{ADMITTED}' GROUP BY path HAVING count(*) > 1"
    return [str(row["path"]) for row in ledgers.rows(ledger, twice) if row["path"] in mine]


def clear_quarantine(
    spark: SparkSession, paths: Sequence[str], quarantine: Path, transaction: Transaction
) -> None:
    """Take the files' old records out of the quarantine, before the batch adds new ones."""
    if paths:
        files = frame_of(spark, [(p,) for p in paths], "source_file STRING")
        take_out(files, quarantine, transaction.of_quarantine, "t.source_file = n.source_file")


def rows_before(ledger: Path, paths: Sequence[str]) -> dict[str, int]:
    """Return how many records of each file stood in table and quarantine."""
    if not paths:
        return {}
    newest = outcomes.newest(ledger)
    known = [(p, newest[p]) for p in paths if p in newest]
    return {p: (row["rows_loaded"] or 0) + (row["rows_quarantined"] or 0) for p, row in known}
