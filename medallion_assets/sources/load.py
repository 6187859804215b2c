"""A micro-batch of files: each record to the table or its quarantine, each file to the status table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import among
from medallion_assets.sources import file_status
from medallion_assets.sources.batch_records import records_read
from medallion_assets.sources.committed import account_of
from medallion_assets.sources.deduplicate_files import not_loaded
from medallion_assets.sources.ledger import ADMITTED, NONE, Entry
from medallion_assets.sources.load_records import Loaded, load_readable, load_whole
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.malformed import write_malformed
from medallion_assets.sources.options import Source
from medallion_assets.sources.prefetch import drop_ahead, looked_ahead
from medallion_assets.sources.reading import partition_keys
from medallion_assets.sources.replacing import (
    clear_quarantine,
    replaces_files,
    rows_before,
    superseded,
)
from medallion_assets.sources.staging import Staging
from medallion_assets.sources.value_books import QueryColumns, count_in_background

Writer = Callable[[DataFrame, str], Mapping[str, int]]
"""Takes good rows, and SQL true of rows they stand in for (empty for none)."""


def load_files(
    spark: SparkSession,
    files: Sequence[Entry],
    place: LoadTarget,
    transaction: Transaction,
    write: Writer,
    kept: Callable[[], frozenset[str] | None] = lambda: None,
) -> Loaded:
    """Loads the files of a micro-batch and says what became of their records.

    A file whose records stand in the table already (its checkpoint was lost) is left out; one that is
    gone, or is not what discovery counted, is left out too and taken up again when it is found; one whose
    bytes no reader can take is left out until they change.

    Args:
        spark: The session.
        files: The files of the batch.
        place: Where they go.
        transaction: Who writes, and which batch.
        write: Writes good rows; gives counts of its own.
        kept: Returns, after the write, the columns of the records that the table's query passed on as they
            were; None where it has no query.

    Raises:
        BatchRefused: The source's mode stops at what the files bring; nothing was written.
    """
    started, source = datetime.now(timezone.utc), place.source
    parse = replace(transaction, app_id=f"{transaction.app_id}/parse")
    replaces = replaces_files(source, place.state)
    old = superseded(place.ledger, files, replaces)
    untaken = {file: file_status.LATER if file in old else file_status.GONE
               for file in files if file in old or not is_as_counted(file)}  # fmt: skip
    there = [file for file in files if file not in untaken]
    again = [file for file in there if replaces and file.supersedes != NONE]
    # Rows of a file that came again are no sign that it was loaded: they are replaced in any case.
    once = [file for file in there if not replaces or file.supersedes == NONE]
    fresh = not_loaded(spark, once, transaction, place.path, place.quarantine) + again
    before = rows_before(place.ledger, again)
    clear_quarantine(spark, [file.path for file in again], place.quarantine, transaction, parse)
    # Delta wants every row it writes to be one of those it may stand in for: new files' too.
    instead_of = among("_source_file", [file.path for file in fresh]) if again else ""
    values = count_in_background(fresh, source)
    staging = Staging(place.state / "staging", source, partial(looked_ahead, place.state))

    def load(files: list[Entry]) -> Loaded:
        return load_whole(spark, files, place, staging, transaction, lambda rows: write(rows, instead_of))

    loaded, corrupt = load_readable(load, fresh, spark, place, transaction)
    fresh = [file for file in fresh if file.path not in corrupt]
    if loaded.malformed and loaded.growth is not None:
        write_malformed(records_read(spark, fresh, source, loaded.growth, staging), fresh, place, parse)
    staging.discard()
    drop_ahead(place.state)
    untaken |= {file: corrupt[file.path] for file in there if file.path in corrupt}
    writers = (transaction, parse, replace(transaction, app_id=f"{transaction.app_id}/poison"))
    columns = _query_columns(loaded, fresh, source, kept())
    found = account_of(place, fresh, writers, values, columns)
    drops = source.malformed == "DROPMALFORMED"
    file_status.record(place.ledger, fresh, found, transaction, started, untaken, drops)
    now = {file.path: file.records for file in fresh}
    replaced = {path: [count, now.get(path, 0)] for path, count in before.items()}
    return replace(loaded, missing=sum(file.records for file in untaken), replaced=replaced)


def admitted(ledger_rows: DataFrame, root: Path) -> list[Entry]:
    """Return the files of a micro-batch of the ledger that are for loading, in the order they were seen."""
    chosen = ledger_rows.where(F.col("status") == ADMITTED).orderBy("sequence").collect()
    return [Entry(**_utc(row.asDict()), root=str(root)) for row in chosen]


def _utc(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v.astimezone() if isinstance(v, datetime) else v for k, v in row.items()}


def is_as_counted(file: Entry) -> bool:
    """Return true where a file has the size and time that discovery counted it with."""
    try:
        found = file.location.lstat()
    except OSError:
        return False
    return found.st_size == file.size and found.st_mtime_ns // 1000 / 1e6 == file.modified_at.timestamp()


def _query_columns(
    loaded: Loaded, files: Sequence[Entry], source: Source, kept: frozenset[str] | None
) -> QueryColumns:
    """Return what the batch's query did with the columns of its records; a select list computes them all."""
    schema = loaded.growth.schema.names if loaded.growth else []
    folders = partition_keys(files, source)
    passed = frozenset({source.rescued}) if source.select else kept
    return QueryColumns(frozenset(n for n in schema if n not in folders), passed, source.rescued)
