"""``reset_checkpoint``: a table's stream begins with a new checkpoint; its rows stay."""

from contextlib import nullcontext

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.lease import is_held
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import forget_checkpoint
from medallion_assets.lake.writer import sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, refused


def reset_checkpoint(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Drop the checkpoint and keeps the data: the next run goes on from what the table's commits say.

    A stateful table's state goes with its checkpoint, so its next run makes it anew from upstream.

    Raises:
        TableBusy: Another process writes the table.
    """
    if not lake.state(table, "checkpoint").exists():
        return VerbResult(table.key, "it has no checkpoint")
    streams = (table, *table.flows)
    if asked.dry_run and is_held(lake.state(table, "lease")):
        return refused(table, "another process is writing the table now")
    # Under the lease: a batch that is being written is not one that was interrupted.
    with nullcontext() if asked.dry_run else sole_writer(table, lake):
        if any(_half_written(stream, lake) for stream in streams):
            return refused(
                table,
                "a batch was interrupted between the table and its quarantine: run `medallion refresh "
                f"{table.key}` first. Without the checkpoint the rows it refused would reach no quarantine",
            )
        for stream in () if asked.dry_run else streams:
            forget_checkpoint(stream, lake)
    whole = table.stateful and log.exists(lake.path(table))
    after = "is recomputed from upstream" if whole else "goes on where its commits say it stands"
    word = "would be" if asked.dry_run else "was"
    words = f"its checkpoint {word} dropped; with the next run it {after}"
    return VerbResult(table.key, words, "", "the checkpoint", downstream_of(table) if whole else ())


def _half_written(stream: Table, lake: Lake) -> bool:
    """Return true where a batch died between its commit to the table and the one to the quarantine."""
    checkpoint = lake.state(stream, "checkpoint")
    if not stream.refuses or not progress.is_interrupted(checkpoint):
        return False
    number, writer = progress.last_number(checkpoint / "offsets"), progress.query_id(checkpoint)
    done = [
        log.committed_batch(path, f"{stream.key}/{writer}") >= number
        for path in (lake.path(stream), lake.quarantine(stream))
    ]
    return done == [True, False]
