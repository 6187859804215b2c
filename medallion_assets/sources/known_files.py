"""Files the ledger has seen before: which are looked at again, and which replace their old records."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from medallion_assets.delta.batches import REPROCESSED, newest_flows
from medallion_assets.delta.commit import Transaction, take_out
from medallion_assets.session.frames import frame_of
from medallion_assets.sources import file_status
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.ledger import ADMITTED, CHANGED, DENIED, NONE, REFUSED, UNCHANGED, Entry, Known
from medallion_assets.sources.options import Source
from medallion_assets.storage import storage_of


def known_files(ledger: Path, root: str, tags: bool = False) -> dict[str, Known]:
    """Return what the ledger last saw of each path, and by whether its records were taken since.

    A file that was gone when it was to be read is to be looked at again, and so is one that may be read at
    last; one that was corrupt was as good as refused.
    """
    known = ledgers.last_seen(ledger, tags)
    for path, seen in known.items():
        if seen.status == DENIED and opens(ledgers.address(root, path)):
            known[path] = seen._replace(size=NONE)
    lost = file_status.lost(ledger)
    paths = {row["path"] for row in lost.values() if row["path"] in known}
    # Contents that were lost can have superseded others that were.
    while lost_here := {known[path].admitted: path for path in paths if known[path].admitted in lost}:
        before = ledgers.entries_at(ledger, lost_here)
        for sequence, path in lost_here.items():
            earlier = int(str(before[sequence]["supersedes"]))
            known[path] = _without(known[path], lost[sequence]["status"], earlier)
    return known


def _without(seen: Known, status: str, before: int) -> Known:
    """Return what is known of a file whose newest admitted contents were never loaded."""
    if seen.sequence == seen.admitted and status == file_status.CORRUPT:
        seen = seen._replace(status=REFUSED)
    elif seen.sequence == seen.admitted or seen.status in (CHANGED, UNCHANGED):
        # In the second case it was compared with contents that no table has.
        seen = seen._replace(size=NONE)
    return seen._replace(admitted=before)


def opens(path: str) -> bool:
    """Return true where the user this runs as may read a file."""
    try:
        storage_of(path).open(path).close()
    except OSError:
        return False
    return True


def replaces_files(source: Source, path: Path) -> bool:
    """Return true where a file that is in the ledger again replaces what it gave before.

    Under ``allow_overwrites="replace"`` all do; else from the moment files are to be read again on request,
    which a commit of the table says.
    """
    return source.allow_overwrites == "replace" or bool(newest_flows(path).get("", {}).get(REPROCESSED))


def superseded(ledger: Path, files: Sequence[Entry], replaces: bool) -> set[Entry]:
    """Return the entries that later contents of their path replace: in this batch, or in any later one.

    Args:
        ledger: The ledger.
        files: The files of the batch.
        replaces: Contents that are in a later batch count, too.
    """
    newest = {file.path: file.sequence for file in sorted(files, key=lambda file: file.sequence)}
    if replaces and files:
        # Only the part of the ledger from this batch on is read: the log's statistics leave out the rest.
        oldest = min(newest.values())
        later = f"SELECT path, sequence FROM ledger WHERE status = '{ADMITTED}' AND sequence > {oldest}"
        for row in ledgers.rows(ledger, f"{later} ORDER BY sequence"):
            newest[str(row["path"])] = int(str(row["sequence"]))
    return {file for file in files if newest[file.path] != file.sequence}


def clear_quarantine(
    spark: SparkSession, paths: Sequence[str], quarantine: Path, transaction: Transaction
) -> None:
    """Take the files' old records out of the quarantine, before the batch adds new ones."""
    if paths:
        files = frame_of(spark, [(p,) for p in paths], "source_file STRING")
        take_out(files, quarantine, transaction.of_quarantine, "t.source_file = n.source_file")


def rows_before(ledger: Path, files: Sequence[Entry]) -> dict[str, int]:
    """Return how many records table and quarantine hold of each file's contents before these."""
    counts: dict[str, int] = {}
    at = {file.path: file.supersedes for file in files}
    while at:
        became = file_status.of_entries(ledger, at.values())
        loaded = {path for path, s in at.items() if became.get(s, {}).get("status") == file_status.LOADED}
        for path in loaded:
            row = became[at[path]]
            counts[path] = (row["rows_loaded"] or 0) + (row["rows_quarantined"] or 0)
        # Contents that were never loaded replaced none: those before them did not go.
        others = {path: sequence for path, sequence in at.items() if path not in loaded}
        entries = ledgers.entries_at(ledger, others.values())
        before = {path: int(str(entries[s]["supersedes"])) for path, s in others.items() if s in entries}
        at = {path: sequence for path, sequence in before.items() if sequence != ledgers.NONE}
    return counts
