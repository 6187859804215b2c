"""The shared part of the notebook loaders: discover files, stream them from the ledger, report the result."""

import time
import uuid
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.delta import log, progress
from medallion_assets.delta.batches import LANDING, UPSTREAM, Batch, committed_after, stamp
from medallion_assets.delta.changes import as_commits
from medallion_assets.delta.comments import commented, comments_of
from medallion_assets.delta.commit import Transaction, append, commit_nothing, with_metadata
from medallion_assets.delta.errors import DamagedCheckpoint
from medallion_assets.delta.events import LOAD, Work, append_event
from medallion_assets.delta.position import app_id, epoch_of
from medallion_assets.delta.progress import refuse_damaged
from medallion_assets.delta.rollback import check_format, roll_back, unfinished, version_before
from medallion_assets.delta.stream import Query, run_streaming_query
from medallion_assets.session import start_session
from medallion_assets.session.catalog import name_tables
from medallion_assets.settings import Settings
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources.cleaning import READERS, Reader, clean_source, register
from medallion_assets.sources.discovery import DiscoveryOptions, discover
from medallion_assets.sources.errors import TableLost
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.listing import listing
from medallion_assets.sources.load import (
    catch_up,
    explain_type_conflicts,
    files_of,
    load_files,
    refuse_new_columns,
)
from medallion_assets.sources.load_records import Loaded, look_ahead
from medallion_assets.sources.load_result import LoadResult, result_of, rows_of_load
from medallion_assets.sources.load_target import (
    LOADED_FROM,
    LoadTarget,
    has_new_ledger,
    landing_of,
    ledger_position,
    refuse_other_writers,
    remember,
)
from medallion_assets.sources.loaded_before import loaded_before
from medallion_assets.storage import storage_of
from medallion_assets.storage.lease import held, open_to_writers


def refuse_unsound(place: LoadTarget, checkpoint: Path) -> None:
    """Raise where a load would bring less than all that is new, and says what mends it.

    Raises:
        TableLost: The table is gone, and files are on record as loaded into it.
        DamagedCheckpoint: A file of the stream's checkpoint is empty, cut off or altered.
    """
    if not log.exists(place.path) and outcomes.any_loaded(place.ledger):
        raise TableLost(place.key, place.path, place.state, place.quarantine)
    try:
        refuse_damaged(checkpoint)
    except DamagedCheckpoint as error:
        raise DamagedCheckpoint(
            f"{place.key}: {error}. Nothing was read or written: remove {checkpoint} and load again; nothing "
            "is lost or doubled by that."
        ) from error


def load_new(
    place: LoadTarget,
    lease: Path,
    spark: SparkSession | None,
    settings: Settings,
    look: DiscoveryOptions | None = None,
) -> LoadResult:
    """Load the new files of a source, each once, through a stream over its ledger.

    Without new files, no JVM is started and no table changes.

    Raises:
        SourceError: The table is filled by a declared table's runs, or from another landing place.
        TableLost: The table is gone, and files are on record as loaded into it.
        DamagedCheckpoint: A file of the stream's checkpoint is empty, cut off or altered.
    """
    run_id, started = uuid.uuid4().hex, time.monotonic()
    look = look or DiscoveryOptions(settings.settle_seconds, must_exist=True)
    try:
        batches = _load_new(place, lease, spark, settings, look, run_id)
    except Exception as error:
        failed = Work(run_id, (), time.monotonic() - started, error=error)
        append_event(settings.lake, place.key, place.path, failed)
        raise
    if batches:
        done = Work(run_id, batches, time.monotonic() - started, kind=LOAD)
        append_event(settings.lake, place.key, place.path, done)
    return result_of(place, run_id)


def _load_new(
    place: LoadTarget,
    lease: Path,
    spark: SparkSession | None,
    settings: Settings,
    look: DiscoveryOptions,
    run_id: str,
) -> list[Batch]:
    """Load what is new under the table's lease, and return the micro-batches."""
    checkpoint = place.state / "stream"
    check_format(settings.lake)
    with open_to_writers(settings.lake), held(lease, place.key):
        refuse_other_writers(place, settings.lake)
        before = log.version(place.path)
        register(Reader.of(place.source, place.landing, place.ledger), lease.parent / READERS)
        remember(place, lease.with_name(LOADED_FROM))
        progress.finish_forgetting(checkpoint)
        refuse_unsound(place, checkpoint)
        catch_up(place)
        chosen = chosen_paths(place, look) if _is_behind(place, checkpoint) else None
        # A file that was mended after a failed batch is known to have changed only once it is read again.
        for _ in range(2):
            discover(place.landing, place.ledger, place.source, look)
            if _is_behind(place, checkpoint):
                session = spark or start_session(settings)
                _stream(session, place, checkpoint, run_id, chosen, look.again)
                if session is not spark:
                    # The table may be new, and its name is what one asks for next.
                    name_tables(session, settings.lake)
            if not any(row["status"] == outcomes.MISSING for row in rows_of_load(run_id, place.ledger)):
                break
        clean_source(place, settings.lake)
        return committed_after(place.path, before)


def _is_behind(place: LoadTarget, checkpoint: Path) -> bool:
    newest, at = log.version(place.ledger), ledger_position(place)
    if newest is None or (newest == 0 and not log.row_count(place.ledger)):
        # The first look saw nothing, and said so.
        return False
    if not log.exists(place.path):
        # Without a table nothing is committed; what the checkpoint took were files that gave no row.
        at = progress.committed_position(checkpoint)
    return at < newest or unfinished(place.path, place.quarantine) is not None


def chosen_paths(place: LoadTarget, look: DiscoveryOptions) -> set[str]:
    """Return the paths of all files this call asks for, loaded before or not."""
    return {file.path for file in listing(place.landing, place.root, place.source, {}, look.only).new}


def _without_unchosen(
    files: list[Entry], chosen: set[str] | None, place: LoadTarget, transaction: Transaction
) -> list[Entry]:
    """Return a batch without the files of an earlier, failed call that this call does not choose.

    One that such a call left out before it died is in the ledger again, or was loaded.
    """
    files = outcomes.undecided(place.ledger, files)
    if chosen is None:
        return files
    there = [file for file in files if storage_of(file.address).stat(file.address)]
    left = [file for file in there if file.path not in chosen]
    outcomes.postpone(place.ledger, left, transaction)
    postponed = set(left)
    return [file for file in files if file not in postponed]


def _stream(
    spark: SparkSession,
    place: LoadTarget,
    checkpoint: Path,
    run_id: str,
    chosen: set[str] | None,
    again: bool,
) -> None:
    # Otherwise a crash while writing offsets/0 blocks the stream for good. A notebook's session lacks this.
    spark.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
    roll_back(spark, place.path, place.quarantine, run_id)
    position = ledger_position(place)
    listed_again = log.version(place.ledger) if has_new_ledger(place) else None
    if not progress.goes_on(checkpoint, position):
        progress.forget(checkpoint)

    def write(rows: DataFrame, number: int) -> None:
        after, version = ledger_position(place), progress.offset_of(checkpoint, number)
        if version <= after:
            return
        epoch, ledger = epoch_of(place.path, place.key) + has_new_ledger(place), log.table_id(place.ledger)
        metadata = {"run_id": run_id, "table": place.key, "epoch": epoch, UPSTREAM: ledger}
        metadata[LANDING] = landing_of(place)
        before = version_before(place.path, place.quarantine, run_id)
        transaction = Transaction(app_id(place.key, epoch), version, metadata, before)
        # Files that this call discovered have later sequences and are among the chosen ones.
        files = _without_unchosen(files_of(rows, place, after, version), chosen, place, transaction)
        session = rows.sparkSession
        if epoch and not again:
            is_new_listing = listed_again is not None and version <= listed_again
            known, files = loaded_before(session, files, place, transaction, is_new_listing)
            outcomes.know(place.ledger, known)
        load_files(session, files, place, transaction, partial(_commit, session, place, transaction))

    look_ahead(place, position)
    rows = as_commits(spark, place.ledger, position, checkpoint)
    run_streaming_query(rows, write, Query(checkpoint, place.key))


def _commit(
    spark: SparkSession,
    place: LoadTarget,
    transaction: Transaction,
    rows: DataFrame | None,
    loaded: Loaded,
    replace_where: str,
) -> dict[str, int]:
    if rows is not None:
        refuse_new_columns(rows, place)
        rows = commented(rows, place.path, comments_of(place.source.schema))
    good = rows.count() if rows is not None else 0
    refused = loaded.malformed if place.source.malformed == "QUARANTINE" else 0
    batch = Batch(
        position=transaction.version,
        read=good + loaded.malformed,
        written=good,
        quarantined=refused,
        dropped=loaded.malformed - refused if place.source.malformed == "DROPMALFORMED" else 0,
        files=loaded.files,
        rescued=loaded.rescued,
        missing=loaded.missing,
        replaced=loaded.replaced,
        untaken=loaded.untaken,
        columns=list(loaded.columns),
        run_id=transaction.run_id,
    )
    stamped = stamp(with_metadata(transaction, loaded.facts), place.path, "", batch)
    if rows is None:
        commit_nothing(spark, place.path, stamped)
    else:
        with explain_type_conflicts(rows, place):
            append(rows, place.path, stamped, replace_where=replace_where)
    return {}
