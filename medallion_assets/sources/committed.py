"""The rows a batch's commit holds, counted in the Parquet files it added, by the landing file they came from.

Not by what Spark said it wrote: so that the count discovery made of a file has another to be held against.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from medallion_assets.delta import log


@dataclass(frozen=True)
class Committed:
    """Rows a commit holds, by the file they came from."""

    rows: Counter[str]
    rescued: Counter[str]


def committed_rows(path: Path, app_id: str, batch_id: int, file_column: str, rescued: str = "") -> Committed:
    """Return what a batch's commit added, by source file; nothing where it made no commit."""
    rows: Counter[str] = Counter()
    rescues: Counter[str] = Counter()
    for part in _added(path, app_id, batch_id):
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


def _added(path: Path, app_id: str, batch_id: int) -> list[str]:
    """Return the data files of the commit this writer signed with this batch, newest commits first."""
    if log.committed_batch(path, app_id) < batch_id:
        # The log's snapshot says so; its entries would all have to be read.
        return []
    folder = path / "_delta_log"
    for file in sorted(folder.glob("*.json"), reverse=True) if folder.is_dir() else ():
        actions = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
        writers = [a["txn"] for a in actions if "txn" in a]
        if any(w["appId"] == app_id and w["version"] == batch_id for w in writers):
            return [unquote(a["add"]["path"]) for a in actions if "add" in a]
    return []


def _physical(path: Path, names: list[str]) -> list[str]:
    """Return the names columns have inside Parquet, which column mapping makes others."""
    fields = json.loads(log.opened(path).schema().to_json())["fields"]
    known = {f["name"]: f["metadata"].get("delta.columnMapping.physicalName", f["name"]) for f in fields}
    return [known.get(name, name) for name in names]
