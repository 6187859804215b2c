"""``doctor``: how a table's stream is, what is missing, and the verb that mends it; read from logs alone."""

import time
from collections.abc import Iterator
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta import batches, log, progress
from medallion_assets.delta.authors import written_by_hand
from medallion_assets.delta.errors import DamagedCheckpoint, DamagedTable
from medallion_assets.delta.lease import is_held
from medallion_assets.lake.lost import is_lost
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import position
from medallion_assets.operations.before_image import remembered
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult
from medallion_assets.quality.conservation import balance
from medallion_assets.replay.replay import is_pending
from medallion_assets.sources.quarantine import held_rows

LOG_DAYS = 30
"""How long Delta keeps a version's log entry unless a table says otherwise."""


def doctor(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Say how far the stream is, how long what it needs is still kept, and what to run where it is ill."""
    try:
        return _examined(table, lake)
    except DamagedCheckpoint as error:
        return VerbResult(table.key, f"its checkpoint is damaged ({error}): run reset_checkpoint", well=False)
    except DamagedTable as error:
        return VerbResult(table.key, str(error), well=False)


def _examined(table: Table, lake: Lake) -> VerbResult:
    ills = list(_ills(table, lake))
    last = batches.newest(lake.state(table, "batches"))
    place, upstream = position(table, lake), lake.upstream_log(table)
    found = {
        "taken_up_to": place.version,
        "upstream_at": log.version(upstream),
        "days_left": days_left(upstream, place.version + 1),
        "quarantined": held_rows(lake.quarantine(table)),
        "log_bytes": _size(lake.path(table) / "_delta_log"),
        "watermark": last.watermark if last else "",
        "state_bytes": last.state_bytes if last else 0,
    }
    words = "; ".join(ills) or "well"
    return VerbResult(table.key, words, "", "", (), not ills, found)


def _ills(table: Table, lake: Lake) -> Iterator[str]:
    checkpoint, path = lake.state(table, "checkpoint"), lake.path(table)
    begun = progress.last_number(checkpoint / "commits") >= 0
    if is_lost(table, lake):
        yield "its table is gone and its checkpoint is not: run reset, then run"
        return
    if log.exists(path) and not checkpoint.exists():
        yield "its checkpoint is gone: run, and it goes on where its commits say it stands"
    if progress.is_interrupted(checkpoint) and not is_held(lake.state(table, "lease")):
        yield "a micro-batch was begun and not ended: run, and it is taken again"
    if is_pending(table, lake) and not is_held(lake.state(table, "lease")):
        yield "a replay was begun and not ended: run, and it is ended"
    place, upstream = position(table, lake), lake.upstream_log(table)
    if begun and _is_cut_off(upstream, place.version + 1):
        yield f"upstream no longer keeps the log of version {place.version + 1}: run full_refresh"
    books = balance(table, lake)
    if log.exists(path) and not books.holds and not progress.is_interrupted(checkpoint):
        yield f"its books do not hold ({books}): run audit, then full_refresh"
    for version, operation in _by_hand(table, lake)[:1]:
        yield f"version {version} was written by hand ({operation}), not by a run: run full_refresh"


def _by_hand(table: Table, lake: Lake) -> list[tuple[int, str]]:
    # What a full refresh replaced is nobody's any more; bronze is what landed, which audit recounts.
    replaced = remembered(table, lake).get("versions", {}).get("table")
    return [] if table.source else written_by_hand(lake.path(table), -1 if replaced is None else replaced)


def days_left(upstream: Path, needed: int) -> float | None:
    """Return how many days a version's log entry is still kept; None where it is not written yet."""
    entry = upstream / "_delta_log" / f"{needed:020d}.json"
    if not entry.exists():
        return None
    return round(LOG_DAYS - (time.time() - entry.stat().st_mtime) / 86400, 1)


def _is_cut_off(upstream: Path, needed: int) -> bool:
    newest = log.version(upstream)
    return newest is not None and needed <= newest and days_left(upstream, needed) is None


def _size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.iterdir() if f.is_file()) if folder.is_dir() else 0
