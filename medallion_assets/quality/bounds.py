"""How many rows of a batch may break a rule, judged before any of it is published."""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from medallion_assets.declare.errors import ExpectationFailed
from medallion_assets.declare.expectations import Expectation
from medallion_assets.declare.table import Table
from medallion_assets.quality.judge import OUTCOMES, counted


def within_bounds(verdict: DataFrame, table: Table) -> DataFrame:
    """Return judged rows as they are, once no more of them are known to break a rule than it allows.

    Raises:
        ExpectationFailed: More do; nothing of the batch was written.
    """
    if all(rule.at_most is None for rule in table.expectations):
        return verdict
    kept = verdict.localCheckpoint()
    refuse_beyond_bounds(counted(kept, table), table)
    return kept


def refuse_beyond_bounds(counts: Mapping[str, int], table: Table) -> None:
    """Raise where the counts of ``judge.counters`` say that more rows broke a rule than it allows.

    Raises:
        ExpectationFailed: Names the rule, the rows and the bound.
    """
    rows = sum(counts.get(word, 0) for word in OUTCOMES)
    for rule in table.expectations:
        broken = counts.get(f"rule:{rule.name}", 0)
        if not rule.allows(broken, rows):
            raise ExpectationFailed(_too_many(table.key, rule, broken, rows))


def _too_many(key: str, rule: Expectation, broken: int, rows: int) -> str:
    bound = f"{rule.at_most:g}{' %' if rule.in_percent else ''}"
    return (
        f"{key}: {broken} of {rows} rows of the batch broke {rule.name} ({rule.predicate}), and at most "
        f"{bound} may. Nothing of the batch was written and nothing is lost: mend the data or the rule, and "
        "run again."
    )
