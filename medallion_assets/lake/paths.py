"""The paths of a table in the lake, and the lease of its one writer."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.batches import newest_flows
from medallion_assets.delta.rollback import check_format
from medallion_assets.settings import Settings
from medallion_assets.sources import Source
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources.load_target import LAYERS
from medallion_assets.sources.walking import location_of
from medallion_assets.storage import ObjectPath
from medallion_assets.storage.lease import held, open_to_writers


@dataclass(frozen=True)
class Lake:
    """The folders of a deployment; every path a table has is made here."""

    settings: Settings

    @property
    def root(self) -> Path:
        """The folder that holds every table."""
        return self.settings.lake

    def path(self, table: Table) -> Path:
        """The Delta table."""
        return self.root / table.pipeline / table.layer / table.name

    def histories(self, table: Table) -> list[Path]:
        """The Delta tables that hold the commits of this table's batches, oldest first."""
        return [self.path(table)]

    def quarantine(self, table: Table) -> Path:
        """The Delta table of rows it refused."""
        return self.root / table.pipeline / "quarantine" / quarantine_name(table)

    def landing(self, pipeline: str, source: Source) -> Path | str:
        """Where files of this source land: its folder below the pipeline's, unless it names a path."""
        if source.path:
            return location_of(source.path)
        folder = self.settings.landing / pipeline / source.name
        return str(folder) if isinstance(folder, ObjectPath) else folder

    def ledger(self, table: Table) -> Path:
        """The Delta table of files a bronze table has seen; its status table lies beside it."""
        return self.root / table.pipeline / "_ledger" / table.name

    def state(self, table: Table, what: str) -> Path:
        """The folder or file ``what`` of a table's (or flow's) state: checkpoint, caches, lease."""
        place = self.root / table.pipeline / "_state" / table.layer / table.name
        return (place / "flows" / table.flow if table.flow else place) / what

    def upstream_log(self, table: Table) -> Path:
        """The Delta table whose commits the table's stream follows: its ledger, or its upstream table."""
        if table.source:
            return self.ledger(table)
        assert table.streams_from is not None
        return self.path(table.streams_from)


def quarantine_name(table: Table) -> str:
    """Return the quarantine's name: the table's own, or with its layer where a lower layer has the same.

    Two tables never share one: two writers on a local Delta table can overwrite each other's commits.
    """
    # A flow's refused rows stand with those of the table it goes into.
    table = table.registry.get(table.key, table)
    lower = LAYERS[: LAYERS.index(table.layer)]
    beside = (other for other in table.registry.values() if other.layer in lower)
    taken = {other.name for other in (*_ancestors(table), *beside)}
    return f"{table.layer}_{table.name}" if table.name in taken else table.name


def _ancestors(table: Table) -> list[Table]:
    return [found for up in table.upstream for found in (up, *_ancestors(up))]


def is_lost(table: Table, lake: Lake) -> bool:
    """Return true where the table is gone, or another was made in its place by hand, and batches wrote it.

    Batches whose files were all refused, or gone before they were read, leave no table behind.
    """
    if log.exists(lake.path(table)) and newest_flows(lake.path(table)):
        return False
    if table.source:
        return outcomes.any_loaded(lake.ledger(table))
    return progress.last_number(lake.state(table, "checkpoint") / "commits") >= 0


@contextmanager
def sole_writer(table: Table, lake: Lake) -> Iterator[None]:
    """Hold the table's lease while the block runs.

    Raises:
        TableBusy: Another process writes the table and did not end in time.
        LakeFormatUnknown: The lake is of another release's format.
    """
    check_format(lake.root)
    with open_to_writers(lake.root), held(lake.state(table, "lease"), table.key):
        yield
