"""Landing files moved away or deleted once every table that reads them has committed them."""

import os
import shutil
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources.options import Source


def clean_source(source: Source, location: Path, ledger: Path, others: Iterable[Path] = ()) -> int:
    """Moves or deletes the files that are due, and writes down what became of each; gives how many.

    A file is due where this table committed it longer than the retention ago, every other reader's
    ledger says it committed it too, and it still is as it was read. It is never looked at again.

    Args:
        source: Says ``MOVE`` or ``DELETE``, the retention and where to.
        location: The folder of the source, which a moved file keeps its path below.
        ledger: This table's ledger.
        others: The ledgers of the other tables that read the same files.
    """
    if source.clean_source == "OFF":
        return 0
    cutoff = datetime.now(timezone.utc) - timedelta(days=source.clean_source_retention_days)
    committed = [_committed(other) for other in others]
    due = [row for row in outcomes.newest(ledger).values() if _is_due(row, cutoff, committed)]
    archived = [archive for row in due if (archive := _archived(row, source, location))]
    outcomes.add(ledger, archived)
    return len(archived)


def _committed(ledger: Path) -> set[str]:
    return {path for path, row in outcomes.newest(ledger).items() if row["status"] == outcomes.LOADED}


def _is_due(row: dict[str, Any], cutoff: datetime, committed: list[set[str]]) -> bool:
    told = row["status"] == outcomes.LOADED and row["commit_time"] and not row["archive_time"]
    return bool(told) and row["commit_time"] <= cutoff and all(row["path"] in paths for paths in committed)


def _archived(row: dict[str, Any], source: Source, location: Path) -> dict[str, Any] | None:
    """Take one file away; None where it is gone or is another by now."""
    path = Path(row["path"])
    try:
        found = path.lstat()
    except OSError:
        return None
    if (found.st_size, found.st_mtime_ns // 1000 / 1e6) != (row["size"], row["create_time"].timestamp()):
        return None
    target = None
    if source.clean_source == "MOVE":
        target = Path(source.clean_source_move_destination).expanduser() / os.path.relpath(path, location)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
    else:
        path.unlink()
    told = {"archive_time": datetime.now(timezone.utc), "archive_mode": source.clean_source}
    return row | told | {"move_location": None if target is None else str(target)}
