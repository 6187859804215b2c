"""What each micro-batch did: a small JSON file for each, replaced when the batch is replayed.

A file carries running totals, so that reading the newest is enough: the cost does not grow with history.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

KEPT = 200
"""Older ones go: the running totals hold what they added, and a listing must not grow with history."""


@dataclass(frozen=True)
class Batch:
    """One micro-batch's numbers, all in rows but for ``files`` and ``seconds``.

    Attributes:
        number: The micro-batch's number in its checkpoint.
        read: Rows the query gave for it, malformed records included; for an aggregate, rows upstream brought.
        written, quarantined, duplicates, dropped: What became of them; for an aggregate, groups written.
        rules: Rows that broke each expectation, those that only warn included.
        files: Landing files read, for bronze.
        rescued: Rows written with something in their rescued data column.
        missing: Records of files that were gone, or had changed, when they were to be read.
        statics: Version of each static input.
        drift: What its files asked of the schema: added, widened, retyped, left out and missing columns.
        strategy: How the rows were written, and why so.
        late: Rows of a stateful query that came after their window was closed.
        watermark, open_groups, state_bytes: A stateful query's, after the batch.
        open_rows: Rows in windows that are not closed, and so not written, in append mode.
        whole: True where the batch took all of upstream anew: totals begin with it.
        replaced: For files that came again changed: rows before, rows now.
        expanded: Rows written or refused beyond one for each upstream row, where one may give many.
        by_hand: Rows someone removed by hand, as a person accepted.
        newest_sequence: For a changing dimension: the latest ``sequence_by`` it has taken, as text.
        total_duplicates, total_dropped, total_missing, total_applied, total_late, total_expanded,
            total_by_hand: Over all batches so far.
    """

    number: int
    read: int
    written: int
    quarantined: int
    duplicates: int = 0
    dropped: int = 0
    rules: dict[str, int] = field(default_factory=dict)
    files: int = 0
    rescued: int = 0
    missing: int = 0
    seconds: float = 0.0
    statics: dict[str, int] = field(default_factory=dict)
    drift: dict[str, Any] = field(default_factory=dict)
    total_duplicates: int = 0
    total_dropped: int = 0
    total_missing: int = 0
    total_applied: int = 0
    total_late: int = 0
    expanded: int = 0
    total_expanded: int = 0
    by_hand: int = 0
    total_by_hand: int = 0
    strategy: str = ""
    late: int = 0
    watermark: str = ""
    open_groups: int = 0
    state_bytes: int = 0
    open_rows: int = 0
    whole: bool = False
    replaced: dict[str, list[int]] = field(default_factory=dict)
    newest_sequence: str = ""
    run_id: str = ""


def counted_in(folder: Path, query: str, batch: Batch) -> Batch:
    """Write the batch's file with the totals over all so far, and gives the batch with them."""
    whole = with_totals(folder, query, batch)
    record(folder, query, whole)
    return whole


def record(folder: Path, query: str, batch: Batch) -> None:
    """Write the batch's file in one rename."""
    write_json(folder / _file_name(query, batch.number), asdict(batch))
    for old in sorted(folder.glob("*.json"), key=lambda f: f.stat().st_mtime_ns)[:-KEPT]:
        old.unlink()


def newest(folder: Path, before_number: int | None = None, query: str = "") -> Batch | None:
    """Return the last batch recorded; with a number and its query, the last one before that batch."""
    files = sorted(folder.glob("*.json"), key=lambda f: f.stat().st_mtime_ns) if folder.is_dir() else []
    if before_number is not None:
        # A batch being replayed may stand here already, from the attempt that died.
        files = [f for f in files if f.name != _file_name(query, before_number)]
    return Batch(**json.loads(files[-1].read_text())) if files else None


def with_totals(folder: Path, query: str, batch: Batch) -> Batch:
    """Return the batch with the totals over all so far.

    A batch that is replayed stands in the totals already, also in those of records made after it: what
    it was counted as is taken off before it is counted again.
    """
    last, own = newest(folder), folder / _file_name(query, batch.number)
    old = Batch(**json.loads(own.read_text())) if own.exists() else None
    begins = batch.whole and old is None

    def total(delta: str, so_far: str) -> int:
        base = 0 if begins or last is None else int(getattr(last, so_far))
        return base + int(getattr(batch, delta)) - (int(getattr(old, delta)) if old else 0)

    return replace(
        batch,
        total_duplicates=total("duplicates", "total_duplicates"),
        total_dropped=total("dropped", "total_dropped"),
        total_missing=total("missing", "total_missing"),
        total_applied=total("written", "total_applied"),
        total_late=total("late", "total_late"),
        total_expanded=total("expanded", "total_expanded"),
        total_by_hand=total("by_hand", "total_by_hand"),
        newest_sequence=batch.newest_sequence or (last.newest_sequence if last and not begins else ""),
    )


def recorded(folder: Path) -> list[Batch]:
    """Return the batches still kept, oldest first."""
    files = sorted(folder.glob("*.json"), key=lambda f: f.stat().st_mtime_ns) if folder.is_dir() else []
    return [Batch(**json.loads(f.read_text())) for f in files]


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write a JSON file so that a reader sees the old one or the new one, whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(content, indent=1))
    draft.replace(file)


def _file_name(query: str, number: int) -> str:
    return f"{query}-{number:09d}.json"
