"""What the ledger last saw of each file, less those that are to be looked at once more."""

from pathlib import Path

from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources import ledger as ledgers


def known_files(ledger: Path) -> dict[str, ledgers.Seen]:
    """Return what the ledger last saw of each path, and by whether its records were taken since.

    A file that was gone when it was to be read is unknown, and one that may be read at last; one that was
    corrupt was as good as refused.
    """
    known = ledgers.last_seen(ledger)
    for path in [path for path, seen in known.items() if seen[2] == ledgers.DENIED and _opens(path)]:
        del known[path]
    for path, row in outcomes.lost(ledger).items():
        size, at, _ = known.pop(path)
        if row["status"] == outcomes.CORRUPT:
            known[path] = (size, at, ledgers.REFUSED)
    return known


def _opens(path: str) -> bool:
    try:
        Path(path).open("rb").close()
    except OSError:
        return False
    return True
