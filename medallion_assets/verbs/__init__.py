"""What a person asks of tables beyond taking what is new; each verb can say first what it would do.

Every verb is ``verb(table, lake, spark, asked) -> Told``, named the same on the command line, in Dagster's
launchpad and here.
"""

from medallion_assets.verbs.asked import Asked, Told
from medallion_assets.verbs.audit import audit
from medallion_assets.verbs.doctor import doctor
from medallion_assets.verbs.full_refresh import full_refresh
from medallion_assets.verbs.maintain import maintain
from medallion_assets.verbs.plan import plan
from medallion_assets.verbs.quarantine import discard, replay
from medallion_assets.verbs.reprocess import reprocess
from medallion_assets.verbs.reset import reset
from medallion_assets.verbs.reset_checkpoint import reset_checkpoint
from medallion_assets.verbs.undo import undo
from medallion_assets.verbs.validate import validate

VERBS = {
    verb.__name__: verb
    for verb in (plan, full_refresh, reset_checkpoint, reprocess, replay, discard, validate, reset, maintain,
                 doctor, undo, audit)
}  # fmt: skip

__all__ = ["VERBS", "Asked", "Told", *VERBS]
