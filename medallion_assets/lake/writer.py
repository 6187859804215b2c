"""The one writer of a table, from whichever door, over a table that is whole."""

from collections.abc import Iterator
from contextlib import contextmanager

from medallion_assets.declare.table import Table
from medallion_assets.delta.lease import held
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.staging import finish_publishing


@contextmanager
def sole_writer(table: Table, lake: Lake) -> Iterator[None]:
    """Holds the table's lease, with a publishing that died under way ended first.

    Raises:
        TableBusy: Another process writes the table and did not end in time.
    """
    with held(lake.state(table, "lease"), table.key):
        finish_publishing(table, lake)
        yield
