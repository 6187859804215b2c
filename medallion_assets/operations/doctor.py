"""``plan`` and ``doctor``: what the next run would load, and what is wrong with a table; reads logs only."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import sqlglot
from sqlglot import exp

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.changes import written_by_hand
from medallion_assets.delta.errors import DamagedCheckpoint, DamagedTable
from medallion_assets.lake.arrivals import is_filled, waiting_offsets
from medallion_assets.lake.code_version import PARTS, changed_parts, code_version, committed_code
from medallion_assets.lake.paths import Lake, is_lost
from medallion_assets.lake.position import checkpoint_agrees, has_unfinished_batch, newest_batch, position
from medallion_assets.operations.full_refresh import commits_in_force
from medallion_assets.operations.maintain import ACCEPTED
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of, many
from medallion_assets.quality.conservation import Balance, balance, explains, hand_made
from medallion_assets.replay.replay import is_pending
from medallion_assets.runtime.query_checks import query_warnings
from medallion_assets.runtime.static_changes import why_not
from medallion_assets.sources import unseen_files
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.kafka_landing import Waiting
from medallion_assets.sources.quarantine import held_rows
from medallion_assets.storage.lease import is_held


def plan(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Report what a run would read and write, what changed in the code, and which command that needs."""
    files, topic = _new_files(table, lake), waiting_offsets(table, lake)
    waits = why_not(table, lake)
    words = list(_words(table, lake, files, waits, topic))
    numbers = {
        "new_files": files,
        **({"new_offsets": topic.offsets} if topic else {}),
        "code": code_version(table),
        "code_of_table": committed_code(table, lake),
    }
    moves = bool(files or topic) or not waits
    reads = _reads(table) if moves else ""
    writes = f"{table.key} and its quarantine" if moves else ""
    return VerbResult(
        table.key, "; ".join(words), reads, writes, downstream_of(table) if moves else (), True, numbers
    )


def _words(table: Table, lake: Lake, files: int, waits: str, topic: Waiting | None) -> Iterator[str]:
    if is_pending(table, lake):
        yield "a replay was interrupted: the next run finishes it first"
    if files or topic:
        if files:
            yield f"{many(files, 'new file')} to load"
        if topic:
            yield f"{many(topic.offsets, 'new offset')} to read from its topic"
    elif waits:
        yield waits
    else:
        upstream = log.version(lake.upstream_log(table))
        yield f"loads versions {position(table, lake) + 1} to {upstream} of its upstream"
    changed = changed_parts(table, lake)
    if changed:
        yield _of_changed_code(table, lake, changed)
    yield from (f"warning: {words}" for words in query_warnings(table, lake))


def _of_changed_code(table: Table, lake: Lake, changed: list[str]) -> str:
    """Return what changed in a table's code, what that does to its rows, and to the tables downstream."""
    what = f"{' and '.join(changed)} changed{_schema_changes(table, lake)}: "
    if table.source:
        what += "new files are loaded with the new code; for old ones run reprocess"
    elif table.stateful:
        what += "the state in its checkpoint may not fit; run full_refresh"
    else:
        what += "new rows are written with the new code; for old ones run full_refresh"
    after = downstream_of(table)
    return f"{what}; then {', '.join(after)} take the changed rows with their next run" if after else what


def _schema_changes(table: Table, lake: Lake) -> str:
    """Return how a declared schema differs from the columns of the bronze table, empty where it does not."""
    if not table.source or not table.source.schema:
        return ""
    stored = dict(log.schema(lake.path(table)))
    parsed = sqlglot.parse_one(f"CREATE TABLE t ({table.source.schema})", dialect="spark")
    columns = {column.name: column.args["kind"] for column in parsed.find_all(exp.ColumnDef)}
    added = [f"{name} {kind.sql('spark')} is new" for name, kind in columns.items() if name not in stored]
    other = [
        f"{name} is {kind.sql('spark')} instead of {stored[name].upper()}"
        for name, kind in columns.items()
        if name in stored and kind != exp.DataType.build(stored[name], dialect="spark")
    ]
    gone = [f"{name} is gone" for name in stored if name not in columns and not name.startswith("_")]
    return f" ({', '.join([*added, *other, *gone])})" if added or other or gone else ""


def _new_files(table: Table, lake: Lake) -> int:
    if not table.source or is_filled(table, lake):
        return 0
    look = DiscoveryOptions(lake.settings.settle_seconds)
    folder = lake.landing(table.pipeline, table.source)
    return len(unseen_files(folder, lake.ledger(table), table.source, look))


def _reads(table: Table) -> str:
    return ", ".join([*(up.key for up in table.upstream), *(["landing files"] if table.source else [])])


KEPT, UNLESS_SAID = "delta.logRetentionDuration", "interval 30 days"
"""The property that says how long Delta keeps a version's log entry, and how long without it."""

SECONDS_OF = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}
SPAN = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(SECONDS_OF)})s?")


def doctor(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Report the stream's position, how long upstream keeps the log it needs, and what repairs it."""
    try:
        return _examined(table, lake)
    except DamagedCheckpoint as error:
        return VerbResult(
            table.key,
            f"its checkpoint is damaged ({error}); no row is lost: run reset_checkpoint",
            well=False,
        )
    except DamagedTable as error:
        return VerbResult(table.key, str(error), well=False)


def _examined(table: Table, lake: Lake) -> VerbResult:
    problems, notes = list(_problems(table, lake)), list(_notes(table, lake))
    last = newest_batch(table, lake)
    place, upstream = position(table, lake), lake.upstream_log(table)
    user = {"user_schema": lake.settings.user_schema} if lake.settings.user_schema else {}
    found = user | {
        "taken_up_to": place,
        "upstream_at": log.version(upstream),
        "days_left": days_left(upstream, place + 1),
        "quarantined": held_rows(lake.quarantine(table)),
        "log_bytes": _size(lake.path(table) / "_delta_log"),
        "watermark": last.watermark if last else "",
        "open_windows": last.open_groups if last else 0,
        "rows_in_open_windows": last.open_rows if last else 0,
        "state_bytes": last.state_bytes if last else 0,
        "checkpoint_bytes": _size(lake.state(table, "checkpoint"), whole=True),
    }
    words = "; ".join([*problems, *notes]) or "well"
    return VerbResult(table.key, words, "", "", (), not problems, found)


def _notes(table: Table, lake: Lake) -> Iterator[str]:
    """Return states that look odd but need no action: no run fails or loses anything."""
    begun = position(table, lake) >= 0 and not lake.state(table, "checkpoint").exists()
    if begun and table.stateful:
        yield "well; its checkpoint is gone, and the next run with new rows rebuilds its state"
    elif begun:
        yield "well; its checkpoint is gone, and the next run with new rows makes a new one"
    yield from (f"warning: {words}" for words in query_warnings(table, lake))


def _problems(table: Table, lake: Lake) -> Iterator[str]:
    checkpoint, path = lake.state(table, "checkpoint"), lake.path(table)
    if is_lost(table, lake):
        yield "its table is gone and its checkpoint is still there: run reset, then run"
        return
    # A checkpoint that cannot be read is a problem, though the table's commits are what counts.
    planned, at = progress.planned_position(checkpoint), position(table, lake)
    stopped = not is_held(lake.state(table, "lease"))
    died = has_unfinished_batch(table, lake) or (progress.is_interrupted(checkpoint) and planned > at)
    if _has_other_state(table, lake):
        # Spark refuses a batch whose query no longer fits its state, however often it is run.
        yield "its query has changed since its state was made: run full_refresh"
    elif died and stopped:
        yield "a micro-batch was interrupted; nothing is lost: the next run takes it again"
    if is_pending(table, lake) and stopped:
        yield "a replay was interrupted; nothing is lost: the next run finishes it"
    upstream = lake.upstream_log(table)
    if at >= 0 and _is_cut_off(upstream, at + 1):
        yield f"upstream no longer keeps the log of version {at + 1}: run full_refresh"
    books = balance(table, lake)
    lacks = log.exists(path) and not books.holds and not died
    if lacks:
        yield _of_books(table, lake, books)
    is_reported = lacks and not table.row_count_column
    by_hand = [made for made in _by_hand(table, lake) if made[1] != "DELETE" or not is_reported]
    for version, operation in by_hand[:1]:
        yield f"version {version} was written by hand ({operation}), not by a run: run full_refresh"


def _has_other_state(table: Table, lake: Lake) -> bool:
    """Return true where the state that the next batch would go on with was made by another query."""
    changed = table.stateful and {*PARTS[:2], PARTS[3]} & {*changed_parts(table, lake)}
    return bool(changed) and checkpoint_agrees(table, lake)


def _of_books(table: Table, lake: Lake, books: Balance) -> str:
    """Return why the table is out of balance, as far as the logs show, and the verb that repairs it."""
    words, made = f"its books do not hold ({books})", hand_made(table, lake)
    or_refresh = "" if table.source else ", else full_refresh"
    if not table.row_count_column and made and explains(made, books):
        first = made[0]
        return (
            f"{words}, since version {first.version} was written by hand ({first.operation}): run "
            f"accept_changes --why ... where that was meant{or_refresh}"
        )
    again = "which names the files, then reprocess them" if table.source else "then full_refresh"
    return f"{words}: run audit, {again}"


def _by_hand(table: Table, lake: Lake) -> list[tuple[int, str]]:
    """Return the commits by hand that no verb has replaced or accepted, newest first."""
    if table.source:
        # Bronze holds the landed records; its balance shows removed rows.
        return []
    path = lake.path(table)
    found = written_by_hand(commits_in_force(table, lake), path)
    accepted = _accepted_upto(path, [version for version, _ in found])
    # What was counted are rows; which values an UPDATE or MERGE changed, nobody did.
    return [made for made in found if made[0] > accepted or made[1] in ("UPDATE", "MERGE")]


def _accepted_upto(path: Path, by_hand: list[int]) -> int:
    """Return the version in which rows removed by hand were accepted last, -1 for none since these."""
    for info in log.newest_commits(path) if by_hand else ():
        if int(info["version"]) < min(by_hand):
            break
        if ACCEPTED in log.commit_metadata_of(info):
            return int(info["version"])
    return -1


def days_left(upstream: Path, needed: int) -> float | None:
    """Return for how many days a version's log entry is still kept; None where it is not written yet.

    By the retention that the table upstream has among its properties.
    """
    entry = upstream / "_delta_log" / f"{needed:020d}.json"
    if not entry.exists():
        return None
    retention = log.properties(upstream).get(KEPT, UNLESS_SAID).lower()
    kept = sum(float(number) * SECONDS_OF[unit] for number, unit in SPAN.findall(retention))
    return round((kept - (time.time() - entry.stat().st_mtime)) / 86400, 1)


def _is_cut_off(upstream: Path, needed: int) -> bool:
    newest = log.version(upstream)
    return newest is not None and needed <= newest and days_left(upstream, needed) is None


def _size(folder: Path, whole: bool = False) -> int:
    files = (folder.rglob("*") if whole else folder.iterdir()) if folder.is_dir() else ()
    return sum(f.stat().st_size for f in files if f.is_file())
