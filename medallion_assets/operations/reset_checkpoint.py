"""``reset_checkpoint``: a table's stream begins with a new checkpoint; its rows stay."""

from contextlib import nullcontext

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.lease import is_held
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.writer import sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, refused


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
