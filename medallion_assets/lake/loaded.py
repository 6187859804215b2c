"""Tables that notebook loads fill, as declared tables for operations; each stores its last source."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from medallion_assets.declare.table import Layer, Read, Table
from medallion_assets.lake.paths import Lake
from medallion_assets.sources import Source
from medallion_assets.sources.load_target import LOADED_FROM, LoadTarget, NamedTable, remembered


def as_loaded(files: DataFrame) -> DataFrame:
    """Records that a notebook loaded."""
    return files


@dataclass(frozen=True)
class LoadedLake(Lake):
    """The lake for a table of notebook loads: its ledger and schema versions are beside its checkpoint.

    Attributes:
        target: Where the table was last loaded from, and what belongs to it.
    """

    target: LoadTarget

    def quarantine(self, table: Table) -> Path:
        """The Delta table of records it refused."""
        return self.target.quarantine

    def landing(self, pipeline: str, source: Source) -> Path | str:
        """The folder, file or glob of its last load."""
        return self.target.landing

    def ledger(self, table: Table) -> Path:
        """The Delta table of files its loads have seen."""
        return self.target.ledger

    def state(self, table: Table, what: str) -> Path:
        """Its own notes by ``.``; else as for every table, the lease among them."""
        ours = {".": self.target.state, "checkpoint": self.target.state / "stream"}
        return ours.get(what) or super().state(table, what)


def loaded_tables(lake: Lake) -> Iterator[tuple[Table, LoadedLake]]:
    """Return the tables that notebooks' loads fill, each with the lake as it lies in it.

    Args:
        lake: Where they are.
    """
    found = lake.root.glob(f"*/_state/*/*/{LOADED_FROM}")
    for file in sorted(found):
        pipeline, _, layer, name, _ = file.parts[-5:]
        target = remembered(NamedTable(pipeline, layer, name), lake.root)
        if target is not None:
            reads = (("files", Read("files", source=target.source)),)
            layers: dict[str, Layer] = {"bronze": "bronze", "silver": "silver", "gold": "gold"}
            table = Table(pipeline, layers[layer], name, as_loaded, reads, declared_at="a notebook's load")
            yield table, LoadedLake(lake.settings, target)
