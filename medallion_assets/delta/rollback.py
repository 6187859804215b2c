"""A quarantine taken back to where its table is: a batch counts only once the table has committed.

A batch commits to the quarantine first and to the table last. Each of its commits on the quarantine says
which commit of the table it belongs to and which version was there before it. Whoever dies in between leaves
a table that knows nothing of the batch; the next writer restores the quarantine and takes the batch again,
with whatever rules, versions and upstream there are by then.
"""

import json
from pathlib import Path
from typing import NamedTuple

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from medallion_assets.delta import log
from medallion_assets.delta.commit import BEFORE, PENDING, Transaction, signed
from medallion_assets.delta.errors import LakeFormatUnknown
from medallion_assets.storage.locations import LOCAL

ROLLED_BACK = "rolled_back"


class Unfinished(NamedTuple):
    """A batch that the quarantine has and the table has not: its identifier, and the version before it."""

    app_id: str
    version: int
    before: int | None


def unfinished(path: Path, quarantine: Path) -> Unfinished | None:
    """Return the batch that died between quarantine and table, None where there is none; needs no JVM."""
    found: Unfinished | None = None
    for info in log.newest_commits(quarantine):
        metadata = log.commit_metadata_of(info)
        if ROLLED_BACK in metadata:
            break
        if PENDING in metadata:
            app_id, version = metadata[PENDING]
            done = log.committed_version(path, str(app_id)) >= int(version)
            if done or (found and found.app_id != app_id):
                break
            # The oldest of a batch's commits knows what was there before.
            found = Unfinished(str(app_id), int(version), metadata[BEFORE])
    return found


def roll_back(spark: SparkSession, path: Path, quarantine: Path, run_id: str) -> bool:
    """Take the quarantine back to the version before an unfinished batch; the caller holds the table's lease.

    Returns:
        True where there was something to take back.
    """
    found = unfinished(path, quarantine)
    if found is None:
        return False
    metadata = {"run_id": run_id, ROLLED_BACK: [found.app_id, found.version]}
    table = DeltaTable.forPath(spark, str(quarantine))
    with signed(spark, Transaction("", found.version, metadata)):
        if found.before is None:
            table.delete()
        else:
            table.restoreToVersion(found.before)
    return True


FORMAT = 2
"""Raised with every change of what commits, ledgers or quarantines hold that an older release misreads."""

FILE = "_medallion.json"


def check_format(root: Path) -> None:
    """Write the format of a lake that is new, and refuse one of another format.

    Raises:
        LakeFormatUnknown: The lake has tables and no format, or another one; nothing was read or written.
    """
    file = root / FILE
    if not file.exists() and not any(root.glob("*/*/*/_delta_log")):
        LOCAL.create(str(file), json.dumps({"format": FORMAT}).encode())
    try:
        found = json.loads(file.read_text())["format"] if file.exists() else None
    except (ValueError, KeyError, TypeError):
        found = None
    if found != FORMAT:
        raise LakeFormatUnknown(root, found, FORMAT)
