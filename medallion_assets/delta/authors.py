"""Who wrote a table's commits: ours carry a note, what a person or another program wrote does not."""

from pathlib import Path

from medallion_assets.delta import log
from medallion_assets.delta.changes import VersionRange, moves_data

LAST = 100
"""Commits that are looked at: what a person did long ago, the runs since have built upon."""


def written_by_hand(path: Path, after: int) -> list[tuple[int, str]]:
    """Return version and operation of each late commit that moved rows and is not ours, newest first.

    Args:
        path: The table.
        after: Commits up to this version are not looked at; -1 for none.
    """
    late = [commit for commit in log.history(path, LAST) if int(commit["version"]) > after]
    strange = [(int(c["version"]), str(c.get("operation"))) for c in late if not log.commit_metadata_of(c)]
    return [(at, what) for at, what in strange if moves_data(path, VersionRange(at - 1, at))]
