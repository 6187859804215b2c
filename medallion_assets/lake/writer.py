"""The one writer of a table, from whichever door."""

from collections.abc import Iterator
from contextlib import contextmanager

from medallion_assets.declare.table import Table
from medallion_assets.delta.format import check_format
from medallion_assets.delta.lease import held
from medallion_assets.lake.paths import Lake


@contextmanager
def sole_writer(table: Table, lake: Lake) -> Iterator[None]:
    """Hold the table's lease while the block runs.

    Raises:
        TableBusy: Another process writes the table and did not end in time.
        LakeFormatUnknown: The lake is of another release's format.
    """
    check_format(lake.root)
    with held(lake.state(table, "lease"), table.key):
        yield
