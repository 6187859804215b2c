"""``reset``: a table and everything made from it removed, as if nothing had ever landed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from medallion_assets.delta.lease import held
from medallion_assets.ingestion.outcomes import outcomes_of
from medallion_assets.tables.declaration.table import Table
from medallion_assets.tables.standing.lake import Lake
from medallion_assets.verbs.asked import Asked, Spark, Told, downstream_of


def reset(table: Table, lake: Lake, spark: Spark, asked: Asked) -> Told:
    """Removes the table, its quarantine, ledger and checkpoint, and those of all tables downstream.

    Landing files stay, so that the next run takes them again, unless they are asked to go too.

    Raises:
        TableBusy: Another process writes one of the tables.
    """
    reached = [table, *(table.registry[key] for key in downstream_of(table))]
    folders = [path for each in reached for path in _folders(each, lake, asked.landing) if path.exists()]
    told = {"removed": [str(path) for path in folders]}
    if not folders:
        return Told(table.key, "nothing of it is there")
    for each in [] if asked.dry_run else reached:
        with held(lake.state(each, "lease"), each.key):
            for path in _folders(each, lake, asked.landing):
                shutil.rmtree(path, ignore_errors=True)
    word = "would be" if asked.dry_run else "were"
    words = f"{len(folders)} folders {word} removed, of {', '.join(t.key for t in reached)}"
    return Told(table.key, words, "", "tables, quarantines, ledgers and checkpoints", downstream_of(table),
                True, told)  # fmt: skip


def _folders(table: Table, lake: Lake, landing: bool) -> Iterator[Path]:
    yield from (lake.path(table), lake.quarantine(table))
    if table.source:
        yield from (lake.ledger(table), outcomes_of(lake.ledger(table)))
        if landing:
            yield lake.landing(table.pipeline, table.source)
    yield lake.state(table, ".")
