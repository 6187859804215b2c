"""What each micro-batch did, as its own commit on the table says: counts, running totals, versions read.

Every commit of ours carries the newest batch of every flow of the table, so that the newest one is enough,
whatever another flow, a person or upkeep wrote on top of it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from medallion_assets.delta import log
from medallion_assets.delta.changes import rows_written
from medallion_assets.delta.commit import BEFORE, Transaction
from medallion_assets.storage import storage_of

FLOWS, FLOW = "flows", "flow"
REPROCESSED = "reprocessed"
"""Key of a flow's state: true after a request to read landing files again."""

UPSTREAM = "upstream"
"""Key of a flow's state: the id of the Delta table that its position is a version of."""

LANDING = "landing"
"""Key of a notebook's table: the folder that file names are relative to, as a path relative to the table."""

FACTS = ("epoch", "code", "checkpoint", "schema", REPROCESSED, UPSTREAM, LANDING)
"""Keys of a commit's metadata that later batches of the flow read."""

NEEDED = ("position", "read", "written", "quarantined")
"""Numbers that a commit's metadata always holds, also where they are 0."""

SHOWN = 200
"""The number of last batches that reports and the row count rule read."""

NAMED = 100
"""The largest number of replaced files in a commit's metadata."""


@dataclass(frozen=True)
class Batch:
    """One micro-batch's numbers, all in rows but for ``files`` and ``seconds``.

    Attributes:
        position: Upstream version the batch brought its flow to.
        read: Rows the query gave for it, malformed records included; for an aggregate, rows upstream brought.
        written, quarantined, duplicates, dropped: The rows by outcome; for an aggregate, groups written.
        rules: Rows that broke each expectation, those that only warn included.
        files: Landing files read, for bronze.
        rescued: Rows written with something in their rescued data column.
        missing: Records of files that were gone, or had changed, when they were to be read.
        statics: Version of each static input.
        drift: Schema changes of its files: added, widened, retyped, left out and missing columns.
        strategy: How the rows were written, and why.
        late: Rows of a stateful query that came after their window was closed.
        watermark, open_groups, state_bytes: A stateful query's, after the batch.
        open_rows: Rows in windows that are not closed, and so not written, in append mode.
        whole: True where the batch read all of upstream: totals start at it.
        replaced: For files that came again changed: rows before, rows now.
        expanded: Rows written or refused beyond one for each upstream row, where one may give many.
        by_hand: Rows someone removed by hand, as a person accepted; ``put_in_by_hand`` are among them,
            below 0.
        columns, kept: Of bronze: the columns its files were read with, and those the query passed on as they
            were; None without a query.
        newest_sequence: For a changing dimension: the latest ``sequence_by`` it has taken, as text.
        untaken: Files of the batch that could not be read, each with the reason.
        total_duplicates, total_dropped, total_missing, total_applied, total_late, total_expanded,
            total_by_hand, total_put_in_by_hand: Over all batches so far.
    """

    position: int
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
    put_in_by_hand: int = 0
    total_put_in_by_hand: int = 0
    strategy: str = ""
    late: int = 0
    watermark: str = ""
    open_groups: int = 0
    state_bytes: int = 0
    open_rows: int = 0
    whole: bool = False
    replaced: dict[str, list[int]] = field(default_factory=dict)
    newest_sequence: str = ""
    untaken: dict[str, str] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    kept: list[str] | None = None
    run_id: str = ""

    def following(self, last: "Batch | None") -> "Batch":
        """Return the batch with its totals: those of the batch before it and its own numbers."""
        base = None if self.whole else last

        def total(name: str, so_far: str) -> int:
            return (int(getattr(base, so_far)) if base else 0) + int(getattr(self, name))

        return replace(
            self,
            total_duplicates=total("duplicates", "total_duplicates"),
            total_dropped=total("dropped", "total_dropped"),
            total_missing=total("missing", "total_missing"),
            total_applied=total("written", "total_applied"),
            total_late=total("late", "total_late"),
            total_expanded=total("expanded", "total_expanded"),
            total_by_hand=total("by_hand", "total_by_hand"),
            total_put_in_by_hand=total("put_in_by_hand", "total_put_in_by_hand"),
            newest_sequence=self.newest_sequence or (base.newest_sequence if base else ""),
        )


def stamp(transaction: Transaction, path: Path, flow: str, batch: Batch) -> Transaction:
    """Return the transaction whose commit carries a batch, its totals, and every other flow's newest batch.

    Args:
        transaction: What is committed; its metadata's ``FACTS`` are kept with the flow.
        path: The table as it is before the commit.
        flow: The batch's flow.
        batch: What the batch does.
    """
    metadata, flows = transaction.commit_metadata, newest_flows(path)
    own = flows.get(flow, {})
    batch = batch.following(_batch(own) if own else None)
    numbers = asdict(replace(batch, replaced=dict(list(batch.replaced.items())[:NAMED])))
    kept = (n for n, value in numbers.items() if value or n in NEEDED or (n == "kept" and value is not None))
    numbers = {name: numbers[name] for name in kept}
    facts = {name: metadata[name] for name in FACTS if name in metadata}
    flows[flow] = {**own, **facts, "batch": numbers}
    if "epoch" in facts:
        flows = {name: _in_epoch(state, int(facts["epoch"])) for name, state in flows.items()}
    whole = {**metadata, BEFORE: transaction.before, FLOW: flow, FLOWS: flows}
    return replace(transaction, commit_metadata=whole)


def _in_epoch(state: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """Return a flow's state in an epoch; what begins one rewrote and counted the rows of every flow.

    Each flow goes on from its position, with totals of its own from there.
    """
    if state.get("epoch", 0) == epoch:
        return dict(state)
    numbers = {name: value for name, value in state["batch"].items() if not name.startswith("total_")}
    return {**state, "epoch": epoch, "batch": numbers}


def newest_flows(path: Path, upto: int | None = None) -> dict[str, dict[str, Any]]:
    """Return what the newest commit of ours says of each flow, empty where there is none.

    Args:
        path: The table.
        upto: The newest version that is looked at.
    """
    for info in log.newest_commits(path, upto):
        metadata = log.commit_metadata_of(info)
        if FLOWS in metadata:
            return _filled(metadata, info)
    return {}


def table_of_quarantine(quarantine: Path) -> str:
    """Return the key of the table whose refused rows a quarantine holds; empty where no commit says so."""
    keys = (log.commit_metadata_of(info).get("table") for info in log.newest_commits(quarantine))
    return str(next(filter(None, keys), ""))


def is_of_notebook(path: Path) -> bool:
    """Return true where a notebook's load fills the table, and no run of a declared table does."""
    state = newest_flows(path).get("", {})
    return UPSTREAM in state and "code" not in state


def newest(path: Path, flow: str = "") -> Batch | None:
    """Return the newest batch of a flow, None where none is committed."""
    state = newest_flows(path).get(flow)
    return _batch(state) if state else None


def recorded(path: Path, flow: str = "", limit: int = SHOWN) -> list[Batch]:
    """Return a flow's last batches, oldest first."""
    found: list[Batch] = []
    for info in log.newest_commits(path):
        if log.commit_metadata_of(info).get(FLOW) == flow and (batch := batch_of(info)):
            found.append(batch)
        if len(found) == limit:
            break
    return found[::-1]


def committed_after(path: Path, version: int | None) -> list[Batch]:
    """Return the batches of every flow whose commits are newer than a version of the table, oldest first."""
    found: list[Batch] = []
    for info in log.newest_commits(path) if log.exists(path) else ():
        if version is not None and info["version"] <= version:
            break
        if batch := batch_of(info):
            found.append(batch)
    return found[::-1]


def batch_of(info: dict[str, Any]) -> Batch | None:
    """Return the batch that a commit is of, None where it is of none."""
    metadata = log.commit_metadata_of(info)
    flow = metadata.get(FLOW, "")
    return _batch(_filled(metadata, info)[flow]) if flow in metadata.get(FLOWS, ()) else None


_KNOWN = {f.name for f in fields(Batch)}


def _batch(state: Mapping[str, Any]) -> Batch:
    return Batch(**{name: value for name, value in state["batch"].items() if name in _KNOWN})


def _filled(metadata: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the flows of a commit; rows a MERGE wrote are known by its own metrics only (``written`` -1)."""
    flows = {flow: dict(state) for flow, state in metadata[FLOWS].items()}
    own = flows.get(metadata.get(FLOW, ""))
    if own and own["batch"]["written"] < 0:
        own["batch"] = {**own["batch"], "written": rows_written(info)}
    return flows


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file so that a reader sees the old one or the new one, whole."""
    storage_of(str(file)).put(str(file), json.dumps(content, indent=1).encode())


def read_json(file: Path) -> dict[str, Any] | None:
    """Return what a JSON file of notes says; None where there is none, or it is empty, cut off or altered."""
    try:
        said = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return said if isinstance(said, dict) else None


def batches_between(path: Path, flow: str, after: int) -> Iterator[Batch]:
    """Return a flow's batches that brought it beyond a position, newest first."""
    for info in log.newest_commits(path):
        if log.commit_metadata_of(info).get(FLOW) == flow and (batch := batch_of(info)):
            if batch.position <= after:
                return
            yield batch
