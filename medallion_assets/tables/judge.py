"""Judges the rows of a micro-batch in one pass: good, quarantined, duplicate, dropped.

Frames out carry the query's columns and then ``_broken`` ARRAY<STRING> (names of the rules broken)
and ``_outcome`` STRING (``good``, ``quarantine``, ``drop`` or ``duplicate``).
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.tables.expectations import Expectation
from medallion_assets.tables.history import with_ties_told
from medallion_assets.tables.table import Table

CHECK_PREFIX = "_check_"


def judged(rows: DataFrame, table: Table, existing: DataFrame | None) -> DataFrame:
    """Gives the rows with what becomes of each; ``existing`` is the table before this batch."""
    rows = with_ties_told(rows, table.keeps) if table.keeps else rows
    names = [F.when(_broken(e), F.lit(e.name)) for e in table.expectations]
    broken = (
        F.filter(F.array(*names), lambda name: name.isNotNull()) if names else F.array().cast("array<string>")
    )
    marked = rows.withColumn("_broken", broken).withColumn("_outcome", _outcome(table.expectations))
    return _without_duplicates(marked, table.counted_once_by, existing) if table.counted_once_by else marked


def written_columns(rows: DataFrame) -> list[str]:
    """Gives the columns that go into the table: all but the judge's own and those made for rules."""
    ours = {"_broken", "_outcome"}
    return [c for c in rows.columns if c not in ours and not c.startswith(CHECK_PREFIX)]


def counters(table: Table) -> list[Column]:
    """Gives the aggregates that count a judged frame: by outcome, and by rule under ``rule:<name>``."""
    by_outcome = [
        F.count_if(F.col("_outcome") == word).alias(word)
        for word in ("good", "quarantine", "drop", "duplicate")
    ]
    by_rule = [
        F.count_if(F.array_contains("_broken", e.name)).alias(f"rule:{e.name}") for e in table.expectations
    ]
    return [*by_outcome, *by_rule]


def _broken(rule: Expectation) -> Column:
    # A predicate that is NULL has failed.
    return ~F.coalesce(F.expr(rule.predicate).cast("boolean"), F.lit(False))


def _outcome(rules: tuple[Expectation, ...]) -> Column:
    outcome = F.lit("good")
    for word in ("drop", "quarantine"):
        for rule in rules:
            if rule.otherwise == word:
                outcome = F.when(_broken(rule), F.lit(word)).otherwise(outcome)
    for rule in rules:
        if rule.otherwise == "fail":
            message = F.lit(f"expectation {rule.name} ({rule.predicate}) was broken and says fail")
            outcome = F.when(_broken(rule), F.raise_error(message)).otherwise(outcome)
    return outcome


def _without_duplicates(marked: DataFrame, names: tuple[str, ...], existing: DataFrame | None) -> DataFrame:
    """Marks good rows whose key stands already, or stands earlier in the batch.

    The earliest wins: by batch and by the source file's time where the rows carry them, by arrival else.
    """
    keys = [F.col(key) for key in names]
    good = F.col("_outcome") == "good"
    order = [F.col(c) for c in ("_batch_id", "_source_modified_at", "_source_file") if c in marked.columns]
    turn = F.row_number().over(
        Window.partitionBy(good, *keys).orderBy(*order, F.monotonically_increasing_id())
    )
    numbered = marked.withColumn("_turn", turn)
    repeated = F.col("_turn") > 1
    if existing is not None:
        held = existing.select(*names).distinct().withColumn("_held", F.lit(True))
        numbered = numbered.join(held, list(names), "left")
        repeated = repeated | F.col("_held").isNotNull()
    outcome = F.when(good & repeated, F.lit("duplicate")).otherwise(F.col("_outcome"))
    return numbered.withColumn("_outcome", outcome).drop("_turn", "_held").select(*marked.columns)
