"""``reset`` deletes a table and all tables made from it; ``reset_checkpoint`` deletes only a checkpoint."""

import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.operations.requests import (
    Spark,
    VerbRequest,
    VerbResult,
    downstream_of,
    many,
    refused,
    tables_downstream,
)
from medallion_assets.sources.file_status import outcomes_of
from medallion_assets.storage.lease import held, is_held


def reset(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Delete the table, its quarantine, ledger and checkpoint, and those of all tables downstream.

    Landing files are kept, so that the next run loads them again, unless ``landing`` is set.

    Raises:
        TableBusy: Another process writes one of the tables.
    """
    reached = [table, *tables_downstream(table)]
    folders = [path for each in reached for path in _folders(each, lake, request.landing) if path.exists()]
    told = {"removed": [str(path) for path in folders]}
    if not folders:
        return VerbResult(table.key, "nothing to delete: the table and its state do not exist")
    for each in [] if request.dry_run else reached:
        with held(lake.state(each, "lease"), each.key):
            for path in _folders(each, lake, request.landing):
                shutil.rmtree(path, ignore_errors=True)
    word = "would be" if request.dry_run else "were"
    words = f"{many(len(folders), 'folder')} {word} deleted, of {', '.join(t.key for t in reached)}"
    words += "" if request.landing else "; landing files are kept, and the next run loads them again"
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


def reset_checkpoint(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Delete the checkpoint and keep the data: the next run continues at the position in the table's commits.

    A stateful table's state is part of its checkpoint, so the next run recomputes it from upstream.

    Raises:
        TableBusy: Another process writes the table.
    """
    if not lake.state(table, "checkpoint").exists():
        return VerbResult(table.key, "nothing to do: it has no checkpoint")
    if request.dry_run and is_held(lake.state(table, "lease")):
        return refused(table, "another process is writing the table now")
    with nullcontext() if request.dry_run else sole_writer(table, lake):
        for stream in () if request.dry_run else (table, *table.flows):
            progress.forget(lake.state(stream, "checkpoint"))
    whole = table.stateful and log.exists(lake.path(table))
    after = "recomputes it from upstream" if whole else "continues at the position in its commits"
    word = "would be" if request.dry_run else "was"
    words = f"its checkpoint {word} deleted, no row of it; the next run {after}"
    return VerbResult(table.key, words, "", "the checkpoint", downstream_of(table) if whole else ())
