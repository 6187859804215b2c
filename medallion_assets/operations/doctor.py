"""``doctor``: how a table's stream is, what is missing, and the verb that mends it; read from logs alone."""

import time
from collections.abc import Iterator
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.authors import written_by_hand
from medallion_assets.delta.errors import DamagedCheckpoint, DamagedTable
from medallion_assets.delta.lease import is_held
from medallion_assets.lake.lost import is_lost
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import has_unfinished_batch, newest_batch, position
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult
from medallion_assets.operations.undo import last_full_refresh
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
    last = newest_batch(table, lake)
    place, upstream = position(table, lake), lake.upstream_log(table)
    found = {
        "taken_up_to": place,
        "upstream_at": log.version(upstream),
        "days_left": days_left(upstream, place + 1),
        "quarantined": held_rows(lake.quarantine(table)),
        "log_bytes": _size(lake.path(table) / "_delta_log"),
        "watermark": last.watermark if last else "",
        "state_bytes": last.state_bytes if last else 0,
    }
    words = "; ".join(ills) or "well"
    return VerbResult(table.key, words, "", "", (), not ills, found)


def _ills(table: Table, lake: Lake) -> Iterator[str]:
    path, at, upstream = lake.path(table), position(table, lake), lake.upstream_log(table)
    if is_lost(table, lake):
        yield "its table is gone and its checkpoint is not: run reset, then run"
        return
    # A checkpoint that cannot be read is told, though the table's commits are what counts.
    progress.planned_position(lake.state(table, "checkpoint"))
    idle = not is_held(lake.state(table, "lease"))
    died = has_unfinished_batch(table, lake)
    if died and idle:
        yield "a micro-batch was begun and not ended: run, and it is taken again"
    if is_pending(table, lake) and idle:
        yield "a replay was begun and not ended: run, and it is ended"
    if at >= 0 and _is_cut_off(upstream, at + 1):
        yield f"upstream no longer keeps the log of version {at + 1}: run full_refresh"
    books = balance(table, lake)
    if log.exists(path) and not books.holds and not died:
        yield f"its books do not hold ({books}): run audit, then full_refresh"
    for version, operation in _by_hand(table, lake)[:1]:
        yield f"version {version} was written by hand ({operation}), not by a run: run full_refresh"


def _by_hand(table: Table, lake: Lake) -> list[tuple[int, str]]:
    if table.source:
        # Bronze is what landed, which audit recounts.
        return []
    # What a full refresh replaced is nobody's any more.
    refresh = last_full_refresh(table, lake)
    return written_by_hand(lake.path(table), int(refresh["version"]) if refresh else -1)


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
