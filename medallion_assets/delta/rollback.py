"""Roll back the quarantine of a batch whose table commit is missing.

A batch commits to the quarantine first and to the table last. The metadata of its quarantine commits names
the table commit they belong to and the quarantine version before them. After a crash between the two, the
next writer restores that version and runs the batch again with the current rules, versions and upstream.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from medallion_assets.delta import log
from medallion_assets.delta.commit import BEFORE, PENDING, Transaction, commit_nothing, signed
from medallion_assets.delta.errors import LakeFormatUnknown, LateCommit, UnfitStore
from medallion_assets.storage import ObjectPath, storage_of

ROLLED_BACK = "rolled_back"


class Unfinished(NamedTuple):
    """A batch that is in the quarantine but not in the table.

    Attributes:
        app_id, version: Its transaction.
        before: The quarantine's version before it.
        run_id: Its run.
    """

    app_id: str
    version: int
    before: int | None
    run_id: str


def unfinished(path: Path, quarantine: Path) -> Unfinished | None:
    """Return the batch that crashed between its two commits, None where there is none; needs no JVM."""
    found: Unfinished | None = None
    for info in log.newest_commits(quarantine):
        metadata = log.commit_metadata_of(info)
        if ROLLED_BACK in metadata:
            break
        if PENDING in metadata:
            app_id, version = metadata[PENDING]
            done = _is_committed(path, metadata, info["version"])
            if done or (found and found.app_id != app_id):
                break
            # The oldest of a batch's commits holds the version before the batch.
            found = Unfinished(str(app_id), int(version), metadata[BEFORE], metadata["run_id"])
    return found


def _is_committed(path: Path, metadata: Mapping[str, Any], at: int) -> bool:
    """Return true where the table has the batch that a quarantine's commit belongs to, of the same run.

    A run that is paused in its commit to the quarantine may end it after another took over the table and
    committed the batch by itself.
    """
    app_id, version = metadata[PENDING]
    if log.committed_version(path, str(app_id)) < int(version):
        return False
    for info in log.newest_commits(path):
        theirs = log.commit_metadata_of(info)
        # That batch began with this commit of the quarantine, and would have rolled it back.
        if isinstance(before := theirs.get(BEFORE), int) and before >= at:
            return True
        found = [each["txn"] for each in log.actions(path, info["version"]) or () if "txn" in each]
        brought = [int(txn["version"]) for txn in found if txn["appId"] == app_id]
        if brought and brought[0] <= int(version):
            return brought[0] == int(version) and bool(theirs.get("run_id") == metadata["run_id"])
    return True


def roll_back(spark: SparkSession, path: Path, quarantine: Path, run_id: str) -> bool:
    """Restore the quarantine's version before an unfinished batch; the caller holds the table's lease.

    Returns:
        True where a version was restored.
    """
    found = unfinished(path, quarantine)
    if found is None:
        return False
    metadata = {"run_id": run_id, ROLLED_BACK: [found.app_id, found.version]}
    if isinstance(path, ObjectPath):
        # A run that is paused in its commit to the table finds that version taken, or has made it by now.
        commit_nothing(spark, path, Transaction("", found.version, metadata))
        if unfinished(path, quarantine) is None:
            return False
    table = DeltaTable.forPath(spark, str(quarantine))
    with signed(spark, quarantine, Transaction("", found.version, metadata)):
        if found.before is None:
            table.delete()
        else:
            table.restoreToVersion(found.before)
    return True


def version_before(path: Path, quarantine: Path, run_id: str) -> int | None:
    """Return the quarantine's version that a batch of a run begins with, None where there is none.

    Raises:
        LateCommit: Another run, which lost the table's lease, has committed to the quarantine since.
    """
    before, found = log.version(quarantine), unfinished(path, quarantine)
    if found and found.run_id != run_id:
        raise LateCommit(quarantine, found.run_id)
    return before


FORMAT = 2
"""The lake's format. It increases with each change of commits, ledgers or quarantines that an older release
would misread."""

FILE = "_medallion.json"


def check_format(root: Path) -> None:
    """Write the format of a lake that is new, and refuse one of another format.

    Raises:
        LakeFormatUnknown: The lake has tables and no format, or another one; nothing was read or written.
        UnfitStore: The lake's object store does not create an object only where there is none.
    """
    file = root / FILE
    if not file.exists() and not any(root.glob("*/*/*/_delta_log")):
        storage, content = storage_of(str(file)), json.dumps({"format": FORMAT}).encode()
        storage.create(str(file), content)
        # A store that ignores the condition would give one table two writers.
        if isinstance(root, ObjectPath) and storage.create(str(file), content):
            storage.delete(str(file))
            raise UnfitStore(root)
    try:
        found = json.loads(file.read_text())["format"] if file.exists() else None
    except (ValueError, KeyError, TypeError):
        found = None
    if found != FORMAT:
        raise LakeFormatUnknown(root, found, FORMAT)
