"""What a person is told when a refresh fails, instead of two hundred lines of stack."""

import re
from pathlib import Path

from medallion_assets.declare.errors import (
    CheckpointDamaged,
    ExpectationFailed,
    GateClosed,
    RefreshFailed,
    ReplayRefused,
    StateMismatch,
)
from medallion_assets.declare.table import Table
from medallion_assets.delta.errors import DamagedCheckpoint, DamagedTable, TableBusy
from medallion_assets.lake.paths import Lake
from medallion_assets.sources.errors import BatchRefused

STATE_WORDS = ("SCHEMA_NOT_COMPATIBLE", "STATE_STORE_INVALID", "NOT_MATCH_IN_STATE_METADATA")
"""In the names of Spark's errors about a state that a query cannot read."""

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
"""In Spark's errors about a checkpoint whose files it cannot read."""

DAMAGE_WORDS = (
    "ChecksumException",
    "FileNotFoundException",
    "is not a Parquet file",
    "FAILED_READ_FILE",
    "NO_RECREATABLE_HISTORY",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
)
"""In errors about files that a Delta table lacks or that cannot be read; the path says of which table."""

PASSING_WORDS = (
    "DELTA_CONCURRENT",
    "Connection reset",
    "Connection refused",
    "SocketTimeoutException",
    "Too many requests",
    "SlowDown",
    "No space left on device",
)
"""In errors that say nothing of the data or the code."""


def explained(table: Table, lake: Lake, error: BaseException) -> Exception:
    """Return the error to raise: a broken rule by its name, our own errors as they are, others in brief."""
    if isinstance(error, (BatchRefused, ReplayRefused, ExpectationFailed, GateClosed, DamagedTable)):
        return error
    text = str(error)
    for rule in table.expectations:
        if rule.on_violation == "fail" and f"expectation {rule.name} (" in text:
            return ExpectationFailed(
                f"{table.key}: a row broke {rule.name} ({rule.predicate}), which says fail. Nothing of the "
                "batch was written and nothing is lost: mend the data or the rule, and run again."
            )
    if isinstance(error, DamagedCheckpoint) or any(word in text for word in CHECKPOINT_WORDS):
        return CheckpointDamaged(table.key, _cause(text))
    if any(word in text for word in STATE_WORDS):
        return StateMismatch(
            f"{table.key}: its query was changed and no longer fits the state its checkpoint keeps. Nothing "
            "was written and nothing is lost: upstream holds every row. Run "
            f"`medallion full_refresh {table.key}`, which makes state and table anew from upstream."
        )
    broken = any(word in text for word in DAMAGE_WORDS)
    if broken and str(lake.state(table, "checkpoint")) in _cause(text):
        return CheckpointDamaged(table.key, _cause(text))
    damaged = _named_in(_cause(text), lake) if broken else None
    if damaged:
        return DamagedTable(damaged, RuntimeError(_cause(text)))
    return RefreshFailed(
        f"{table.key}: the micro-batch failed and was not committed. Nothing is lost: what it should have "
        f"taken stays where it is, and the next run takes it. Cause: {_cause(text)}"
    )


def _named_in(cause: str, lake: Lake) -> Path | None:
    """Return the table whose file a cause names, None where it names none."""
    found = re.search(rf"{re.escape(str(lake.root))}/\w+/(bronze|silver|gold|quarantine)/\w+", cause)
    return Path(found[0]) if found else None


def passes_by_itself(error: BaseException | None) -> bool:
    """Return true where trying again may do: another writer, a network or a disk that did not answer."""
    while error is not None:
        transient = isinstance(error, (TableBusy, ConnectionError, TimeoutError))
        if transient or any(word in str(error) for word in PASSING_WORDS):
            return True
        error = error.__cause__
    return False


def _cause(text: str) -> str:
    """Return the innermost cause Java names, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    named = [line for line in lines if line.startswith(": ")]
    return (causes[-1:] or named[:1] or lines[:1] or ["unknown"])[0].removeprefix(": ")
