"""Write a few rows of a local frame with ``deltalake``: no Spark job, no plan.

Spark takes two jobs and most of a second for any commit, however few its rows. This commit has the same
rows, transaction, metadata and statistics. A second writer of the same transaction fails.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from deltalake import Transaction as DeltaTransaction
from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampNTZType, VariantType

from medallion_assets.delta import log
from medallion_assets.delta.checksum import write_checksums
from medallion_assets.session.frames import arrow_of, is_local
from medallion_assets.storage import ObjectPath
from medallion_assets.storage.lease import check_held

if TYPE_CHECKING:
    from medallion_assets.delta.commit import Transaction

Mode = Literal["append", "overwrite"]

PLAIN = {"changeDataFeed", "invariants", "appendOnly"}
"""Table features that an appending writer need not support."""

KNOWN_PROPERTIES = {"delta.enableChangeDataFeed"}


def write_few(rows: DataFrame, path: Path, transaction: "Transaction", mode: Mode) -> bool:
    """Append the rows of a local frame, or overwrite the table with them.

    Returns:
        False where the frame is not local, the table does not exist, or it needs more than a plain append.
    """
    if not log.exists(path) or not is_local(rows) or not _is_plain(path, rows.schema):
        return False
    if transaction.committed_to(path):
        return True
    txn = [DeltaTransaction(transaction.app_id, transaction.version)] if transaction.app_id else None
    metadata = {"userMetadata": json.dumps(transaction.commit_metadata)}
    properties = CommitProperties(custom_metadata=metadata, app_transactions=txn, max_commit_retries=0)
    try:
        _save_few(rows, path, mode, properties, transaction)
    except (CommitFailedError, SchemaMismatchError):
        # Nothing was committed; Spark's own writer says what is wrong, where something is.
        return False
    except OSError:
        # A request of a process that was paused ran out of time: the store's words do not say why.
        check_held()
        raise
    write_checksums(path)
    return True


def _save_few(
    rows: DataFrame, path: Path, mode: Mode, properties: CommitProperties, transaction: "Transaction"
) -> None:
    # Opened before the leases are checked: as in ``commit.fenced``.
    table = log.opened(path)
    transaction.refuse_others(path)
    check_held()
    write_deltalake(table, arrow_of(rows), mode=mode, commit_properties=properties)


def append_next(path: Path, rows: pa.Table, batch: "Transaction | None" = None, **options: Any) -> None:
    """Append rows to a table that only the holder of a lease writes, and create it where there is none.

    Raises:
        LeaseLost: Another process took over; nothing was committed.
    """
    there = log.opened(path) if log.exists(path) else str(path)
    # A table that came since is another process's: appended to, it would have a file's entry twice.
    mode: Literal["append", "error"] = "error" if isinstance(there, str) else "append"
    check_held()
    txn = [DeltaTransaction(batch.app_id, batch.version)] if batch else None
    # In an object store one whose lease was taken over in between is to find this version taken.
    retries = 0 if isinstance(path, ObjectPath) else None
    properties = CommitProperties(max_commit_retries=retries, app_transactions=txn)
    try:
        write_deltalake(there, rows, mode=mode, commit_properties=properties, **options)
    except (DeltaError, OSError):
        check_held()
        raise


def _is_plain(path: Path, schema: StructType) -> bool:
    """Return true where the table has exactly these columns, and no constraint or layout."""
    table = log.opened(path)
    protocol, metadata = table.protocol(), table.metadata()
    features = set(protocol.writer_features or ()) | set(protocol.reader_features or ())
    if features - PLAIN or (protocol.min_writer_version not in (2, 7)) or metadata.partition_columns:
        return False
    if {*metadata.configuration} - KNOWN_PROPERTIES:
        return False
    held = log.spark_schema(path)
    names = [[(f.name, f.dataType.simpleString()) for f in kind] for kind in (held, schema)]
    return names[0] == names[1] and _is_simple(held)


def _is_simple(kind: DataType) -> bool:
    """Return true of types that may be NULL everywhere and have nothing of their own on record."""
    if isinstance(kind, ArrayType):
        return kind.containsNull and _is_simple(kind.elementType)
    if isinstance(kind, MapType):
        return kind.valueContainsNull and _is_simple(kind.keyType) and _is_simple(kind.valueType)
    if isinstance(kind, StructType):
        return all(f.nullable and not f.metadata and _is_simple(f.dataType) for f in kind.fields)
    return not isinstance(kind, (TimestampNTZType, VariantType))
