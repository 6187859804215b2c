"""The changes of a table between two versions: writers and counts from its log, rows from its change feed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log, progress
from medallion_assets.session.frames import FEW_BYTES, FEW_ROWS

CHANGE_TYPE = "_change_type"
CHANGE_COLUMNS = (CHANGE_TYPE, "_commit_version", "_commit_timestamp")
ALL_FILES = 1_000_000_000
"""A silver or gold batch reads whole upstream versions, so that its position is a version.

``cut_to_size`` splits a range that is too large for one batch."""

ADDED, REMOVED = ("insert", "update_postimage"), ("delete", "update_preimage")


@dataclass(frozen=True)
class VersionRange:
    """The upstream versions of a micro-batch: from ``after`` (exclusive) to ``upto`` (inclusive).

    Attributes:
        after: The last version of the batch before; -1 where the batch reads the whole table.
        upto: The last version of the batch.
    """

    after: int
    upto: int


def only_appends(path: Path, versions: VersionRange) -> bool:
    """Return true where no commit of the range removed or changed a row, by its log entries alone."""
    # A stream without a position is given the table as it is, which is all additions.
    return versions.after < 0 or not any(
        _did(path, v, "remove") for v in range(versions.after + 1, versions.upto + 1)
    )


def moves_data(path: Path, versions: VersionRange) -> bool:
    """Return true where a commit of the range added or removed rows; OPTIMIZE only moves them."""
    commits = range(versions.after + 1, versions.upto + 1)
    return versions.after < 0 or any(_did(path, v, "add", "remove") for v in commits)


def as_commits(spark: SparkSession, path: Path, position: int, checkpoint: Path) -> DataFrame:
    """Return a table that only grows as a stream, a micro-batch for each of its commits after a position.

    Args:
        spark: The session.
        path: The table.
        position: Version up to which the stream's reader has come, -1 for none.
        checkpoint: Of the query that reads the stream.
    """
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
    if position >= 0 or log.entry_of(path, 0).exists():
        reader = reader.option("startingVersion", _start(position, checkpoint))
    return reader.load(str(path))


def as_stream(spark: SparkSession, path: Path, position: int, checkpoint: Path) -> DataFrame:
    """Return a table's changes after a position as a stream: its columns and ``CHANGE_COLUMNS``.

    Args:
        spark: The session.
        path: The table.
        position: Version up to which the stream's reader has come, -1 to begin with the table as it is.
        checkpoint: Of the query that reads the stream.
    """
    reader = spark.readStream.format("delta").option("readChangeFeed", "true")
    reader = reader.option("maxFilesPerTrigger", ALL_FILES)
    if position >= 0:
        reader = reader.option("startingVersion", _start(position, checkpoint))
    return reader.load(str(path))


def _start(position: int, checkpoint: Path) -> int:
    """Return the first version a query has to read: that after its position, unless Spark needs it again."""
    return position if position >= 0 and progress.must_be_read_again(checkpoint) else position + 1


def changed(spark: SparkSession, path: Path, versions: VersionRange) -> DataFrame:
    """Return the rows that the versions added and removed: the table's columns and ``CHANGE_COLUMNS``."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return (
        reader.option("startingVersion", versions.after + 1)
        .option("endingVersion", versions.upto)
        .load(str(path))
    )


def added(rows: DataFrame) -> DataFrame:
    """Return the added rows, in the table's columns."""
    return rows.where(F.col(CHANGE_TYPE).isin(*ADDED)).drop(*CHANGE_COLUMNS)


def removed(rows: DataFrame) -> DataFrame:
    """Return the removed rows, in the table's columns."""
    return rows.where(F.col(CHANGE_TYPE).isin(*REMOVED)).drop(*CHANGE_COLUMNS)


def _did(path: Path, version: int, *named: str) -> bool:
    actions = log.actions(path, version)
    if actions is None:
        return True
    # OPTIMIZE adds and removes files too, but says that it changed no data.
    return any(a[name].get("dataChange", True) for a in actions for name in named if name in a)


def written_by_hand(commits: Iterable[dict[str, Any]], path: Path) -> list[tuple[int, str]]:
    """Return version and operation of each of these commits that changed rows and that no run made."""
    found = [(int(c["version"]), str(c.get("operation"))) for c in commits if not log.commit_metadata_of(c)]
    return [(at, operation) for at, operation in found if _did(path, at, "add", "remove")]


def rewrites_all(info: Mapping[str, Any]) -> bool:
    """Return true for a commit that replaces every row of its table."""
    told = info.get("operationParameters") or {}
    return told.get("mode") == "Overwrite" and told.get("predicate") in (None, "", "[]")


NEW_ROWS = {
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated"),
    "UPDATE": ("numUpdatedRows",),
    "DELETE": (),
}
"""By operation, its metrics of new rows: its files also hold rows that were only rewritten."""


def rows_brought(path: Path, versions: VersionRange) -> int:
    """Return the number of rows that the commits of a range added or changed."""
    if versions.after < 0:
        return log.row_count(path, versions.upto)
    return sum(_brought_by(log.actions(path, v) or []) for v in range(versions.after + 1, versions.upto + 1))


def brings_few(path: Path, versions: VersionRange) -> bool:
    """Return true where a range is small enough for memory, by the sizes and row counts of its files."""
    if versions.after < 0:
        rows, size = log.rows_and_bytes(path)
        return rows <= FEW_ROWS and size <= FEW_BYTES
    actions = (log.actions(path, v) or [{}] for v in range(versions.after + 1, versions.upto + 1))
    sizes = [int(a["add"]["size"]) for entry in actions for a in entry if "add" in a]
    return sum(sizes) <= FEW_BYTES and rows_brought(path, versions) <= FEW_ROWS


def cut_to_size(path: Path, versions: VersionRange, most: int) -> Iterator[VersionRange]:
    """Split a range into parts of whole commits, each of a limited number of bytes or of a single commit.

    Delta's own limits of a stream cut a commit that only adds or only removes files between those files,
    and a position is a whole version. A range that begins with the table as a whole is one part.

    Args:
        path: The table.
        versions: The range.
        most: Bytes of data files that a part may have.
    """
    after, size = versions.after, 0
    for version in range(versions.after + 1, versions.upto + 1) if versions.after >= 0 else ():
        more = _bytes_read(log.actions(path, version) or [])
        if size and size + more > most:
            yield VersionRange(after, version - 1)
            after, size = version - 1, 0
        size += more
    yield VersionRange(after, versions.upto)


def _bytes_read(actions: list[dict[str, Any]]) -> int:
    """Return the bytes of the files that the change feed reads for a commit."""
    changed = sum(int(a["cdc"].get("size", 0)) for a in actions if "cdc" in a)
    moved = (a[name] for a in actions for name in ("add", "remove") if name in a)
    return changed or sum(int(file.get("size") or 0) for file in moved if file.get("dataChange", True))


def rows_written(info: Mapping[str, Any]) -> int:
    """Return the rows a commit wrote, by the metrics of its ``commitInfo``."""
    metrics, operation = info.get("operationMetrics") or {}, str(info.get("operation"))
    # The second name is that of ``deltalake``.
    names = NEW_ROWS.get(operation, ("numOutputRows", "num_added_rows"))
    return sum(int(metrics.get(name, 0)) for name in names)


def _brought_by(actions: list[dict[str, Any]]) -> int:
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    if info.get("operation") in NEW_ROWS:
        return rows_written(info)
    # OPTIMIZE adds files too, but says that it changed no data.
    added = [file for file in new_files(actions) if file.get("dataChange", True)]
    return sum(int(json.loads(file.get("stats") or "{}").get("numRecords", 0)) for file in added)


def new_files(actions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the files that a commit wrote; one with a new deletion vector was there before."""
    removed = {action["remove"]["path"] for action in actions if "remove" in action}
    return [a["add"] for a in actions if "add" in a and a["add"]["path"] not in removed]
