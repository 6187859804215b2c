"""The rows a batch's commit holds, counted in the Parquet files it added, by the landing file they came from.

Not by what Spark said it wrote: so that the count discovery made of a file has another to be held against.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from medallion_assets.delta import log
from medallion_assets.delta.commit import PENDING, Transaction


@dataclass(frozen=True)
class Committed:
    """Rows a commit holds, by the file they came from."""

    rows: Counter[str]
    rescued: Counter[str]


def committed_rows(path: Path, transaction: Transaction, file_column: str, rescued: str = "") -> Committed:
    """Return what a batch's commits added, by source file; nothing where it made no commit.

    Args:
        path: The table, or its quarantine.
        transaction: The batch.
        file_column: The column that names the landing file.
        rescued: The rescued data column, empty for none.
    """
    rows: Counter[str] = Counter()
    rescues: Counter[str] = Counter()
    for part in _added(path, transaction):
        names = _physical(path, [file_column, *([rescued] if rescued else [])])
        columns = pq.read_table(
            path / part, columns=[n for n in names if n in pq.read_schema(path / part).names]
        )
        rows.update(_counted(columns.column(0)))
        if columns.num_columns > 1:
            kept = columns.filter(columns.column(1).is_valid())
            rescues.update(_counted(kept.column(0)))
    return Committed(rows, rescues)


def _counted(files: pa.ChunkedArray) -> dict[str, int]:
    counts = files.value_counts()
    return {pair["values"]: pair["counts"] for pair in counts.to_pylist()}


def _added(path: Path, transaction: Transaction) -> list[str]:
    """Return the data files that a batch's commits added: the table's one, or the quarantine's several."""
    mine = transaction.commit_metadata.get(PENDING)
    oldest = -1 if mine is None or transaction.before is None else transaction.before
    found: list[str] = []
    for info in log.newest_commits(path):
        if int(info["version"]) <= oldest:
            break
        actions = log.actions(path, int(info["version"])) or []
        if mine is None and any(_is_of(a["txn"], transaction) for a in actions if "txn" in a):
            return _files(actions)
        # What a batch took out of the quarantine rewrote files, too; only appends brought entries.
        if mine and log.commit_metadata_of(info).get(PENDING) == mine and info.get("operation") == "WRITE":
            found += _files(actions)
    return found


def _is_of(action: Mapping[str, Any], transaction: Transaction) -> bool:
    return (action["appId"], action["version"]) == (transaction.app_id, transaction.version)


def _files(actions: Sequence[Mapping[str, Any]]) -> list[str]:
    return [unquote(a["add"]["path"]) for a in actions if "add" in a]


def _physical(path: Path, names: list[str]) -> list[str]:
    """Return the names columns have inside Parquet, which column mapping makes others."""
    fields = json.loads(log.opened(path).schema().to_json())["fields"]
    known = {f["name"]: f["metadata"].get("delta.columnMapping.physicalName", f["name"]) for f in fields}
    return [known.get(name, name) for name in names]
