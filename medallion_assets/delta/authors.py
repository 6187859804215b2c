"""Who wrote a table's commits: ours carry metadata, what a person or another program wrote does not."""

from pathlib import Path

from medallion_assets.delta import log
from medallion_assets.delta.changes import VersionRange, moves_data


def written_by_hand(path: Path, after: int) -> list[tuple[int, str]]:
    """Return version and operation of each commit that moved rows and is not ours, newest first.

    Args:
        path: The table.
        after: Commits up to this version are not looked at; -1 for none.
    """
    found: list[tuple[int, str]] = []
    for info in log.newest_commits(path):
        version = int(info["version"])
        if version <= after:
            break
        if not log.commit_metadata_of(info) and moves_data(path, VersionRange(version - 1, version)):
            found.append((version, str(info.get("operation"))))
    return found
