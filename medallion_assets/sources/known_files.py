"""What the ledger last saw of each file, less those that are to be looked at once more."""

from pathlib import Path
from typing import BinaryIO

from medallion_assets.sources import file_status
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.ledger import CHANGED, DENIED, NONE, REFUSED, UNCHANGED, Known


def known_files(ledger: Path, root: Path, tags: bool = False) -> dict[str, Known]:
    """Return what the ledger last saw of each path, and by whether its records were taken since.

    A file that was gone when it was to be read is to be looked at again, and so is one that may be read at
    last; one that was corrupt was as good as refused.
    """
    known = ledgers.last_seen(ledger, tags)
    for path, seen in known.items():
        if seen.status == DENIED and opens(ledgers.located(root, path)):
            known[path] = _again(seen)
    lost = file_status.lost(ledger)
    paths = {row["path"] for row in lost.values() if row["path"] in known}
    # Contents that were lost can have superseded others that were.
    while mine := {known[path].admitted: path for path in paths if known[path].admitted in lost}:
        before = ledgers.entries_at(ledger, mine)
        for sequence, path in mine.items():
            earlier = int(str(before[sequence]["supersedes"]))
            known[path] = _without(known[path], lost[sequence]["status"], earlier)
    return known


def _without(seen: Known, status: str, before: int) -> Known:
    """Return what is known of a file whose newest admitted contents were never loaded."""
    if seen.sequence == seen.admitted:
        seen = seen._replace(status=REFUSED) if status == file_status.CORRUPT else _again(seen)
    elif seen.status in (CHANGED, UNCHANGED):
        # It was compared with contents that no table has.
        seen = _again(seen)
    return seen._replace(admitted=before)


def _again(seen: Known) -> Known:
    return seen._replace(size=NONE)


def opens(path: Path) -> bool:
    """Return true where the user this runs as may read a file."""
    try:
        opened(path).close()
    except OSError:
        return False
    return True


def opened(path: Path) -> BinaryIO:
    """Return a file's bytes."""
    return path.open("rb")
