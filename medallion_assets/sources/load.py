"""A micro-batch of files: each record to the table or its quarantine, each file to the status table.

A Parquet file whose footer is whole and whose pages are not fails its micro-batch at every retry, and
every file beside it would wait with it for ever.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial, reduce
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.delta.batches import batches_between, newest_flows
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import among, quoted
from medallion_assets.delta.position import app_id, epoch_of, position_of
from medallion_assets.session.cluster import is_cluster, not_shared, require_shared
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources.committed import account_of, is_as_counted
from medallion_assets.sources.errors import NewColumns, TypesDiffer, UnreadableFile, cause_of, some_of
from medallion_assets.sources.evolution import OURS
from medallion_assets.sources.fetched import at_hand, fetched_in, forget_fetched
from medallion_assets.sources.formats.text_files import refuse_unseen
from medallion_assets.sources.known_files import clear_quarantine, replaces_files, rows_before, superseded
from medallion_assets.sources.ledger import ADMITTED, NONE, Entry, admitted_between
from medallion_assets.sources.load_records import (
    Loaded,
    drop_ahead,
    load_whole,
    looked_ahead,
    records_with_schema,
    with_temporary_state,
)
from medallion_assets.sources.load_target import LoadTarget, has_new_ledger
from medallion_assets.sources.options import Source
from medallion_assets.sources.schema_versions import restore
from medallion_assets.sources.schemas import hint_of
from medallion_assets.sources.select_list import split_columns
from medallion_assets.sources.staging import staging_of
from medallion_assets.sources.value_books import QueryColumns
from medallion_assets.sources.value_counts import count_in_background

OF_A_FILE = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "ParquetDecodingException", "MalformedInputException")
"""Words in Spark's errors about the bytes of a file."""


NOT_THERE = ("FILE_NOT_EXIST", "FileNotFoundException", "does not exist", "No such file")
"""Words in errors about a file that is gone, or that an executor alone does not see."""


def is_of_a_file(error: BaseException) -> bool:
    """Return true where reading a file failed."""
    return isinstance(error, UnreadableFile) or any(word in str(error) for word in OF_A_FILE)


def unreadable(
    spark: SparkSession, files: Sequence[Entry], place: LoadTarget, transaction: Transaction
) -> dict[str, str]:
    """Return the unreadable files, by path, each with its reader's error."""
    with with_temporary_state(place, is_cluster(spark)) as temporary:
        return dict(_found(spark, files, temporary, transaction))


def _found(
    spark: SparkSession, files: Sequence[Entry], place: LoadTarget, transaction: Transaction
) -> Iterator[tuple[str, str]]:
    why = _failure(spark, files, place, transaction)
    if why and len(files) == 1:
        if any(word in why for word in NOT_THERE) and is_cluster(spark):
            refuse_unseen(files)
        yield files[0].path, why
    elif why:
        middle = len(files) // 2
        yield from _found(spark, files[:middle], place, transaction)
        yield from _found(spark, files[middle:], place, transaction)


def _failure(spark: SparkSession, files: Sequence[Entry], place: LoadTarget, transaction: Transaction) -> str:
    staging = staging_of(spark, place)
    try:
        _, records = records_with_schema(spark, files, place, staging, transaction)
        records.write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not is_of_a_file(error):
            raise
        return str(error)[:500] if isinstance(error, UnreadableFile) else cause_of(error)
    finally:
        staging.discard()
    return ""


Writer = Callable[[DataFrame | None, Loaded, str], Mapping[str, int]]
"""Commit a batch's good rows (None for a batch without files) with the batch's numbers. The third argument is
a predicate on the rows they replace (empty for none). Return further counts."""


def load_files(
    spark: SparkSession,
    files: Sequence[Entry],
    place: LoadTarget,
    transaction: Transaction,
    write: Writer,
    kept: Callable[[], frozenset[str] | None] = lambda: None,
) -> Loaded:
    """Load the files of a micro-batch and return the batch's numbers.

    A file that is missing or changed since discovery is left out and loaded when it is discovered again. An
    unreadable file is left out until it changes.

    Args:
        spark: The session.
        files: The files of the batch.
        place: The load target.
        transaction: The batch's transaction.
        write: Commits good rows.
        kept: Returns, after the write, the columns of the records that the table's query returned
            unchanged; None where it has no query.

    Raises:
        BatchRefused: The source's mode does not allow the files' columns or records; nothing was written.
        ExecutorsUnfit: An executor does not see the landing zone or the lake; nothing was written.
    """
    started, source = datetime.now(timezone.utc), place.source
    require_shared(spark, place.state)
    replaces, files = replaces_files(source, place.path), at_hand(files, fetched_in(place.state))
    missing = _untaken(place, files, replaces)
    there = [file for file in files if file not in missing]
    again = [file for file in there if replaces and file.supersedes != NONE]
    before = rows_before(place.ledger, again)
    clear_quarantine(spark, [file.path for file in again], place.quarantine, transaction)
    # Delta wants every row it writes to match what it replaces: new files' too.
    predicate = among("_source_file", [file.path for file in there]) if again else ""
    values = count_in_background(there, source, spark)
    staging = staging_of(spark, place, partial(looked_ahead, place.state))

    def load(untaken: dict[Entry, str]) -> Loaded:
        taken = [file for file in there if file not in untaken]
        now = {file.path: file.records for file in taken}
        known = Loaded(
            missing=sum(file.records for file in untaken),
            replaced={path: [count, now.get(path, 0)] for path, count in before.items()},
            untaken={str(file.sequence): why for file, why in untaken.items()},
        )
        loaded = load_whole(
            spark, taken, known, place, staging, transaction, partial(_with, write, predicate)
        )
        account = account_of(
            place, taken, transaction, values, _query_columns(source, loaded.columns, kept())
        )
        outcomes.record(place.ledger, taken, account, transaction, started, untaken)
        return loaded

    try:
        return load(missing)
    except Exception as error:
        if unshared := not_shared(error):
            raise unshared from error
        corrupt = unreadable(spark, there, place, transaction) if is_of_a_file(error) else {}
        if not corrupt:
            raise
        return load(missing | {file: corrupt[file.path] for file in there if file.path in corrupt})
    finally:
        staging.discard()
        forget_fetched(place.state)
        drop_ahead(place.state)


def _with(write: Writer, predicate: str, rows: DataFrame | None, loaded: Loaded) -> Mapping[str, int]:
    return write(rows, loaded, predicate)


def _untaken(place: LoadTarget, files: Sequence[Entry], replaces: bool) -> dict[Entry, str]:
    """Return the files of a batch that later contents replace, or that are not as discovery counted them."""
    old = superseded(place.ledger, files, replaces)
    return {file: outcomes.LATER if file in old else outcomes.GONE
            for file in files if file in old or not is_as_counted(file)}  # fmt: skip


def files_of(ledger_rows: DataFrame, place: LoadTarget, after: int, upto: int) -> list[Entry]:
    """Return the files that the ledger admitted after a position, up to a micro-batch's.

    Read from the ledger's commits themselves: where batches before this one left no table, because none of
    their files could be read, they are part of it. ``ledger_rows`` are used where the log no longer has
    these commits.
    """
    whole = all(log.actions(place.ledger, version) is not None for version in range(after + 1, upto + 1))
    if whole:
        return admitted_between(place.ledger, place.root, after, upto)
    chosen = ledger_rows.where(F.col("status") == ADMITTED).orderBy("sequence").collect()
    return [Entry(**_utc(row.asDict()), root=place.root) for row in chosen]


def _utc(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v.astimezone() if isinstance(v, datetime) else v for k, v in row.items()}


def catch_up(place: LoadTarget) -> None:
    """Update the status table and the schema versions from the table's commits; needs no JVM.

    Records the files of a batch that crashed before the status table's commit, and writes a lost schema
    version again.
    """
    restore(place.state / "schemas", newest_flows(place.path).get("", {}).get("schema", {}))
    if has_new_ledger(place):
        return
    app = app_id(place.key, epoch_of(place.path, place.key))
    recorded = outcomes.recorded_upto(place.ledger, app)
    if position_of(place.path, place.key) <= recorded:
        return
    after = recorded
    for batch in reversed(list(batches_between(place.path, "", recorded))):
        files = admitted_between(place.ledger, place.root, after, batch.position)
        # Files that the batch left out on purpose have a status row already.
        files = at_hand(outcomes.undecided(place.ledger, files), fetched_in(place.state))
        after = batch.position
        untaken = {f: batch.untaken[str(f.sequence)] for f in files if str(f.sequence) in batch.untaken}
        taken = [file for file in files if file not in untaken]
        transaction = Transaction(app, batch.position, {"run_id": batch.run_id, "table": place.key})
        kept = None if batch.kept is None else frozenset(batch.kept)
        query, values = (
            _query_columns(place.source, batch.columns, kept),
            count_in_background(taken, place.source),
        )
        account = account_of(place, taken, transaction, values, query)
        outcomes.record(place.ledger, taken, account, transaction, datetime.now(timezone.utc), untaken)
        forget_fetched(place.state)


def _query_columns(source: Source, columns: Sequence[str], kept: frozenset[str] | None) -> QueryColumns:
    """Return how a batch's query used the columns of its records; a select list computes all of them."""
    passed = frozenset({source.rescued}) if source.select else kept
    return QueryColumns(frozenset(columns), passed, source.rescued)


def refuse_new_columns(rows: DataFrame, place: LoadTarget) -> None:
    """Raise where rows have columns that the table lacks, in the mode ``failOnNewColumns``.

    Raises:
        NewColumns: There are new columns; nothing was written.
    """
    if place.source.evolution != "failOnNewColumns" or not log.exists(place.path):
        return
    there = {name.lower() for name, _ in log.schema(place.path)}
    new = {f.name: f.dataType.simpleString() for f in rows.schema.fields if f.name.lower() not in there}
    added = {name: kind for name, kind in new.items() if not OURS.fullmatch(name)}
    if added:
        raise NewColumns(place.source.name, added, files_with(rows, added))


def files_with(rows: DataFrame, columns: Collection[str]) -> list[str]:
    """Return the landing files whose rows have a value in one of the columns; if none has, all files."""
    file = "_source_file"
    filled = reduce(Column.__or__, (F.col(quoted(name)).isNotNull() for name in columns), F.lit(False))
    found = rows.where(filled).select(file).distinct().collect() or rows.select(file).distinct().collect()
    return [row[file] for row in found]


@contextmanager
def explain_type_conflicts(rows: DataFrame, place: LoadTarget) -> Iterator[None]:
    """Context manager for the write of rows: explain which columns have other types than the table's.

    Raises:
        TypesDiffer: A column has another type; nothing was written.
    """
    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != "DELTA_FAILED_TO_MERGE_FIELDS":
            raise
        there = {f.name.lower(): f.dataType.simpleString() for f in log.spark_schema(place.path).fields}
        now = {f.name: f.dataType.simpleString() for f in rows.schema.fields}
        differ = {n: (kind, _said_by(n, place.source), there[n.lower()])
                  for n, kind in now.items() if there.get(n.lower(), kind) != kind}  # fmt: skip
        files = some_of(files_with(rows, differ))
        raise TypesDiffer(place.key, differ, files, bool(place.source.select)) from error


def _said_by(column: str, source: Source) -> str:
    """Return what gives a column of a load its type."""
    hinted = {hint_of(hint)[0][0] for hint in split_columns(source.schema_hints)}
    declared = "schema" if column in source.declared_columns() else "its files or the query"
    return "the SELECT" if source.select else "schema_hints" if column in hinted else declared
