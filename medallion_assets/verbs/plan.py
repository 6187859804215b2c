"""``plan``: what the next run would take, and what changed code asks for; read from logs alone."""

from collections.abc import Iterator

from medallion_assets.delta import log
from medallion_assets.ingestion import unseen_files
from medallion_assets.ingestion.discovery import Look
from medallion_assets.tables.declaration.table import Table
from medallion_assets.tables.replaying.replay import is_pending
from medallion_assets.tables.standing.arrivals import is_filled
from medallion_assets.tables.standing.code import code_version, committed_code
from medallion_assets.tables.standing.lake import Lake
from medallion_assets.tables.standing.starts import position
from medallion_assets.tables.writing.waiting import why_not
from medallion_assets.verbs.asked import Asked, Spark, Told, downstream_of


def plan(table: Table, lake: Lake, spark: Spark, asked: Asked) -> Told:
    """Says what a run would read and write, whether the code changed since, and which verb that needs."""
    files = _new_files(table, lake)
    waits = why_not(table, lake)
    words = list(_words(table, lake, files, waits))
    numbers = {"new_files": files, "code": code_version(table), "code_of_table": committed_code(table, lake)}
    moves = bool(files) or not waits
    reads = _reads(table) if moves else ""
    writes = f"{table.key} and its quarantine" if moves else ""
    return Told(
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
        yield f"takes its upstream's changes after version {position(table, lake).version}, up to {upstream}"
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
    look = Look(lake.settings.settle_seconds)
    folder = lake.landing(table.pipeline, table.source)
    return len(unseen_files(folder, lake.ledger(table), table.source, look))


def _reads(table: Table) -> str:
    return ", ".join([*(up.key for up in table.upstream), *(["landing files"] if table.source else [])])
