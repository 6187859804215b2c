"""``plan``: what the next run would take, and what changed code asks for; read from logs alone."""

from collections.abc import Iterator

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.arrivals import is_filled
from medallion_assets.lake.code_version import code_version, committed_code
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import position
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, downstream_of
from medallion_assets.replay.replay import is_pending
from medallion_assets.runtime.has_work import why_not
from medallion_assets.sources import unseen_files
from medallion_assets.sources.discovery import DiscoveryOptions


def plan(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Say what a run would read and write, whether the code changed since, and which verb that needs."""
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
        yield "a replay was begun and is ended first"
    if files:
        yield f"{files} new files are taken"
    elif waits:
        yield waits
    else:
        upstream = log.version(lake.upstream_log(table))
        yield f"takes its upstream's changes after version {position(table, lake)}, up to {upstream}"
    made_by = committed_code(table, lake)
    if made_by and made_by != code_version(table):
        yield _of_changed_code(table)


def _of_changed_code(table: Table) -> str:
    if table.source:
        return "its code changed: new files are read by it; for old ones run reprocess"
    if table.stateful:
        return "its code changed, and its state may not fit: run full_refresh"
    return "its code changed: its checkpoint fits, new rows go by it; for old ones run full_refresh"


def _new_files(table: Table, lake: Lake) -> int:
    if not table.source or is_filled(table, lake):
        return 0
    look = DiscoveryOptions(lake.settings.settle_seconds)
    folder = lake.landing(table.pipeline, table.source)
    return len(unseen_files(folder, lake.ledger(table), table.source, look))


def _reads(table: Table) -> str:
    return ", ".join([*(up.key for up in table.upstream), *(["landing files"] if table.source else [])])
