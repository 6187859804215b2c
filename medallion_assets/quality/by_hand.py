"""Rows that other writers than a table's own took out of it or put into it, as its log says."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.errors import DamagedTable
from medallion_assets.lake.paths import Lake


@dataclass(frozen=True)
class HandMade:
    """A commit that is not the table's own.

    Attributes:
        where: ``table`` or ``quarantine``.
        version: Of that Delta table.
        operation: What Delta calls it, as ``DELETE``.
        removed: Rows it took out; negative where it put some in.
    """

    where: str
    version: int
    operation: str
    removed: int

    def __str__(self) -> str:
        """Return it as a line to read."""
        return f"{self.operation} in version {self.version} of the {self.where} ({self.removed} rows fewer)"


def hand_made(table: Table, lake: Lake) -> list[HandMade]:
    """Return the commits by others that changed how many rows table or quarantine hold, or changed rows."""
    places = {"table": lake.path(table), "quarantine": lake.quarantine(table)}
    return [made for where, path in places.items() for made in _in_log(where, path)]


def _in_log(where: str, path: Path) -> Iterator[HandMade]:
    for commit in reversed(log.history(path)):
        version, operation = int(commit["version"]), str(commit.get("operation", ""))
        if version == 0 or log.commit_metadata_of(commit):
            continue
        try:
            removed = log.row_count(path, version - 1) - log.row_count(path, version)
        except DamagedTable:
            # Its log is cleaned up to here.
            continue
        if removed or operation in ("UPDATE", "MERGE"):
            yield HandMade(where, version, operation, removed)
