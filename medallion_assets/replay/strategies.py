"""How a replay reaches its table: by an append, by its keys recomputed, or by its groups recomputed."""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import working
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.delta.names import quoted
from medallion_assets.delta.position import app_id
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import epoch
from medallion_assets.lake.static_versions import at_version
from medallion_assets.quality.judge import counted, written_columns
from medallion_assets.quarantine.entries import move_entries
from medallion_assets.quarantine.held_poison import HELD
from medallion_assets.replay.failed_rows import ended, repaired_inputs, through_query
from medallion_assets.replay.retried import ReplayPlan, chosen, repaired_typed, signed, tries_of
from medallion_assets.replay.verdict import changes_of, verdict_of
from medallion_assets.runtime.correct import RecomputeScope, prepare_recompute
from medallion_assets.runtime.late_entries import WAITS
from medallion_assets.runtime.query import rewrite
from medallion_assets.runtime.write import Prepared
from medallion_assets.sources.quarantine import REPLAYED

Strategy = Callable[[ReplayPlan, Table, Lake, SparkSession], Prepared]
"""Computes what a replay gives: how the counts of ``judge`` move, and what writes it."""


def way_of(table: Table) -> Strategy:
    """Return how this table takes replayed rows."""
    if table.row_count_column:
        return groups_recomputed
    return keys_recomputed if table.source is None and table.recomputed_by else appended


def appended(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> Prepared:
    """Append the rows that are good now: rows without keys, and bronze."""
    entries = chosen(spark, table, lake, trial).persist()
    rows, misfits = verdict_of(entries, table, lake, trial)
    verdict = rows.persist()
    counts = counted(verdict, table)
    good = verdict.where(f"{working.OUTCOME} = 'good'").select(*map(quoted, written_columns(verdict)))
    counts["quarantine"] += misfits.where("status = 'open'").count()
    counts["was:quarantine"] = entries.count()

    def write(target: Lake, transaction: Transaction) -> None:
        changes = changes_of(verdict, misfits, entries, table, lake, trial)
        move_entries(changes, target.quarantine(table), transaction.of_quarantine)
        append(good, target.path(table), transaction)

    return Prepared(counts, "", write, (verdict, entries))


def keys_recomputed(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> Prepared:
    """Recompute the keys of the rows, as they were and as they are now."""
    entries, path = chosen(spark, table, lake, trial).persist(), lake.quarantine(table)
    typed = repaired_typed(entries, table, lake, trial).persist()
    inputs = repaired_inputs(entries.where(HELD), table, lake, trial)
    tries = tries_of(typed.where(f"{working.UNFIT} IS NULL"), trial).unionByName(tries_of(inputs, trial))
    move_entries(tries, path, trial.transaction(table).of_quarantine)
    names = table.recomputed_by
    keys = typed.select(*(f"was.{quoted(n)}" for n in names)).union(
        typed.select(*(f"now.{quoted(n)}" for n in names))
    )
    through = through_query(inputs, table, lake, trial)
    keys = keys.union(through.select(*names)).distinct().persist()
    scope = RecomputeScope(
        keys,
        VersionRange(trial.upto, trial.upto),
        trial.static_versions,
        trial.static_versions,
        replay=trial.id,
    )
    prepared = prepare_recompute(spark, table, lake, scope)
    taken = ended(inputs, through).localCheckpoint()
    failed = taken.where(F.col("status") == REPLAYED).count()
    # Rows the query failed on were in quarantine, and in no frame it could give.
    before = prepared.counts.get("was:quarantine", 0) + failed

    def write(target: Lake, transaction: Transaction) -> None:
        if failed:
            # Counted first, since a merge costs two seconds, also of nothing; tried once, by the move above.
            ends = signed(taken, trial).withColumn("attempts", F.lit(0))
            move_entries(ends, target.quarantine(table), transaction.of_quarantine)
        prepared.write(target, transaction)

    counts = {**prepared.counts, "was:quarantine": before}
    return prepared._replace(counts=counts, write=write, frames=(*prepared.frames, typed, entries))


def groups_recomputed(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> Prepared:
    """Mend rows an aggregate's query failed on, and recompute the aggregate with them.

    State that begins with all of upstream takes all rows in one batch, for which none is late: every late
    row that is held comes through with those that were chosen.
    """
    entries = _of_the_same_texts(chosen(spark, table, lake, trial), table, lake, trial)
    inputs = repaired_inputs(entries, table, lake, trial).persist()
    refuse_what_fails(inputs, table, lake, trial)
    late = at_version(spark, lake.quarantine(table), trial.version).where(WAITS)
    settled = ended(inputs).unionByName(ended(late.select("entry_id", "repaired"))).persist()
    # Valid with the commit that begins the table's next epoch, which holds these rows.
    begins = app_id(table.key, epoch(table, lake) + 1, table.flow)
    pending = replace(trial.transaction(table), app_id=begins).of_quarantine
    move_entries(signed(settled, trial), lake.quarantine(table), pending)
    count = settled.count()
    rewrite(replace(table, write_audit_publish=False), lake, spark, trial.run_id)
    return Prepared({"good": count, "was:quarantine": count}, "", lambda target, transaction: None)


def refuse_what_fails(inputs: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> None:
    """Raise what the query raises where it fails on such rows still."""
    through_query(inputs, table, lake, trial).write.format("noop").mode("overwrite").save()


def _of_the_same_texts(entries: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return the entries, and every other of a row that is the same to the letter.

    A stream cannot tell such rows from one another: they are held, and mended, together.
    """
    every = at_version(entries.sparkSession, lake.quarantine(table), trial.version)
    open_still = every.where(f"{HELD} AND status <> '{REPLAYED}'")
    return open_still.join(entries.select("row").distinct(), "row", "left_semi").select(entries.columns)
