"""Where one upstream row may give many: none of them may give no row unseen, and each is counted once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import SOURCE_ROW, Table
from medallion_assets.delta import changes
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.derive import derived
from medallion_assets.quality.judge import OUTCOMES
from medallion_assets.quarantine.held_poison import sound
from medallion_assets.quarantine.repairs import as_text
from medallion_assets.runtime.strategy import MicroBatch, Strategy
from medallion_assets.runtime.write import Prepared
from medallion_assets.sources.quarantine import GAVE_NO_ROW, QUERY, shaped


def prepare_many(prepare: Strategy, batch: MicroBatch, table: Table, lake: Lake) -> Prepared:
    """Compute a batch; upstream rows of which the query gives no row go to quarantine, as upstream has them.

    Counts ``expanded`` besides: by how many the rows that came are more than the upstream rows that came.
    """
    new = changes.added(batch.rows)
    if batch.versions.after < 0:
        # All of upstream is taken again: what is held of it is held already.
        new = sound(new, batch.rows.sparkSession, lake.quarantine(table))
    silent = _silent(new, batch, table, lake)
    held = silent.count()
    sources = new.count() - changes.removed(batch.rows).count()
    prepared = prepare(batch, table, lake)
    counts = {**prepared.counts, "quarantine": prepared.counts.get("quarantine", 0) + held}
    rows = sum(counts.get(word, 0) - counts.get(f"was:{word}", 0) for word in OUTCOMES)

    def write(target: Lake, transaction: Transaction) -> None:
        if held:
            rules, kind = F.array(F.lit(GAVE_NO_ROW)), F.lit(QUERY)
            text = as_text(silent)
            entries = shaped(silent, text, rules, kind, transaction.version, transaction.run_id)
            append(entries, target.quarantine(table), transaction.of_quarantine)
        prepared.write(target, transaction)

    return prepared._replace(counts={**counts, "expanded": rows - sources}, write=write)


def _silent(new: DataFrame, batch: MicroBatch, table: Table, lake: Lake) -> DataFrame:
    """Return the upstream rows of which the query gives none."""
    given = derived(new, table, lake, batch.static_versions).select(SOURCE_ROW).distinct()
    marked = new.withColumn(SOURCE_ROW, F.md5(as_text(new)))
    return marked.join(given, SOURCE_ROW, "left_anti").drop(SOURCE_ROW).localCheckpoint()
