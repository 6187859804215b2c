"""A staging folder: a batch is written there first and checked before it is published."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.names import quoted
from medallion_assets.lake.paths import Lake
from medallion_assets.storage import remove_tree


@dataclass(frozen=True)
class StagedLake(Lake):
    """A lake in which one table and its quarantine are in a staging folder.

    Attributes:
        key: The table's.
        turn: The folder's name. Spark caches tables by path, so that no name is used twice.
    """

    key: str
    turn: str

    def path(self, table: Table) -> Path:
        """The Delta table."""
        return self._staged(table, super().path(table))

    def quarantine(self, table: Table) -> Path:
        """The Delta table of rows it refused."""
        return self._staged(table, super().quarantine(table))

    def histories(self, table: Table) -> list[Path]:
        """The tables with the batches' commits: the table's own, then the staged one's."""
        return [Lake.path(self, table), self.path(table)]

    def place(self, table: Table) -> Path:
        """The folder that holds all of it."""
        return self.root / table.pipeline / "_staging" / f"{table.layer}_{table.name}" / self.turn

    def _staged(self, table: Table, path: Path) -> Path:
        if table.key != self.key:
            return path
        return self.place(table) / path.relative_to(self.root / table.pipeline)


@contextmanager
def staged(table: Table, lake: Lake, spark: SparkSession) -> Iterator[StagedLake]:
    """Return the lake with a shallow clone of the table and its quarantine, which are dropped at the end.

    A clone is a log of its own over the same data files: it costs no copy, and writes to it go elsewhere.
    The caller holds the table's lease.
    """
    stage = StagedLake(lake.settings, table.key, uuid.uuid4().hex[:12])
    # What an earlier attempt left that died.
    remove_tree(stage.place(table).parent)
    try:
        for path, clone in ((lake.path(table), stage.path(table)),
                            (lake.quarantine(table), stage.quarantine(table))):  # fmt: skip
            if log.exists(path):
                into, of = quoted(str(clone)), quoted(str(path))
                spark.sql(f"CREATE TABLE delta.{into} SHALLOW CLONE delta.{of}")
        yield stage
    finally:
        remove_tree(stage.place(table).parent)
