"""The files that a lake's runs and loads made, which ``resources`` shows and ``cleanup`` removes.

A file counts as made here by where it lies and what it is; every other file, and every link, is somebody
else's. No link is followed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from medallion_assets.delta import log
from medallion_assets.delta.batches import table_of_quarantine
from medallion_assets.delta.errors import DamagedTable, UnusablePath
from medallion_assets.delta.rollback import FILE as FORMAT
from medallion_assets.lake.paths import Lake
from medallion_assets.settings import USERS, user_of
from medallion_assets.sources.bad_records import FOLDER as BAD_RECORDS
from medallion_assets.sources.cleaning import lakes_beside, readers_in
from medallion_assets.sources.load_target import LAYERS, OF_CHECKPOINT
from medallion_assets.storage import path_of, storage_of
from medallion_assets.storage.lease import WRITERS
from medallion_assets.storage.port import FOLDER

SIMULATED = ".simulated"
"""The file of a pipeline's landing zones that lists what ``medallion land`` put there."""

BATCH = re.compile(r"\d{8}T\d{6}-(?:(\w+)\.)?(\w+\.\w+\.\w+)-\d+")
"""The name of a micro-batch's folder of bad records: the user and the table in it."""

OF_ENGINE = {"_state": "checkpoint", "_ledger": "ledger", "_staging": "staging"}
LAKE_FORMAT = "lake format"
OF_LAKE = {"_events": "event log", "_streams": "streams", FORMAT: LAKE_FORMAT}
OF_DELTA = re.compile(r".*\.(parquet|bin|crc)")
NOT_OURS = "not of this lake"
KINDS = ("table", "quarantine", "landing", "simulated landing", "checkpoint", "bad records", "ledger",
         "staging", *OF_LAKE.values(), NOT_OURS)  # fmt: skip


@dataclass(frozen=True)
class Resource:
    """A table, quarantine, file or folder in a lake, or one that its loads made elsewhere.

    Attributes:
        kind: One of ``KINDS``.
        name: The table's key, the landing zone, or the path below the lake.
        path: Its folder or file.
        rows: Rows of a table or quarantine, and bad records; None for everything else.
        files: How many files it consists of.
        paths: The files.
    """

    kind: str
    name: str
    path: str
    rows: int | None
    files: int
    paths: tuple[str, ...] = field(repr=False)

    @property
    def is_made_here(self) -> bool:
        """Return true where the lake's own runs and loads made it."""
        return self.kind not in (NOT_OURS, "landing", "simulated landing")


def resources_of(lake: Lake) -> list[Resource]:
    """Return the resources in a lake and its landing zones, and those of its loads elsewhere."""
    places: dict[tuple[str, str, str], list[str]] = {}
    known: dict[tuple[str, ...], bool] = {}
    for path in _files(lake.root, passes=(USERS, WRITERS)):
        kind, name, depth = _belongs(lake.root, path.relative_to(lake.root).parts, known)
        if path.is_symlink():
            kind, name, depth = NOT_OURS, str(path.relative_to(lake.root)), 0
        folder = lake.root.joinpath(*path.relative_to(lake.root).parts[:depth]) if depth else path
        places.setdefault((kind, name, str(folder)), []).append(str(path))
    for kind, name, place, path in (*_elsewhere(lake), *_landed(lake)):
        if path.is_symlink():
            continue
        places.setdefault((kind, name, place), []).append(str(path))
    found = [
        Resource(kind, name, folder, _rows(kind, folder, paths), len(paths), tuple(paths))
        for (kind, name, folder), paths in places.items()
    ]
    return sorted(found, key=lambda each: (KINDS.index(each.kind), each.name))


def _files(folder: Path, passes: tuple[str, ...] = ()) -> Iterator[Path]:
    """Return everything below a folder that is no folder; a link is one such thing."""
    for found in storage_of(str(folder)).list(str(folder)):
        if found.name not in passes:
            if found.kind == FOLDER:
                yield from _files(path_of(found.path))
            else:
                yield path_of(found.path)


def _belongs(root: Path, parts: tuple[str, ...], known: dict[tuple[str, ...], bool]) -> tuple[str, str, int]:
    """Return a file's kind, its resource, and how many parts of its path name the resource."""
    foreign = (NOT_OURS, "/".join(parts), 0)
    if parts[0] in OF_LAKE:
        return OF_LAKE[parts[0]], parts[0], 1
    if parts[0].startswith("_") or len(parts) < 4:
        return foreign
    pipeline, area, *below = parts
    if area in OF_ENGINE:
        depth = 4 if area == "_state" else 3
        return OF_ENGINE[area], "/".join((pipeline, *parts[2:depth])), depth
    user, table = _bad_records(parts)
    if table:
        is_own = (user, table.split(".")[0]) == (user_of(root), pipeline)
        return ("bad records", "/".join(parts[:-2]), len(parts) - 2) if is_own else foreign
    if "_delta_log" not in below and not OF_DELTA.fullmatch(parts[-1]):
        return foreign
    place = parts[:3]
    if place not in known:
        known[place] = _is_made_here(root, *place)
    kind = "quarantine" if area == "quarantine" else "table"
    return (kind, "/".join(place), 3) if known[place] else foreign


def _bad_records(parts: tuple[str, ...]) -> tuple[str, str]:
    """Return the user and the table whose bad records a file holds; empty for another file."""
    is_part = re.fullmatch(r"\.?(part-.*|_SUCCESS.*)", parts[-1])
    batch = BATCH.fullmatch(parts[-3]) if is_part and parts[-2] == BAD_RECORDS else None
    return (batch[1] or "", batch[2]) if batch else ("", "")


def _is_made_here(root: Path, pipeline: str, area: str, table: str) -> bool:
    """Return true where a run or load of this lake committed to a Delta table."""
    path = root / pipeline / area / table
    try:
        if area == "quarantine":
            return bool(table_of_quarantine(path))
        return any("run_id" in log.commit_metadata_of(info) for info in log.newest_commits(path))
    except (DamagedTable, UnusablePath):
        return any(_has_state(root, pipeline, layer, table) for layer in LAYERS)


def _has_state(root: Path, pipeline: str, layer: str, table: str) -> bool:
    """Return true where a writer of ours ever held the lease of a table."""
    return (root / pipeline / "_state" / layer / table).is_dir()


def _elsewhere(lake: Lake) -> Iterator[tuple[str, str, str, Path]]:
    """Return what loads keep outside of the lake: notebooks' checkpoints, and bad records."""
    others = {r.ledger for each in lakes_beside(lake.root) if each != lake.root for r in readers_in(each)}
    seen: set[Path] = set()
    for reader in readers_in(lake.root):
        # A person may have named a folder by a link: that one is followed, and none below it.
        checkpoint, folder = reader.ledger.parent.resolve(), path_of(reader.bad_records)
        if not checkpoint.is_relative_to(lake.root) and reader.ledger not in others:
            parts = [checkpoint / name for name in OF_CHECKPOINT if not (checkpoint / name).is_symlink()]
            for path in (found for part in parts for found in _files(part)):
                yield "checkpoint", str(checkpoint), str(checkpoint), path
        if folder.is_absolute() and folder not in seen and not folder.resolve().is_relative_to(lake.root):
            seen.add(folder)
            for path in _files(folder.resolve()):
                user, table = _bad_records(path.parts)
                if table and user == user_of(lake.root) and _has_state(lake.root, *table.split(".")):
                    yield "bad records", str(path.parents[1]), str(path.parents[1]), path


def _landed(lake: Lake) -> Iterator[tuple[str, str, str, Path]]:
    """Return the files of the landing zones, those that were simulated apart."""
    landing = str(lake.settings.landing)
    for pipeline in storage_of(landing).list(landing):
        if pipeline.kind != FOLDER or pipeline.name == USERS:
            continue
        zone = path_of(pipeline.path)
        simulated = _simulated(zone)
        for path in _files(zone):
            source = path.relative_to(zone).parts[0] if path.parent != zone else ""
            name = f"{pipeline.name}/{source}".rstrip("/")
            kind = "simulated landing" if path in simulated else "landing"
            yield kind, name, str(zone / source), path


def _simulated(zone: Path) -> set[Path]:
    """Return the files of a pipeline's landing zones that are as ``medallion land`` wrote them."""
    file = zone / SIMULATED
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    written = {(zone / name, digest) for digest, name in (line.split(" ", 1) for line in lines)}
    there = {(path, sha256(path.read_bytes()).hexdigest()) for path, _ in written if path.is_file()}
    return {path for path, _ in written & there} | {file}


def _rows(kind: str, folder: str, paths: list[str]) -> int | None:
    try:
        if kind in ("table", "quarantine"):
            return log.row_count(path_of(folder))
    except DamagedTable:
        return None
    if kind != "bad records":
        return None
    return sum(path_of(path).read_bytes().count(b"\n") for path in paths if path.endswith(".json"))
