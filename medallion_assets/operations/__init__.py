"""Operations on tables: plan, doctor, audit, replay, full_refresh, undo, reset and others.

Each is ``verb(table, lake, spark, request) -> VerbResult``, under one name on the command line, in Dagster's
launchpad and here; with ``request.dry_run`` it only reports what it would do.
"""

from medallion_assets.declare.table import Table
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
    "plan": "call its load, which takes what is new; `medallion files` shows what it has taken",
    "full_refresh": "bronze is computed from no table; load its files into a table of another name",
    "undo": "only a full refresh is undone; Delta's RESTORE takes a table back to a version",
    "reset_checkpoint": "remove the folder `stream` beside its ledger and load again; no row is doubled",
    "reprocess": 'load with allow_overwrites="replace" and `touch` the file; its rows are replaced',
    "validate": "COPY INTO's VALIDATE, or copy_into(validate=...), checks files and writes nothing",
    "accept_changes": "load the files that are left into a table of another name",
    "reset": "run `medallion sql 'DROP TABLE {name}'`, and call the load again",
}
"""Verbs of declarations and their runs, and what serves where a notebook's loads fill the table."""


def carry_out(verb: str, table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Carry out an operation and return its result; an error becomes a failed result of one paragraph."""
    if isinstance(lake, LoadedLake) and verb in OF_DECLARED:
        instead = OF_DECLARED[verb].format(name=table.key.replace("/", "."))
        return refused(table, f"loads from a notebook fill it, and {verb} is for declared tables: {instead}")
    try:
        return VERBS[verb](table, lake, spark, request)
    except Exception as error:
        return VerbResult(table.key, failure_text(table, lake, error), well=False)
