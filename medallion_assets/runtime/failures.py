"""The message of a failed refresh: one paragraph that says what failed, where, and why."""

import re
import traceback
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from medallion_assets.declare.errors import (
    CheckpointDamaged,
    ExpectationFailed,
    GateClosed,
    QueryRefused,
    RefreshFailed,
    ReplayRefused,
    SchemaRefused,
    StateMismatch,
)
from medallion_assets.declare.table import Table
from medallion_assets.delta.errors import DamagedCheckpoint, DamagedTable
from medallion_assets.lake.paths import Lake
from medallion_assets.runtime.blame import blame
from medallion_assets.session.cluster import NOT_SHIPPED, ExecutorsUnfit, not_shared
from medallion_assets.sources.errors import BatchRefused, cause_of
from medallion_assets.storage import StorageUnreachable, path_of
from medallion_assets.storage.lease import LeaseLost, TableBusy

STATE_WORDS = ("SCHEMA_NOT_COMPATIBLE", "STATE_STORE_INVALID", "NOT_MATCH_IN_STATE_METADATA")
"""Parts of the names of Spark's errors about a state that a query cannot read."""

SCHEMA_WORDS = ("DELTA_SCHEMA_CHANGED", "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE")
"""In Delta's errors about a stream whose table's columns went or changed; new ones pass."""

CHECKPOINT_WORDS = (
    "STREAMING_CHECKPOINT",
    "Incomplete log file",
    "MALFORMED_LOG_FILE",
    "StreamMetadata",
    "CANNOT_LOAD_STATE_STORE",
    "MISSING_STATE_DIRECTORY",
    "LOG_OFFSET",
    "BATCH_METADATA",
)
"""Parts of Spark's errors about a checkpoint whose files it cannot read."""

DAMAGE_WORDS = (
    "ChecksumException",
    "FileNotFoundException",
    "is not a Parquet file",
    "FAILED_READ_FILE",
    "NO_RECREATABLE_HISTORY",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
)
"""Parts of errors about missing or unreadable files of a Delta table; the path names the table."""

PASSING_WORDS = (
    "DELTA_CONCURRENT",
    "Connection reset",
    "Connection refused",
    "SocketTimeoutException",
    "Too many requests",
    "SlowDown",
    "No space left on device",
    "ExecutorLostFailure",
    "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND",
)
"""Parts of errors that another attempt may get past: neither data nor code caused them."""


KEPT_TRACES = 20


def explained(table: Table, lake: Lake, error: BaseException) -> Exception:
    """Return the error to raise for a failed micro-batch.

    Args:
        table: The table.
        lake: Where it is.
        error: What the micro-batch raised.

    Returns:
        The error itself where its message already says what to do; else one whose message does.
    """
    if isinstance(
        error,
        (
            BatchRefused,
            ReplayRefused,
            ExpectationFailed,
            GateClosed,
            DamagedTable,
            SchemaRefused,
            QueryRefused,
            ExecutorsUnfit,
        ),
    ):
        return error
    if unshared := not_shared(error):
        return unshared
    text, cause = str(error), cause_of(error)
    for rule in table.expectations:
        if rule.on_violation == "fail" and f"expectation {rule.name} (" in text:
            return ExpectationFailed(
                f"{table.key}: a row broke the expectation {rule.name} ({rule.predicate}), which says "
                "`fail`. Nothing of the batch was written and nothing is lost: correct the data or the "
                "rule, and run again."
            )
    if isinstance(error, DamagedCheckpoint) or any(word in text for word in CHECKPOINT_WORDS):
        return CheckpointDamaged(table.key, cause)
    if any(word in text for word in STATE_WORDS):
        return StateMismatch(
            f"{table.key}: the query was changed, and the state in its checkpoint no longer fits it. Nothing "
            "was written and nothing is lost: upstream holds every row. Run "
            f"`medallion full_refresh {table.key}`, which rebuilds state and table from upstream."
        )
    if any(word in text for word in SCHEMA_WORDS):
        upstream = table.streams_from.key if table.streams_from else "upstream"
        return RefreshFailed(
            f"{table.key}: columns of {upstream}, which it streams from, went or changed their type. "
            f"Nothing was written and nothing is lost: {upstream} holds every row. Let the query read the "
            f"columns of today, then run `medallion full_refresh {table.key}`, which names a column that is "
            "still missing."
        )
    broken = any(word in text for word in DAMAGE_WORDS)
    if broken and str(lake.state(table, "checkpoint")) in cause:
        return CheckpointDamaged(table.key, cause)
    damaged = _table_named_in(cause, lake) if broken else None
    if damaged:
        return DamagedTable(damaged, RuntimeError(cause))
    lacks = "ModuleNotFoundError: " in cause and not lake.settings.is_one_machine
    return RefreshFailed(
        f"{table.key}: {blame(table, error)} failed: {cause} The micro-batch was not committed and nothing "
        f"is lost: the next run takes the same rows again.{NOT_SHIPPED if lacks else ''}"
    )


def failure_text(table: Table, lake: Lake, error: BaseException) -> str:
    """Return the paragraph a person reads about a failure, with the name of the file that has its trace.

    An error of ours without a cause says everything; for all others a trace is written below the table's
    state, ``errors/<time>.txt``, where the newest ``KEPT_TRACES`` stay.
    """
    words = " ".join(str(error).split())
    # An empty text would count as no failure.
    text = words if words and _is_ours(error) else f"{table.key}: {cause_of(error)}"
    causes = list(_causes(error))
    if _is_ours(error) and len(causes) == 1:
        return text
    file = lake.state(table, "errors") / f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S%f}.txt"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n\n" + "\n".join(_trace(cause) for cause in causes), encoding="utf-8")
        for old in sorted(file.parent.glob("*.txt"))[:-KEPT_TRACES]:
            old.unlink(missing_ok=True)
    except (OSError, StorageUnreachable):
        # A full disk is often why the run failed; the paragraph matters more than the trace.
        return text
    return f"{text} Trace: {file}"


def _trace(error: BaseException) -> str:
    """Return Python's and Java's stack of one error."""
    python = "".join(traceback.format_exception(type(error), error, error.__traceback__, chain=False))
    return f"{python}\n{getattr(error, '_stackTrace', None) or ''}"


def _is_ours(error: BaseException) -> bool:
    return type(error).__module__.startswith("medallion_assets")


def passes_by_itself(error: BaseException | None) -> bool:
    """Return true where another attempt may succeed: another writer, a network or a disk did not answer."""
    return any(
        isinstance(cause, (TableBusy, LeaseLost, StorageUnreachable, ConnectionError, TimeoutError))
        or any(word in str(cause) for word in PASSING_WORDS)
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Return an error and what caused it, each once: an error may be named as its own cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _table_named_in(cause: str, lake: Lake) -> Path | None:
    """Return the table whose file a cause names, None where it names none."""
    named = re.search(rf"{re.escape(str(lake.root))}/\w+/(bronze|silver|gold|quarantine)/\w+", cause)
    return path_of(named[0]) if named else None
