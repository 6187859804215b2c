"""What a person asks of tables beyond taking what is new; each verb can say first what it would do.

Every verb is ``verb(table, lake, spark, asked) -> VerbResult``, named the same on the command line, in
Dagster's launchpad and here.
"""

from medallion_assets.operations.accept_changes import accept_changes
from medallion_assets.operations.audit import audit
from medallion_assets.operations.doctor import doctor
from medallion_assets.operations.full_refresh import full_refresh
from medallion_assets.operations.maintain import maintain
from medallion_assets.operations.plan import plan
from medallion_assets.operations.quarantine import discard, replay
from medallion_assets.operations.reprocess import reprocess
from medallion_assets.operations.requests import VerbRequest, VerbResult
from medallion_assets.operations.reset import reset
from medallion_assets.operations.reset_checkpoint import reset_checkpoint
from medallion_assets.operations.undo import undo
from medallion_assets.operations.validate import validate

VERBS = {
    verb.__name__: verb
    for verb in (plan, full_refresh, reset_checkpoint, reprocess, replay, discard, validate, reset, maintain,
                 doctor, undo, audit, accept_changes)
}  # fmt: skip

__all__ = ["VERBS", "VerbRequest", "VerbResult", *VERBS]
