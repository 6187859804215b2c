"""``reset``: a table and everything made from it removed, as if nothing had ever landed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta.lease import held
from medallion_assets.lake.paths import Lake
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of
from medallion_assets.sources.file_status import outcomes_of


def reset(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Remove the table, its quarantine, ledger and checkpoint, and those of all tables downstream.

    Landing files stay, so that the next run takes them again, unless they are asked to go too.

    Raises:
        TableBusy: Another process writes one of the tables.
    """
    reached = [table, *(table.registry[key] for key in downstream_of(table))]
    folders = [path for each in reached for path in _folders(each, lake, asked.landing) if path.exists()]
    told = {"removed": [str(path) for path in folders]}
    if not folders:
        return VerbResult(table.key, "nothing of it is there")
    for each in [] if asked.dry_run else reached:
        with held(lake.state(each, "lease"), each.key):
            for path in _folders(each, lake, asked.landing):
                shutil.rmtree(path, ignore_errors=True)
    word = "would be" if asked.dry_run else "were"
    words = f"{len(folders)} folders {word} removed, of {', '.join(t.key for t in reached)}"
    changes = "tables, quarantines, ledgers and checkpoints"
    return VerbResult(table.key, words, "", changes, downstream_of(table), True, told)


def _folders(table: Table, lake: Lake, landing: bool) -> Iterator[Path]:
    yield from (lake.path(table), lake.quarantine(table))
    if table.source:
        yield from (lake.ledger(table), outcomes_of(lake.ledger(table)))
        if landing:
            yield lake.landing(table.pipeline, table.source)
    yield lake.state(table, ".")
