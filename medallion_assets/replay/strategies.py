"""How a replay reaches its table: by an append, by its keys recomputed, or by its groups recomputed."""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import working
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import append
from medallion_assets.delta.names import quoted
from medallion_assets.lake.file_counts import retell
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import begin_anew
from medallion_assets.lake.static_versions import at_version
from medallion_assets.quality.judge import counted, written_columns
from medallion_assets.quarantine.entries import move_entries
from medallion_assets.quarantine.held_poison import HELD
from medallion_assets.replay.failed_rows import ended, repaired_inputs, through_query
from medallion_assets.replay.retried import ReplayPlan, chosen, repaired_typed, signed, tries_of
from medallion_assets.replay.verdict import changes_of, verdict_of
from medallion_assets.runtime.correct import RecomputeScope, recomputed
from medallion_assets.runtime.late_entries import WAITS
from medallion_assets.runtime.query import taken
from medallion_assets.sources.quarantine import REPLAYED

Strategy = Callable[[ReplayPlan, Table, Lake, SparkSession], dict[str, int]]
"""Writes what a replay gives, once however often it is done; gives counts of ``judge`` as they moved."""


def way_of(table: Table) -> Strategy:
    """Return how this table takes replayed rows."""
    if table.row_count_column:
        return groups_made_anew
    return keys_made_anew if table.source is None and table.recomputed_by else appended


def appended(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> dict[str, int]:
    """Append the rows that are good now: rows without keys, and bronze."""
    transaction = trial.transaction(table)
    entries = chosen(spark, table, lake, trial).persist()
    rows, misfits = verdict_of(entries, table, lake, trial)
    verdict = rows.persist()
    counts = counted(verdict, table)
    good = verdict.where(f"{working.OUTCOME} = 'good'").select(*map(quoted, written_columns(verdict)))
    append(good, lake.path(table), transaction)
    changes = changes_of(verdict, misfits, entries, table, lake, trial)
    move_entries(changes, lake.quarantine(table), transaction)
    if table.source:
        files = [row[0] for row in entries.select("source_file").distinct().collect() if row[0]]
        retell(spark, table, lake, files, trial.run_id)
    counts["quarantine"] += misfits.where("status = 'open'").count()
    return counts | {"was:quarantine": entries.count()}


def keys_made_anew(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> dict[str, int]:
    """Make the keys of the rows anew, as they were and as they are now."""
    entries, path = chosen(spark, table, lake, trial).persist(), lake.quarantine(table)
    typed = repaired_typed(entries, table, lake, trial).persist()
    inputs = repaired_inputs(entries.where(HELD), table, lake, trial)
    tries = tries_of(typed.where(f"{working.UNFIT} IS NULL"), trial).unionByName(tries_of(inputs, trial))
    move_entries(tries, path, trial.transaction(table, "/try"))
    names = table.recomputed_by
    keys = typed.select(*(f"was.{quoted(n)}" for n in names)).union(
        typed.select(*(f"now.{quoted(n)}" for n in names))
    )
    taken = through_query(inputs, table, lake, trial)
    keys = keys.union(taken.select(*names)).distinct().persist()
    scope = RecomputeScope(
        keys,
        VersionRange(trial.upto, trial.upto),
        trial.static_versions,
        trial.static_versions,
        replay=trial.id,
    )
    counts = recomputed(spark, table, lake, scope, trial.transaction(table))
    through = ended(inputs, taken).localCheckpoint()
    failed = through.where(F.col("status") == REPLAYED).count()
    if failed:
        # Counted first, since a merge costs two seconds, also of nothing; tried once, by the move above.
        ends = signed(through, trial).withColumn("attempts", F.lit(0))
        move_entries(ends, path, trial.transaction(table, "/settle"))
    # Rows the query failed on stood in quarantine, and in no frame it could give.
    counts["was:quarantine"] = counts.get("was:quarantine", 0) + failed
    return counts


def groups_made_anew(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> dict[str, int]:
    """Mends rows an aggregate's query failed on, and makes the aggregate anew with them.

    State that begins anew takes all rows in one batch, for which none is late: every late row that is
    held comes through with those that were chosen.
    """
    entries = _of_the_same_texts(chosen(spark, table, lake, trial), table, lake, trial)
    inputs = repaired_inputs(entries, table, lake, trial).persist()
    refuse_what_fails(inputs, table, lake, trial)
    late = at_version(spark, lake.quarantine(table), trial.version).where(WAITS)
    settled = ended(inputs).unionByName(ended(late.select("entry_id", "repaired"))).persist()
    move_entries(signed(settled, trial), lake.quarantine(table), trial.transaction(table, "/settle"))
    count = settled.count()
    begin_anew(table, lake)
    taken(table, lake, spark, trial.run_id, "availableNow")
    return {"good": count, "was:quarantine": count}


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
