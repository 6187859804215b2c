"""``plan``: what the next run would take, and what a change of the code needs; reads logs only."""

from collections.abc import Iterator

import sqlglot
from sqlglot import exp

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.arrivals import is_filled
from medallion_assets.lake.code_version import changed_parts, code_version, committed_code
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import position
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of
from medallion_assets.replay.replay import is_pending
from medallion_assets.runtime.has_work import why_not
from medallion_assets.sources import unseen_files
from medallion_assets.sources.discovery import DiscoveryOptions


def plan(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Say what a run would read and write, what changed in the code since, and which command that needs."""
    files = _new_files(table, lake)
    waits = why_not(table, lake)
    words = list(_words(table, lake, files, waits))
    numbers = {"new_files": files, "code": code_version(table), "code_of_table": committed_code(table, lake)}
    moves = bool(files) or not waits
    reads = _reads(table) if moves else ""
    writes = f"{table.key} and its quarantine" if moves else ""
    return VerbResult(
        table.key, "; ".join(words), reads, writes, downstream_of(table) if moves else (), True, numbers
    )


def _words(table: Table, lake: Lake, files: int, waits: str) -> Iterator[str]:
    if is_pending(table, lake):
        yield "a replay is not finished: the run finishes it first"
    if files:
        yield f"{files} new files are loaded"
    elif waits:
        yield waits
    else:
        upstream = log.version(lake.upstream_log(table))
        yield f"takes its upstream's changes after version {position(table, lake)}, up to {upstream}"
    changed = changed_parts(table, lake)
    if changed:
        yield _of_changed_code(table, lake, changed)


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
