"""Operations on tables: plan, doctor, audit, replay, full_refresh, undo, reset and others.

Each is ``verb(table, lake, spark, request) -> VerbResult``, under one name on the command line, in Dagster's
launchpad and here; with ``request.dry_run`` it only reports what it would do.
"""

import time
import uuid
from dataclasses import replace

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import committed_after
from medallion_assets.delta.errors import DamagedTable, UnusablePath
from medallion_assets.delta.events import Work, append_event
from medallion_assets.lake.loaded import LoadedLake
from medallion_assets.lake.paths import Lake
from medallion_assets.operations.audit import audit
from medallion_assets.operations.doctor import doctor, plan
from medallion_assets.operations.full_refresh import full_refresh, undo
from medallion_assets.operations.maintain import accept_changes, maintain
from medallion_assets.operations.reprocess import discard, replay, reprocess
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult, refused, validate
from medallion_assets.operations.reset import reset, reset_checkpoint
from medallion_assets.runtime.failures import failure_text

VERBS = {
    verb.__name__: verb
    for verb in (plan, full_refresh, reset_checkpoint, reprocess, replay, discard, validate, reset, maintain,
                 doctor, undo, audit, accept_changes)
}  # fmt: skip

__all__ = ["VERBS", "VerbRequest", "VerbResult", "carry_out", *VERBS]


OF_DECLARED = {
    "full_refresh": "bronze is computed from no table; load its files into a table of another name",
    "undo": "only a full refresh is undone, and its loads have none; `reprocess` reads chosen files again",
    "reset_checkpoint": "remove the folder `stream` beside its ledger and load again; no row is doubled",
    "accept_changes": "load the files that are left into a table of another name",
    "reset": "run `medallion sql 'DROP TABLE {name}'`, and call the load again",
}
"""Verbs of declarations and their runs, and what serves where a notebook's loads fill the table."""


READ_ONLY = {"plan", "doctor", "audit", "validate"}
"""Verbs that only report; the event log has nothing of them."""


def carry_out(verb: str, table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Carry out an operation and return its result; an error becomes a failed result of one paragraph.

    One that changed the table, or failed, is in the event log under its name.
    """
    if isinstance(lake, LoadedLake) and verb in OF_DECLARED:
        instead = OF_DECLARED[verb].format(name=table.key.replace("/", "."))
        return refused(table, f"loads from a notebook fill it, and {verb} is for declared tables: {instead}")
    request = replace(request, run_id=request.run_id or uuid.uuid4().hex)
    writes = not request.dry_run and verb not in READ_ONLY
    started, before, failed = time.monotonic(), _version(table, lake) if writes else None, None
    try:
        result = VERBS[verb](table, lake, spark, request)
    except Exception as error:
        failed = error
        result = VerbResult(table.key, failure_text(table, lake, error), well=False)
    if writes and (failed or _version(table, lake) != before):
        batches = () if failed else committed_after(lake.path(table), before)
        work = Work(request.run_id, batches, time.monotonic() - started, None, failed, verb)
        append_event(lake.root, table.key, lake.path(table), work)
    return result


def _version(table: Table, lake: Lake) -> int | None:
    """Return the table's version; None where there is none, or none that can be read."""
    try:
        return log.version(lake.path(table))
    except (DamagedTable, UnusablePath):
        return None
