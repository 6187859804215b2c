"""Replay: quarantined rows fixed on request, judged by today's rules, and written once.

The plan of a replay is stored in a file before anything changes. A replay that died is finished by the next
replay or refresh of the table, with the same entries, fix and static versions.
"""

import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, working
from medallion_assets.delta.batches import Batch, read_json, write_json
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.delta.names import quoted
from medallion_assets.delta.position import app_id
from medallion_assets.delta.rollback import roll_back
from medallion_assets.lake.arrivals import retell
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.lake.position import (
    at_version,
    current_static_versions,
    epoch,
    last_static_versions,
    newest_batch,
    position,
)
from medallion_assets.quality.judge import counted, written_columns
from medallion_assets.quarantine.choice import QuarantineFilter, fixes_of
from medallion_assets.quarantine.entries import move_entries
from medallion_assets.quarantine.poison import HELD
from medallion_assets.replay.retried import (
    ReplayPlan,
    chosen,
    ended,
    refuse_what_fails,
    repaired_inputs,
    repaired_typed,
    signed,
    through_query,
    tries_of,
)
from medallion_assets.replay.verdict import changes_of, verdict_of
from medallion_assets.runtime.failures import explained
from medallion_assets.runtime.flow import batch_of
from medallion_assets.runtime.query import rewrite
from medallion_assets.runtime.recompute import RecomputeScope, prepare_recompute
from medallion_assets.runtime.stateful import WAITS
from medallion_assets.runtime.write import Context, Prepared, commit
from medallion_assets.session.frames import cut_off, persisted
from medallion_assets.sources.quarantine import REPLAYED

Strategy = Callable[[ReplayPlan, Table, Lake, SparkSession], Prepared]
"""Computes the result of a replay: its counts, and the function that writes it."""


def way_of(table: Table) -> Strategy:
    """Return the strategy by which this table takes replayed rows."""
    if table.row_count_column:
        return groups_recomputed
    return keys_recomputed if table.source is None and table.recomputed_by else appended


def appended(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> Prepared:
    """Append the rows that are good now; for bronze tables and rows without keys."""
    entries = persisted(chosen(spark, table, lake, trial))
    rows, misfits = verdict_of(entries, table, lake, trial)
    verdict = persisted(rows)
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
    """Recompute the keys of the rows, both the keys before and the keys after the fix."""
    entries, path = persisted(chosen(spark, table, lake, trial)), lake.quarantine(table)
    typed = persisted(repaired_typed(entries, table, lake, trial))
    inputs = repaired_inputs(entries.where(HELD), table, lake, trial)
    tries = tries_of(typed.where(f"{working.UNFIT} IS NULL"), trial).unionByName(tries_of(inputs, trial))
    move_entries(tries, path, trial.transaction(table).of_quarantine)
    names = table.recomputed_by
    keys = typed.select(*(f"was.{quoted(n)}" for n in names)).union(
        typed.select(*(f"now.{quoted(n)}" for n in names))
    )
    through = through_query(inputs, table, lake, trial)
    keys = persisted(keys.union(through.select(*names)).distinct())
    scope = RecomputeScope(
        keys,
        VersionRange(trial.upto, trial.upto),
        trial.static_versions,
        trial.static_versions,
        replay=trial.id,
    )
    prepared = prepare_recompute(spark, table, lake, scope)
    taken = cut_off(ended(inputs, through))
    failed = taken.where(F.col("status") == REPLAYED).count()
    # The query never returned the rows it failed on, so they are counted here.
    before = prepared.counts.get("was:quarantine", 0) + failed

    def write(target: Lake, transaction: Transaction) -> None:
        if failed:
            # Counted first: even an empty merge takes two seconds. The move above counted the attempt.
            ends = signed(taken, trial).withColumn("attempts", F.lit(0))
            move_entries(ends, target.quarantine(table), transaction.of_quarantine)
        prepared.write(target, transaction)

    counts = {**prepared.counts, "was:quarantine": before}
    return prepared._replace(counts=counts, write=write, frames=(*prepared.frames, typed, entries))


def groups_recomputed(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> Prepared:
    """Fix rows that an aggregate's query failed on, and recompute the aggregate with them.

    The recomputation reads all of upstream in one batch, in which no row is late: every late row in
    quarantine is settled together with the chosen rows.
    """
    entries = _of_the_same_texts(chosen(spark, table, lake, trial), table, lake, trial)
    inputs = persisted(repaired_inputs(entries, table, lake, trial))
    refuse_what_fails(inputs, table, lake, trial)
    late = at_version(spark, lake.quarantine(table), trial.version).where(WAITS)
    settled = persisted(ended(inputs).unionByName(ended(late.select("entry_id", "repaired"))))
    # The commit that begins the table's next epoch holds these rows and makes the move valid.
    begins = app_id(table.key, epoch(table, lake) + 1, table.flow)
    pending = replace(trial.transaction(table), app_id=begins).of_quarantine
    move_entries(signed(settled, trial), lake.quarantine(table), pending)
    count = settled.count()
    rewrite(Context(replace(table, write_audit_publish=False), lake, spark, trial.run_id))
    return Prepared({"good": count, "was:quarantine": count}, "", lambda target, transaction: None)


def _of_the_same_texts(entries: DataFrame, table: Table, lake: Lake, trial: ReplayPlan) -> DataFrame:
    """Return the entries together with all others that have the same row text.

    A stream cannot tell identical rows apart, so they are held and fixed together.
    """
    every = at_version(entries.sparkSession, lake.quarantine(table), trial.version)
    open_still = every.where(f"{HELD} AND status <> '{REPLAYED}'")
    return open_still.join(entries.select("row").distinct(), "row", "left_semi").select(entries.columns)


@dataclass(frozen=True)
class Replayed:
    """The result of a replay, or with ``dry_run`` the expected result, in rows.

    Attributes:
        table: The table's key.
        tried: Entries chosen.
        written: Rows that went into the table.
        duplicates, dropped: Good rows the table has already, and rows dropped by a rule.
        still_open: Rows that broke a rule again, or still could not be read.
        replay_id: The id in entries and commits; empty where nothing was tried.
    """

    table: str
    tried: int
    written: int = 0
    duplicates: int = 0
    dropped: int = 0
    still_open: int = 0
    replay_id: str = ""
    dry_run: bool = False


def replay(
    table: Table,
    lake: Lake,
    spark: SparkSession,
    choice: QuarantineFilter,
    fix: str = "",
    run_id: str = "",
    dry_run: bool = False,
) -> Replayed:
    """Judge chosen entries of a table's quarantine again, and write each good row at most once.

    Args:
        table: The table.
        lake: Where the table is.
        spark: The session.
        choice: Which open entries.
        fix: ``column = expression``, separated by commas; empty for none.
        run_id: Written into commits; a new id where empty.
        dry_run: Judge only; move and write nothing.

    Raises:
        ReplayRefused: The choice or the fix cannot be read; nothing was moved.
        TableBusy: Another process writes the table.
        ExpectationFailed: A row broke a rule that says ``fail``; nothing was moved.
    """
    fixes_of(fix)
    run_id = run_id or uuid.uuid4().hex
    with sole_writer(table, lake):
        finish_replay(table, lake, spark)
        if not dry_run:
            # Entries of a batch that died belong to no commit of the table.
            roll_back(spark, lake.path(table), lake.quarantine(table), run_id)
        trial = _planned(table, lake, choice, fix, run_id)
        tried = chosen(spark, table, lake, trial).count() if trial else 0
        if trial is None or not tried:
            return Replayed(table.key, 0, dry_run=dry_run)
        if dry_run:
            return _foreseen(trial, tried, table, lake, spark)
        write_json(lake.state(table, "replay.json"), asdict(trial))
        batch = _carried_out(trial, table, lake, spark)
    return _replayed(table, trial, tried, batch)


def is_pending(table: Table, lake: Lake) -> bool:
    """Return true where a replay was started and not finished."""
    return lake.state(table, "replay.json").exists()


def finish_replay(table: Table, lake: Lake, spark: SparkSession) -> list[Batch]:
    """Finish a replay that crashed; the caller holds the table's lease."""
    file = lake.state(table, "replay.json")
    if not file.exists():
        return []
    if (plan := read_json(file)) is None:
        # A power cut emptied it; whatever of the replay is not committed is rolled back by the next run.
        file.unlink()
        return []
    return [_carried_out(ReplayPlan(**plan), table, lake, spark)]


def _planned(table: Table, lake: Lake, choice: QuarantineFilter, fix: str, run_id: str) -> ReplayPlan | None:
    version = log.version(lake.quarantine(table))
    condition = choice.condition
    if version is None:
        return None
    own = log.version(lake.path(table))
    static_versions = current_static_versions(table, lake) | ({} if own is None else {table.key: own})
    return ReplayPlan(
        uuid.uuid4().hex[:12], version, condition, fix, static_versions, position(table, lake), run_id
    )


def _carried_out(trial: ReplayPlan, table: Table, lake: Lake, spark: SparkSession) -> Batch:
    started, transaction = time.monotonic(), trial.transaction(table)
    ungated = replace(table, write_audit_publish=False)
    try:
        if not transaction.committed_to(lake.path(table)):
            roll_back(spark, lake.path(table), lake.quarantine(table), trial.run_id)
            prepared = way_of(table)(trial, table, lake, spark)
            prepared = prepared._replace(
                strategy=f"replay {trial.id}" + (f": {trial.fix}" if trial.fix else "")
            )
            batch = _batch(prepared, table, lake, trial, time.monotonic() - started)
            commit(prepared, batch, Context(ungated, lake, spark), transaction)
        if table.source:
            files = chosen(spark, table, lake, trial).select("source_file").distinct().collect()
            retell(spark, table, lake, [row[0] for row in files if row[0]], trial.run_id)
    except Exception as error:
        # Nothing was committed to the table, and the plan would make every later run fail.
        lake.state(table, "replay.json").unlink()
        roll_back(spark, lake.path(table), lake.quarantine(table), trial.run_id)
        raise explained(table, lake, error) from error
    lake.state(table, "replay.json").unlink()
    done = newest_batch(table, lake)
    assert done is not None
    return done


def _batch(prepared: Prepared, table: Table, lake: Lake, trial: ReplayPlan, seconds: float) -> Batch:
    last = newest_batch(table, lake)
    statics = last_static_versions(table, lake)
    batch = batch_of(prepared, table, position(table, lake), statics, trial.run_id, seconds)
    return replace(batch, open_rows=last.open_rows if last else 0)


def _foreseen(trial: ReplayPlan, tried: int, table: Table, lake: Lake, spark: SparkSession) -> Replayed:
    entries = chosen(spark, table, lake, trial)
    if table.row_count_column:
        failed = entries.where(HELD)
        refuse_what_fails(repaired_inputs(failed, table, lake, trial), table, lake, trial)
        return Replayed(table.key, tried, tried, dry_run=True)
    verdict, misfits = verdict_of(entries, table, lake, trial)
    counts = counted(verdict, table)
    still = counts["quarantine"] + misfits.where("status = 'open'").count()
    return Replayed(table.key, tried, counts["good"], counts["duplicate"], counts["drop"], still, "", True)


def _replayed(table: Table, trial: ReplayPlan, tried: int, batch: Batch) -> Replayed:
    gone = batch.written + batch.duplicates + batch.dropped
    # An aggregate takes identical rows together with the chosen one.
    tried = max(tried, gone)
    return Replayed(table.key, tried, batch.written, batch.duplicates, batch.dropped, tried - gone, trial.id)
