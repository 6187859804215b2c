"""``replay`` and ``discard``: quarantined rows taken again, or given up."""

import uuid

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.commit import Transaction
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.writer import sole_writer
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of
from medallion_assets.quarantine.discard import discard as given_up
from medallion_assets.replay.replay import replay as taken_again
from medallion_assets.sources.quarantine import held_rows
from medallion_assets.sources.unrescue import unrescue

RESCUED = "rescued"
"""As a reason: not of quarantined rows, but of rows with fields no column took."""


def replay(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Mends chosen quarantined rows, judges them by today's rules and writes the good ones, once.

    Raises:
        ReplayRefused: The choice or the fix cannot be read; nothing was moved.
    """
    if RESCUED in asked.choice.reasons:
        return _unrescued(table, lake, spark, asked)
    if not held_rows(lake.quarantine(table)):
        return VerbResult(table.key, "nothing stands in its quarantine")
    done = taken_again(table, lake, spark(), asked.choice, asked.fix, asked.run_id, asked.dry_run)
    if not done.tried:
        return VerbResult(table.key, "no open row is as the choice says")
    word = "would be" if asked.dry_run else "were"
    words = f"{done.tried} rows {word} tried: {done.written} written, {done.still_open} stay open"
    words += f", {done.duplicates} stand already" if done.duplicates else ""
    words += f", {done.dropped} dropped by rule" if done.dropped else ""
    shown = ("tried", "written", "still_open", "duplicates", "dropped", "replay_id")
    numbers = {name: getattr(done, name) for name in shown}
    reads = "its quarantine" + ("" if table.source else " and its upstream tables")
    return VerbResult(
        table.key, words, reads, "the table and its quarantine", downstream_of(table), True, numbers
    )


def _unrescued(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Put rescued fields into the columns the table has for them by now."""
    path = lake.path(table)
    if table.source is None or not table.source.rescued or not log.exists(path):
        return VerbResult(table.key, "it has no rescued data")
    run = asked.run_id or uuid.uuid4().hex
    transaction = Transaction(f"{table.key}/unrescue/{run}", 0, {"run_id": run, "table": table.key})
    with sole_writer(table, lake):
        rows = unrescue(spark(), path, table.source.rescued, asked.choice.files, transaction, asked.dry_run)
    word = "would get" if asked.dry_run else "got"
    words = f"{rows} rows {word} rescued fields into their columns"
    return VerbResult(table.key, words, "the table", "the table", downstream_of(table), True, {"rows": rows})


def discard(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Return up chosen quarantined rows: they stay, marked with the reason, and are not tried again.

    Raises:
        ReplayRefused: No reason is given, or the choice cannot be read; nothing was moved.
    """
    if not held_rows(lake.quarantine(table)):
        return VerbResult(table.key, "nothing stands in its quarantine")
    count = given_up(table, lake, spark(), asked.choice, asked.why, asked.dry_run)
    word = "would be" if asked.dry_run else "were"
    words = f"{count} rows {word} given up: {asked.why}"
    return VerbResult(table.key, words, "its quarantine", "its quarantine", (), True, {"discarded": count})
