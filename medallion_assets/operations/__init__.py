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


OF_LOADED = ("replay", "discard", "audit", "maintain")
"""The verbs of tables that notebooks' loads fill; the others are of declarations and their runs."""


def carry_out(verb: str, table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Carry out an operation and return its result; an error becomes a failed result of one paragraph."""
    if isinstance(lake, LoadedLake) and verb not in OF_LOADED:
        why = f"it is filled by loads from a notebook, and {verb} is for declared tables: call the load again"
        folders = f"{lake.path(table)}, {lake.quarantine(table)} and {lake.target.state}"
        return refused(table, f"{why}, or remove {folders} first to begin anew")
    try:
        return VERBS[verb](table, lake, spark, request)
    except Exception as error:
        return VerbResult(table.key, failure_text(table, lake, error), well=False)
