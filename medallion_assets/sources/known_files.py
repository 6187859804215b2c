"""Files that are in the ledger already: which are checked again, and which replace their old records."""

from collections.abc import Collection, Sequence
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


def known_files(
    ledger: Path, root: str, tags: bool = False, only: Collection[str] | None = None
) -> dict[str, Known]:
    """Return the ledger's newest state of each path, or of some paths only, corrected by the file status.

    A file that was missing when it was to be read is checked again, and so is a file that has become
    readable. A corrupt file counts as refused.
    """
    known = ledgers.last_seen(ledger, tags, only)
    for path, seen in known.items():
        if seen.status == DENIED and opens(ledgers.address(root, path)):
            known[path] = seen._replace(size=NONE)
    lost = file_status.lost(ledger)
    paths = {row["path"] for row in lost.values() if row["path"] in known}
    # Contents that were not loaded may have superseded contents that were not loaded either.
    while lost_here := {known[path].admitted: path for path in paths if known[path].admitted in lost}:
        before = ledgers.entries_at(ledger, lost_here)
        for sequence, path in lost_here.items():
            earlier = int(str(before[sequence]["supersedes"]))
            known[path] = _without(known[path], lost[sequence]["status"], earlier)
    return known


def _without(seen: Known, status: str, before: int) -> Known:
    """Return the state of a file whose newest admitted contents were never loaded."""
    if seen.sequence == seen.admitted and status == file_status.CORRUPT:
        seen = seen._replace(status=REFUSED)
    elif seen.sequence == seen.admitted or seen.status in (CHANGED, UNCHANGED):
        # A changed or unchanged file was compared with contents that were never loaded.
        seen = seen._replace(size=NONE)
    return seen._replace(admitted=before)


def opens(path: str) -> bool:
    """Return true where the process may read the file."""
    try:
        storage_of(path).open(path).close()
    except OSError:
        return False
    return True


def replaces_files(source: Source, path: Path) -> bool:
    """Return true where a file that is loaded again replaces its old rows.

    True with ``allow_overwrites="replace"``, and after a request to read files again, which a commit of the
    table records.
    """
    return source.allow_overwrites == "replace" or bool(newest_flows(path).get("", {}).get(REPROCESSED))


def superseded(ledger: Path, files: Sequence[Entry], replaces: bool) -> set[Entry]:
    """Return the entries that are replaced by later contents of their path.

    Args:
        ledger: The ledger.
        files: The files of the batch.
        replaces: True to count contents of later batches, too.
    """
    newest = {file.path: file.sequence for file in sorted(files, key=lambda file: file.sequence)}
    if replaces and files:
        # File statistics limit the read to the ledger's entries from this batch on.
        oldest = min(newest.values())
        later = f"SELECT path, sequence FROM ledger WHERE status = '{ADMITTED}' AND sequence > {oldest}"
        for row in ledgers.rows(ledger, f"{later} ORDER BY sequence"):
            newest[str(row["path"])] = int(str(row["sequence"]))
    return {file for file in files if newest[file.path] != file.sequence}


def clear_quarantine(
    spark: SparkSession, paths: Sequence[str], quarantine: Path, transaction: Transaction
) -> None:
    """Delete the files' old records from the quarantine, before the batch adds new ones."""
    if paths:
        files = frame_of(spark, [(p,) for p in paths], "source_file STRING")
        take_out(files, quarantine, transaction.of_quarantine, "t.source_file = n.source_file")


def rows_before(ledger: Path, files: Sequence[Entry]) -> dict[str, int]:
    """Return the number of records in table and quarantine of each file's previous contents."""
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
