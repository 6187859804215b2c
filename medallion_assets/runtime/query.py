"""Run a table's streaming query over new upstream rows; each micro-batch is one commit."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame

from medallion_assets.declare.errors import GateClosed
from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.batches import Batch, write_json
from medallion_assets.delta.changes import (
    VersionRange,
    added,
    as_commits,
    as_stream,
    changed,
    cut_to_size,
    only_appends,
)
from medallion_assets.delta.checksum import write_checksums
from medallion_assets.delta.commit import Transaction, with_metadata
from medallion_assets.delta.position import app_id
from medallion_assets.delta.rollback import roll_back
from medallion_assets.delta.stream import Query, State, Trigger, run_streaming_query
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import (
    FULL_REFRESH,
    STATE,
    at_version,
    checkpoint_agrees,
    current_static_versions,
    epoch,
    position,
    transaction,
)
from medallion_assets.quality.derive import derived
from medallion_assets.quarantine.poison import sound_stream
from medallion_assets.runtime.bronze import write_files
from medallion_assets.runtime.failures import explained
from medallion_assets.runtime.flow import whole_upstream, write_changes
from medallion_assets.runtime.query_checks import refuse_unsound_query
from medallion_assets.runtime.stateful import failed_batch, read_through, set_aside, with_states, write_groups
from medallion_assets.runtime.static_changes import is_behind, take_statics
from medallion_assets.runtime.write import Context
from medallion_assets.session.catalog import name_tables
from medallion_assets.sources.load_records import look_ahead

CLOSING = 1000
"""An upper bound for the micro-batches that only close windows after one upstream version."""


def take_new_rows(context: Context, trigger: Trigger) -> list[Batch]:
    """Run the table's query over new upstream rows; return each micro-batch.

    Raises:
        ExpectationFailed: A row broke an expectation that says ``fail``.
        RefreshFailed: A micro-batch could not be written; it was not committed.
    """
    table, lake, spark = context.table, context.lake, context.spark
    newest, there = log.version(lake.upstream_log(table)), log.exists(lake.path(table))
    try:
        roll_back(spark, lake.path(table), lake.quarantine(table), context.run_id)
        done = []
        if newest is not None and is_behind(table, lake, newest):
            if table.streams_from:
                refuse_unsound_query(at_version(spark, lake.upstream_log(table), newest), table, lake)
            rebuild = _must_rebuild(table, lake, newest)
            done = StreamRun(context, epoch(table, lake) + rebuild, rebuild).run(trigger)
        done += take_statics(context)
    except Exception as error:
        raise explained(table, lake, error) from error
    if done and not there:
        name_tables(spark, lake.root)
    return done


def take_all_rows(context: Context) -> list[Batch]:
    """Rewrite the table from all of upstream in one commit, which begins an epoch.

    Raises:
        GateClosed: A blocking check failed; the table is unchanged.
        RefreshFailed: The rows could not be written; the table is unchanged.
    """
    path, quarantine = context.lake.path(context.table), context.lake.quarantine(context.table)
    roll_back(context.spark, path, quarantine, context.run_id)
    return rewrite(context, {FULL_REFRESH: True})


def rewrite(context: Context, metadata: Mapping[str, Any] = MappingProxyType({})) -> list[Batch]:
    """Rewrite like ``take_all_rows``, without a rollback first; add ``metadata`` to the commit's metadata."""
    table, lake = context.table, context.lake
    newest = log.version(lake.upstream_log(table))
    if newest is None:
        return []
    try:
        in_epoch = epoch(table, lake) + 1
        if table.streams_from:
            refuse_unsound_query(at_version(context.spark, lake.upstream_log(table), newest), table, lake)
        if table.stateful:
            return StreamRun(context, in_epoch, True, metadata).run("availableNow")
        signed = with_metadata(transaction(table, lake, newest, context.run_id, in_epoch), metadata)
        rows = whole_upstream(context, newest)
        return [write_changes(rows, table, lake, VersionRange(-1, newest), signed)]
    except Exception as error:
        raise explained(table, lake, error) from error


def _must_rebuild(table: Table, lake: Lake, newest: int) -> bool:
    """Return true where a query's state must be rebuilt: it was lost, or upstream rows were removed."""
    at = position(table, lake)
    if not table.stateful or at < 0:
        return False
    grows = only_appends(lake.upstream_log(table), VersionRange(at, newest))
    return not grows or not checkpoint_agrees(table, lake)


@dataclass(frozen=True)
class StreamRun:
    """One run of a table's streaming query over new upstream rows; each micro-batch is one commit.

    Attributes:
        context: The table, its lake, the session and who asked.
        epoch: The epoch its commits belong to.
        rebuild: True to read all of upstream and replace the table's rows.
        metadata: Added to the metadata of the first commit of a rebuild.
        done: The numbers of each micro-batch, by its id.
        others: Batches of changed static inputs in between.
    """

    context: Context
    epoch: int
    rebuild: bool
    metadata: Mapping[str, Any] = field(default_factory=dict)
    done: dict[int, Batch] = field(default_factory=dict)
    others: list[Batch] = field(default_factory=list)

    @property
    def checkpoint(self) -> Path:
        """The query's checkpoint."""
        return self.context.lake.state(self.context.table, "checkpoint")

    def position(self) -> int:
        """Return the upstream version the table is at in this run's epoch, -1 before its first commit."""
        table, lake = self.context.table, self.context.lake
        return position(table, lake) if epoch(table, lake) == self.epoch else -1

    def signed(self, version: int, app: str = "") -> Transaction:
        """Return the transaction that brings the table to an upstream version."""
        return transaction(
            self.context.table, self.context.lake, version, self.context.run_id, self.epoch, app
        )

    def run(self, trigger: Trigger) -> list[Batch]:
        """Run the query to its end, and return its micro-batches."""
        table, lake = self.context.table, self.context.lake
        with _own_checkpoint(table, lake, self.rebuild, self.epoch):
            states = self._states(trigger)
        batches = with_states(self.done, states)
        if table.stateful and batches:
            last = batches[-1]
            write_json(lake.state(table, STATE), {
                "position": last.position, "watermark": last.watermark, "open_groups": last.open_groups,
                "state_bytes": last.state_bytes,
            })  # fmt: skip
        return [*self.others, *batches]

    def _states(self, trigger: Trigger) -> dict[int, State]:
        """Run the query, again where rows it fails on could be put into quarantine."""
        table, lake = self.context.table, self.context.lake
        closes = table.watermarked and table.output_mode == "append"
        mode = table.output_mode if table.stateful else "append"
        query = Query(self.checkpoint, table.key, mode, trigger, closes)
        while True:
            rows = _rows(self.context, -1 if self.rebuild else position(table, lake))
            try:
                return run_streaming_query(rows, partial(self._write, trigger), query)
            except GateClosed:
                # Mended upstream, the batch is another one.
                progress.unplan(self.checkpoint)
                raise
            except Exception as error:
                number = failed_batch(table, lake) if table.stateful else None
                if number is None:
                    raise
                upto = progress.offset_of(self.checkpoint, number)
                versions = VersionRange(self.position(), upto)
                if not set_aside(self.context, error, versions, self.signed(upto)):
                    raise

    def _write(self, trigger: Trigger, rows: DataFrame, number: int) -> None:
        """Commit a micro-batch, unless the table has it already."""
        table, lake = self.context.table, self.context.lake
        upto = progress.offset_of(self.checkpoint, number)
        repeats = _closing(self.checkpoint, number) if table.stateful else 0
        app = f"{app_id(table.key, self.epoch, table.flow)}/closing" if repeats else ""
        version = upto * CLOSING + repeats if repeats else upto
        signed = self.signed(version, app)
        if signed.committed_to(lake.path(table)) or (not repeats and upto <= self.position()):
            if table.stateful:
                read_through(rows)
            return
        versions = VersionRange(upto if repeats else self.position(), upto)
        if table.source:
            self.done[number] = write_files(rows, table, lake, versions, signed)
        elif table.stateful:
            signed = with_metadata(signed, self.metadata) if number == 0 else signed
            self.done[number] = write_groups(rows, table, lake, versions, number, signed)
        else:
            self._write_in_parts(rows, versions, number, trigger)

    def _write_in_parts(self, rows: DataFrame, versions: VersionRange, number: int, trigger: Trigger) -> None:
        """Commit a micro-batch of a query without state, a large one as several batches of whole commits.

        Each moves the table's position. A run that dies in between leaves a checkpoint that does not agree
        with the position, and the next begins where the last part ended.
        """
        table, lake = self.context.table, self.context.lake
        upstream = lake.upstream_log(table)
        most = lake.settings.max_bytes_per_trigger
        parts = [versions] if trigger == "once" else list(cut_to_size(upstream, versions, most))
        for part in parts:
            # What is there goes first, so that new rows meet the version it was joined with.
            self.others.extend(take_statics(self.context))
            some = rows if part == versions else changed(self.context.spark, upstream, part)
            batch = write_changes(some, table, lake, part, self.signed(part.upto))
            if part.upto == versions.upto:
                self.done[number] = batch
            else:
                self.others.append(batch)


@contextmanager
def _own_checkpoint(table: Table, lake: Lake, rebuild: bool, in_epoch: int) -> Iterator[None]:
    """Start the stream with a new checkpoint where the old one cannot be used.

    A rebuild that does not reach its first commit leaves the old one as it was, on a local disk.
    """
    checkpoint = lake.state(table, "checkpoint")
    if not rebuild:
        if not checkpoint_agrees(table, lake):
            progress.forget(checkpoint)
        yield
        return
    kept = progress.put_aside(checkpoint)
    try:
        yield
    except BaseException:
        if epoch(table, lake) < in_epoch:
            progress.put_back(kept, checkpoint)
        raise
    progress.forget(kept)


def _closing(checkpoint: Path, number: int) -> int:
    """Return how many micro-batches before this one ended at the same upstream version.

    Such a batch has no new rows; it gives the windows that the one before it closed.
    """
    upto, count = progress.offset_of(checkpoint, number), 0
    while count < number and progress.offset_of(checkpoint, number - count - 1) == upto:
        count += 1
    return count


def _rows(context: Context, after: int) -> DataFrame:
    table, lake, spark = context.table, context.lake, context.spark
    upstream, checkpoint = lake.upstream_log(table), lake.state(table, "checkpoint")
    if table.source:
        look_ahead(load_target_of(table, lake), after)
        write_checksums(upstream)
        # One ledger commit is one micro-batch: discovery has cut them to size.
        return as_commits(spark, upstream, after, checkpoint)
    # A query with state began with all of upstream, and may have to repeat its first micro-batch.
    starts_after = -1 if table.stateful else after
    rows = as_stream(spark, upstream, starts_after, checkpoint)
    if not table.stateful:
        return rows
    fit = sound_stream(added(rows), spark, lake.quarantine(table))
    return derived(_watermarked(fit, table), table, lake, current_static_versions(table, lake))


def _watermarked(rows: DataFrame, table: Table) -> DataFrame:
    for _, read in table.reads:
        if read.watermark:
            rows = rows.withWatermark(read.event_time, read.watermark)
    return rows
