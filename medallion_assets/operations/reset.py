"""``reset``: a table and all made from it removed; ``reset_checkpoint``: only its stream begins anew."""

import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, refused
from medallion_assets.sources.file_status import outcomes_of
from medallion_assets.storage.lease import held, is_held


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
        zone = lake.landing(table.pipeline, table.source)
        # Objects are another system's: its own tools delete them.
        if landing and isinstance(zone, Path):
            yield zone
    yield lake.state(table, ".")


def reset_checkpoint(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Drop the checkpoint and keep the data: the next run goes on from the position in the table's commits.

    A stateful table's state goes with its checkpoint, so its next run recomputes it from upstream.

    Raises:
        TableBusy: Another process writes the table.
    """
    if not lake.state(table, "checkpoint").exists():
        return VerbResult(table.key, "it has no checkpoint")
    if asked.dry_run and is_held(lake.state(table, "lease")):
        return refused(table, "another process is writing the table now")
    with nullcontext() if asked.dry_run else sole_writer(table, lake):
        for stream in () if asked.dry_run else (table, *table.flows):
            progress.forget(lake.state(stream, "checkpoint"))
    whole = table.stateful and log.exists(lake.path(table))
    after = "is recomputed from upstream" if whole else "goes on from the position its commits name"
    word = "would be" if asked.dry_run else "was"
    words = f"its checkpoint {word} dropped; with the next run it {after}"
    return VerbResult(table.key, words, "", "the checkpoint", downstream_of(table) if whole else ())
