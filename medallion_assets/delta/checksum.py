"""The checksum file of a version that ``deltalake`` committed, which only Spark writes by itself.

Spark reads protocol and metadata of a version there; without it two jobs go over the log's entries. It is
made of the checksum of the version before and of the entry's own actions (Delta's protocol, "Version Checksum
File"), so that it says to the letter what the log says.
"""

import json
from pathlib import Path
from typing import Any

from medallion_assets.delta import log
from medallion_assets.storage import ObjectPath

LONGEST_WALK = 50
"""The largest number of versions without a checksum to go back."""


def write_checksums(path: Path) -> None:
    """Write the checksums that the table's newest versions lack."""
    newest = log.version(path)
    first = version = -1 if newest is None else newest
    while version >= 0 and first - version < LONGEST_WALK and not _file(path, version).exists():
        version -= 1
    for missing in range(version + 1, first + 1):
        before = _read(path, missing - 1) if missing else _none()
        actions = log.actions(path, missing)
        if (
            before is None
            or actions is None
            or any("size" not in a.get("remove", {"size": 0}) for a in actions)
        ):
            return
        _write(path, missing, _after(before, actions))


def _none() -> dict[str, Any]:
    return {"tableSizeBytes": 0, "numFiles": 0, "setTransactions": [], "domainMetadata": []}


def _after(before: dict[str, Any], actions: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a checksum's content, without the numbers that only Spark counts."""
    added = [a["add"] for a in actions if "add" in a]
    removed = [a["remove"] for a in actions if "remove" in a]
    now: dict[str, Any] = {"numMetadata": 1, "numProtocol": 1}
    now["tableSizeBytes"] = before["tableSizeBytes"] + _bytes(added) - _bytes(removed)
    now["numFiles"] = before["numFiles"] + len(added) - len(removed)
    for what in ("metadata", "protocol"):
        action = "metaData" if what == "metadata" else what
        now[what] = next((a[action] for a in actions if action in a), before.get(what))
    if "setTransactions" in before:
        transactions = {t["appId"]: t for t in before["setTransactions"]} | {
            a["txn"]["appId"]: a["txn"] for a in actions if "txn" in a
        }
        now["setTransactions"] = list(transactions.values())
    if "domainMetadata" in before and not any("domainMetadata" in a for a in actions):
        now["domainMetadata"] = before["domainMetadata"]
    return now


def _bytes(files: list[dict[str, Any]]) -> int:
    return sum(int(file.get("size") or 0) for file in files)


def _file(path: Path, version: int) -> Path:
    return log.entry_of(path, version).with_suffix(".crc")


def _read(path: Path, version: int) -> dict[str, Any] | None:
    try:
        found = json.loads(_file(path, version).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "metadata" in found and "protocol" in found else None


def _write(path: Path, version: int, content: dict[str, Any]) -> None:
    # One line: Spark reads no further. A reader sees none or the whole file.
    if isinstance(path, ObjectPath):
        _file(path, version).write_text(json.dumps(content), "utf-8")
        return
    draft = _file(path, version).with_suffix(".draft")
    draft.write_text(json.dumps(content), "utf-8")
    draft.replace(_file(path, version))
