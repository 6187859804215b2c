"""Where one upstream row may give many: none of them may give no row unseen, and each is counted once."""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import SOURCE_ROW, Table
from medallion_assets.delta import changes
from medallion_assets.delta.commit import append
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.derive import derived
from medallion_assets.quality.judge import OUTCOMES
from medallion_assets.quarantine.held_poison import sound
from medallion_assets.quarantine.repairs import as_text
from medallion_assets.runtime.strategy import Part, Strategy, Written
from medallion_assets.sources.quarantine import GAVE_NO_ROW, QUERY, shaped


def write_many(write: Strategy, part: Part, table: Table, lake: Lake) -> Written:
    """Write a batch; upstream rows of which the query gives no row go to quarantine, as upstream has them.

    Counts ``expanded`` besides: by how many the rows that came are more than the upstream rows that came.
    """
    new = changes.added(part.rows)
    if part.versions.after < 0:
        # All of upstream is taken again: what is held of it is held already.
        new = sound(new, part.rows.sparkSession, lake.quarantine(table))
    silent = _held(new, part, table, lake)
    sources = new.count() - changes.removed(part.rows).count()
    done = write(part, table, lake)
    counts = done.counts | {"quarantine": done.counts.get("quarantine", 0) + silent}
    rows = sum(counts.get(word, 0) - counts.get(f"was:{word}", 0) for word in OUTCOMES)
    return done._replace(counts=counts | {"expanded": rows - sources})


def _held(new: DataFrame, part: Part, table: Table, lake: Lake) -> int:
    """Put the upstream rows of which the query gives none into quarantine, once; gives how many they are."""
    quarantine, transaction = lake.quarantine(table), part.transaction
    given = derived(new, table, lake, part.static_versions).select(SOURCE_ROW).distinct()
    marked = new.withColumn(SOURCE_ROW, F.md5(as_text(new)))
    silent = marked.join(given, SOURCE_ROW, "left_anti").drop(SOURCE_ROW).localCheckpoint()
    count = silent.count()
    mine = replace(transaction, app_id=f"{transaction.app_id}/silent")
    if count and not mine.committed_to(quarantine):
        rules, kind = F.array(F.lit(GAVE_NO_ROW)), F.lit(QUERY)
        entries = shaped(silent, as_text(silent), rules, kind, transaction.batch_id, transaction.run_id)
        append(entries, quarantine, mine)
    return count
