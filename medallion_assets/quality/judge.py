"""Judges the rows of a micro-batch in one pass: good, quarantined, duplicate, dropped.

Frames out carry the query's columns and then ``working.BROKEN`` ARRAY<STRING> (names of the rules broken)
and ``working.OUTCOME`` STRING (``good``, ``quarantine``, ``drop`` or ``duplicate``).
"""

import re

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.expectations import Expectation
from medallion_assets.declare.table import Table
from medallion_assets.delta import working
from medallion_assets.quality.duplicates import without_duplicates, without_near_duplicates
from medallion_assets.quality.history import with_ties_told
from medallion_assets.quality.row_rules import with_repeats_told

CHECK_PREFIX = "_check_"
OUTCOMES = ("good", "quarantine", "drop", "duplicate")
CHECK_NAME = re.compile(rf"\b{CHECK_PREFIX}\w+")
"""A column made for rules, in a predicate."""


def judged(rows: DataFrame, table: Table, existing: DataFrame | None) -> DataFrame:
    """Return the rows with what becomes of each; ``existing`` is the table before this batch."""
    rows = with_ties_told(rows, table.scd) if table.scd else rows
    rows = with_repeats_told(rows, table, existing)
    names = [F.when(_broken(e), F.lit(e.name)) for e in table.expectations]
    broken = (
        F.filter(F.array(*names), lambda name: name.isNotNull()) if names else F.array().cast("array<string>")
    )
    marked = rows.withColumn(working.BROKEN, broken).withColumn(working.OUTCOME, _outcome(table.expectations))
    if table.unique_within:
        return without_near_duplicates(marked, table, existing)
    once = table.counted_once_by
    return without_duplicates(marked, once, existing) if once else marked


def written_columns(rows: DataFrame) -> list[str]:
    """Return the columns that go into the table: all but the judge's own and those made for rules."""
    ours = {working.BROKEN, working.OUTCOME}
    return [c for c in rows.columns if c not in ours and not c.startswith(CHECK_PREFIX)]


def counted(judged_rows: DataFrame, table: Table) -> dict[str, int]:
    """Return the counts of a judged frame that ``counters`` are."""
    found = judged_rows.agg(*counters(table)).first()
    return {name: int(n) for name, n in found.asDict().items()} if found else {}


def counters(table: Table) -> list[Column]:
    """Return the aggregates that count a judged frame: by outcome, and by rule under ``rule:<name>``."""
    by_outcome = [F.count_if(F.col(working.OUTCOME) == word).alias(word) for word in OUTCOMES]
    by_rule = [
        F.count_if(F.array_contains(working.BROKEN, e.name)).alias(f"rule:{e.name}")
        for e in table.expectations
    ]
    return [*by_outcome, *by_rule]


def _broken(rule: Expectation) -> Column:
    # A predicate that is NULL has failed.
    return ~F.coalesce(F.expr(rule.predicate).cast("boolean"), F.lit(False))


def _outcome(rules: tuple[Expectation, ...]) -> Column:
    outcome = F.lit("good")
    for word in ("drop", "quarantine"):
        for rule in rules:
            if rule.on_violation == word:
                outcome = F.when(_broken(rule), F.lit(word)).otherwise(outcome)
    for rule in rules:
        if rule.on_violation == "fail":
            message = F.lit(f"expectation {rule.name} ({rule.predicate}) was broken and says fail")
            outcome = F.when(_broken(rule), F.raise_error(message)).otherwise(outcome)
    return outcome
