"""A gate before publish: a batch is judged as a whole before anyone can read it."""

from medallion_assets.declare.errors import GateClosed
from medallion_assets.declare.table import Table
from medallion_assets.lake.staging import StagedLake
from medallion_assets.quality.verdicts import verdicts


def refuse_unfit(table: Table, stage: StagedLake) -> None:
    """Raise where a check that blocks does not hold in the staged table.

    Raises:
        GateClosed: Names the checks.
    """
    broken = [v for v in verdicts(table, stage) if v.blocking and not v.passed]
    if broken:
        words = "; ".join(f"{v.name}: {v.words}" for v in broken)
        raise GateClosed(
            f"{table.key}: judged before anyone could read it, and kept back: {words}. Nothing was published "
            "and nothing is lost: mend upstream or the rule, and run again."
        )
