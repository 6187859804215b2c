"""``reset_checkpoint``: a table's stream begins with a new checkpoint; its rows stay."""

from medallion_assets.delta import log
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.starts import forget_checkpoint
from medallion_assets.tables.table import Table
from medallion_assets.tables.writer import sole_writer
from medallion_assets.verbs.asked import Asked, Spark, Told, downstream_of


def reset_checkpoint(table: Table, lake: Lake, spark: Spark, asked: Asked) -> Told:
    """Drops the checkpoint and keeps the data: the next run goes on from what the table's commits say.

    A stateful table's state goes with its checkpoint, so its next run makes it anew from upstream.

    Raises:
        TableBusy: Another process writes the table.
    """
    if not lake.state(table, "checkpoint").exists():
        return Told(table.key, "it has no checkpoint")
    if not asked.dry_run:
        with sole_writer(table, lake):
            for stream in (table, *table.flows):
                forget_checkpoint(stream, lake)
    whole = table.stateful and log.exists(lake.path(table))
    after = "is made anew from upstream" if whole else "goes on where its commits say it stands"
    word = "would be" if asked.dry_run else "was"
    words = f"its checkpoint {word} dropped; with the next run it {after}"
    return Told(table.key, words, "", "the checkpoint", downstream_of(table) if whole else ())
