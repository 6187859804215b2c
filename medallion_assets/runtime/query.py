"""A table's streaming query: made, run over what is new, and each of its micro-batches put on record."""

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import batches, log, progress
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import VersionRange, added, as_commits, as_stream, only_appends
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.stream import Trigger, run_streaming_query, transaction_of
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.code_version import code_version
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import (
    begin_anew,
    has_begun,
    idle_at,
    noted_version,
    position,
    starting_version,
    versions_of,
)
from medallion_assets.lake.static_versions import current_static_versions, has_fixed_versions
from medallion_assets.quality.derive import derived
from medallion_assets.quarantine.held_poison import sound_stream
from medallion_assets.runtime.bronze import write_files
from medallion_assets.runtime.failures import explained
from medallion_assets.runtime.flow import write_changes
from medallion_assets.runtime.poison_of_groups import failed_batch, set_aside
from medallion_assets.runtime.stateful import with_states, write_groups
from medallion_assets.runtime.static_changes import begin_to_follow, moved_statics, take_statics
from medallion_assets.session.catalog import name_tables
from medallion_assets.sources.prefetch import look_ahead

ALL_FILES = 1_000_000_000
"""A silver or gold batch takes whole upstream versions, so that its place in the log is a version."""


def taken(table: Table, lake: Lake, spark: SparkSession, run_id: str, trigger: Trigger) -> list[Batch]:
    """Take what is new upstream through the table's query; gives what each micro-batch did.

    Raises:
        ExpectationFailed: A row broke an expectation that says ``fail``.
        RefreshFailed: A micro-batch could not be written; it was not committed.
    """
    newest, stood = log.version(lake.upstream_log(table)), log.exists(lake.path(table))
    begin_to_follow(table, lake)
    try:
        if table.stateful and _was_corrected(table, lake, newest):
            begin_anew(table, lake)
        # Delta refuses a stream that begins with a version that is not there yet.
        there = noted_version(table, lake) < (newest or 0)
        done = _drained(table, lake, spark, run_id, trigger) if there else []
        if done:
            has_begun(table, lake)
        done += _follow_statics(table, lake, spark, run_id)
    except Exception as error:
        raise explained(table, lake, error) from error
    if done and not stood:
        name_tables(spark, lake.root)
    if not done and newest is not None:
        idle_at(table, lake, newest)
    return done


def _drained(table: Table, lake: Lake, spark: SparkSession, run_id: str, trigger: Trigger) -> list[Batch]:
    """Run the streaming query over what is new; gives its micro-batches, each on record."""
    done: list[Batch] = []
    checkpoint, code, feed = lake.state(table, "checkpoint"), code_version(table), not table.source

    def stamped(number: int) -> Transaction:
        transaction = transaction_of(
            table.key, lake.path(table), checkpoint, number, run_id, feed, table.flow
        )
        return replace(transaction, commit_metadata={**transaction.commit_metadata, "code": code})

    def write(rows: DataFrame, number: int) -> None:
        transaction = stamped(number)
        # What stands goes first, so that new rows meet the version it stands as. A batch that died may
        # have written already: it is ended with the versions it met.
        if not has_fixed_versions(table, lake, str(transaction.commit_metadata["query"]), number):
            done.extend(_follow_statics(table, lake, spark, run_id))
        done.append(_recorded(_write(rows, table, lake, transaction), table, lake, transaction))

    closes = table.watermarked and table.output_mode == "append"
    while True:
        rows = _rows(table, lake, spark)
        try:
            states = run_streaming_query(
                rows, write, checkpoint, table.key, _spark_mode(table), trigger, closes
            )
            return with_states(done, states, table, lake, rows)
        except Exception as error:
            number = failed_batch(table, lake) if table.stateful else None
            if number is None or not set_aside(table, lake, spark, error, stamped(number)):
                raise


def _spark_mode(table: Table) -> str:
    return table.output_mode if table.stateful else "append"


def _was_corrected(table: Table, lake: Lake, newest: int | None) -> bool:
    """Return true where upstream took rows back, which a query's state cannot."""
    versions = VersionRange(position(table, lake).version, newest or 0)
    return not only_appends(lake.upstream_log(table), versions)


def _follow_statics(table: Table, lake: Lake, spark: SparkSession, run_id: str) -> list[Batch]:
    """Take what changed in static inputs that are retried or followed."""
    if not any(moved_statics(table, lake)):
        return []
    query = progress.query_id(lake.state(table, "checkpoint"))
    last = log.last_commit_metadata(lake.path(table), "generation", table.flow)
    note = {"run_id": run_id, "table": table.key, "query": query, "generation": int(last or 0)}
    found = []
    for batch in take_statics(table, lake, spark, note):
        transaction = Transaction(
            f"{table.key}/static/{query}", batch.number, note | {"query": f"static-{query}"}
        )
        found.append(_recorded(batch, table, lake, transaction))
    return found


def _rows(table: Table, lake: Lake, spark: SparkSession) -> DataFrame:
    upstream = lake.upstream_log(table)
    if table.source:
        look_ahead(load_target_of(table, lake), lake.state(table, "checkpoint"))
        # One ledger commit is one micro-batch: discovery has cut them to size.
        return as_commits(spark, upstream)
    rows = as_stream(spark, upstream, starting_version(table, lake), ALL_FILES)
    if not table.stateful:
        return rows
    sane = sound_stream(added(rows), spark, lake.quarantine(table))
    return derived(_watermarked(sane, table), table, lake, current_static_versions(table, lake))


def _watermarked(rows: DataFrame, table: Table) -> DataFrame:
    for _, read in table.reads:
        if read.watermark:
            rows = rows.withWatermark(read.event_time, read.watermark)
    return rows


def _write(rows: DataFrame, table: Table, lake: Lake, transaction: Transaction) -> Batch:
    if table.source:
        return write_files(rows, table, lake, transaction)
    if table.stateful:
        return write_groups(rows, table, lake, transaction)
    return write_changes(rows, table, lake, versions_of(table, lake, transaction.batch_id), transaction)


def _recorded(batch: Batch, table: Table, lake: Lake, transaction: Transaction) -> Batch:
    return batches.counted_in(lake.state(table, "batches"), str(transaction.commit_metadata["query"]), batch)
