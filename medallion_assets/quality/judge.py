"""Judge the rows of a micro-batch in one pass: good, quarantined, duplicate, dropped.

Frames out carry the query's columns and then ``working.BROKEN`` ARRAY<STRING> (names of the rules broken)
and ``working.OUTCOME`` STRING (``good``, ``quarantine``, ``drop`` or ``duplicate``).
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.errors import ExpectationFailed
from medallion_assets.declare.expectations import Expectation
from medallion_assets.declare.table import Table
from medallion_assets.delta import working
from medallion_assets.delta.names import of_keys, quoted
from medallion_assets.quality.history import with_ties_marked
from medallion_assets.session.frames import is_local

GOOD = f"{working.OUTCOME} = 'good'"


def without_duplicates(marked: DataFrame, names: tuple[str, ...], existing: DataFrame | None) -> DataFrame:
    """Mark as duplicates the good rows whose key is in the table already or comes earlier in the batch.

    The earliest row of a key is kept: by batch and source file time where the rows have them, else by
    arrival.
    """
    keys = [F.col(key) for key in names]
    by_key = Window.partitionBy(F.expr(GOOD), *keys).orderBy(*arrival(marked))
    numbered = marked.withColumn(working.REPEATED, F.row_number().over(by_key) > 1)
    if existing is not None:
        held = existing.select(*names).distinct().withColumn(working.HELD, F.lit(True))
        numbered = numbered.join(held, list(names), "left")
        numbered = numbered.withColumn(
            working.REPEATED, F.expr(f"{working.REPEATED} OR {working.HELD} IS NOT NULL")
        )
    return _with_duplicates(numbered, marked.columns)


def arrival(rows: DataFrame) -> list[Column]:
    """Return the columns that order rows by arrival: batch and file where known, else the reading order."""
    known = [F.col(c) for c in ("_batch_id", "_source_modified_at", "_source_file") if c in rows.columns]
    return [*known, F.monotonically_increasing_id()]


def without_near_duplicates(marked: DataFrame, table: Table, existing: DataFrame | None) -> DataFrame:
    """Mark as duplicates the good rows that come within ``unique_within`` after a kept row of their key.

    For rows that arrive in the order of their time, the result does not depend on the batch boundaries.
    """
    rows = marked.withColumn(working.REPEATED, F.lit(False))
    if existing is not None:
        rows = _near_existing(rows, table, existing)
    time, keys = F.col(table.unique_over), [F.col(key) for key in table.unique_by]
    peers = [F.expr(f"{GOOD} AND NOT {working.REPEATED}"), *keys]
    times = F.array_sort(F.collect_list(time).over(Window.partitionBy(*peers)))
    alone = (
        F.row_number().over(Window.partitionBy(*peers, time).orderBy(F.monotonically_increasing_id())) == 1
    )
    kept = F.array_contains(_far_apart(times, table.unique_within), time) & alone
    # A row without a time is never a duplicate.
    repeated = F.col(working.REPEATED) | ~F.coalesce(kept, F.lit(True))
    return _with_duplicates(rows.withColumn(working.REPEATED, repeated), marked.columns)


def _far_apart(times: Column, horizon: str) -> Column:
    """Return the first of ascending times, and each that is more than the horizon after the last returned."""
    interval = F.expr(f"INTERVAL {horizon}")

    def and_next(kept: Column, time: Column) -> Column:
        far = F.coalesce(F.try_element_at(kept, F.lit(-1)) + interval < time, F.lit(True))
        return F.when(far, F.concat(kept, F.array(time))).otherwise(kept)

    return F.aggregate(times, F.filter(times, lambda _: F.lit(False)), and_next)


def _near_existing(numbered: DataFrame, table: Table, existing: DataFrame) -> DataFrame:
    """Mark the rows for which the table has a row of the same key within the horizon, before or after."""
    time, horizon = F.col(table.unique_over), F.expr(f"INTERVAL {table.unique_within}")
    then = F.col(working.THEN)
    held = existing.select(*(F.col(k).alias(f"{working.HELD}_{k}") for k in table.unique_by),
                           F.col(table.unique_over).alias(working.THEN))  # fmt: skip
    # As text: Python would get the time in the machine's zone, where one hour in autumn occurs twice.
    first = numbered.agg(F.min(time).cast("string")).first()
    if first is None or first[0] is None:
        return numbered
    # File statistics let Delta skip the files that hold only older rows.
    kind = numbered.select(time).schema[0].dataType
    held = held.where(then >= F.lit(first[0]).cast(kind) - horizon)
    near = (then + horizon >= time) & (then - horizon <= time)
    for key in table.unique_by:
        near = near & (F.col(key) == F.col(f"{working.HELD}_{key}"))
    duplicates = numbered.join(held, near, "left_semi").withColumn(working.REPEATED, F.lit(True))
    return duplicates.unionByName(numbered.join(held, near, "left_anti"))


def _with_duplicates(numbered: DataFrame, columns: list[str]) -> DataFrame:
    outcome = F.when(F.expr(f"{GOOD} AND {working.REPEATED}"), F.lit("duplicate")).otherwise(
        F.col(working.OUTCOME)
    )
    return numbered.withColumn(working.OUTCOME, outcome).select(*(F.col(quoted(c)) for c in columns))


def with_repeats_marked(rows: DataFrame, table: Table, existing: DataFrame | None) -> DataFrame:
    """Return rows with ``_check_<rule>`` BOOLEAN for each rule of ``one_each``: false where values repeat.

    They repeat values of the table, or of the first row of the batch that breaks no other rule.
    """
    for place, rule in enumerate(table.one_each):
        others = {r.name for r in table.one_each[place:]}
        faults = [F.expr(e.predicate).cast("boolean") for e in table.expectations if e.name not in others]
        sound = reduce(Column.__and__, (F.coalesce(f, F.lit(False)) for f in faults), F.lit(True))
        by_value = Window.partitionBy(*rule.columns).orderBy(sound.desc(), *arrival(rows))
        name = f"_check_{rule.name}"
        rows = rows.withColumn(name, F.row_number().over(by_value) == 1)
        if existing is not None:
            rows = _with_existing_marked(rows, name, existing.select(*rule.columns).distinct())
    return rows


def _with_existing_marked(rows: DataFrame, check: str, held: DataFrame) -> DataFrame:
    repeated = of_keys(rows, held, "left_semi").withColumn(check, F.lit(False))
    return repeated.unionByName(of_keys(rows, held, "left_anti"))


CHECK_PREFIX = "_check_"
OUTCOMES = ("good", "quarantine", "drop", "duplicate")
CHECK_NAME = re.compile(rf"\b{CHECK_PREFIX}\w+")
"""A column made for rules, in a predicate."""


def judged(rows: DataFrame, table: Table, existing: DataFrame | None) -> DataFrame:
    """Return the rows with ``BROKEN`` and ``OUTCOME``; ``existing`` is the table before this batch."""
    rows = with_ties_marked(rows, table.scd) if table.scd else rows
    rows = with_repeats_marked(rows, table, existing)
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
    """Return the columns that are written: all except ``BROKEN``, ``OUTCOME`` and the ``_check_`` columns."""
    ours = {working.BROKEN, working.OUTCOME}
    return [c for c in rows.columns if c not in ours and not c.startswith(CHECK_PREFIX)]


def counted(judged_rows: DataFrame, table: Table) -> dict[str, int]:
    """Return the values of ``counters`` over a judged frame, by name."""
    if is_local(judged_rows):
        return _counted_here(judged_rows, table)
    found = judged_rows.agg(*counters(table)).first()
    return {name: int(n) for name, n in found.asDict().items()} if found else {}


def _counted_here(values: DataFrame, table: Table) -> dict[str, int]:
    rows = values.select(working.OUTCOME, working.BROKEN).collect()
    outcomes, broken = Counter(row[0] for row in rows), Counter(name for row in rows for name in row[1])
    by_rule = {f"rule:{e.name}": broken[e.name] for e in table.expectations}
    return {word: outcomes[word] for word in OUTCOMES} | by_rule


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


def counted_within_bounds(verdict: DataFrame, table: Table) -> dict[str, int]:
    """Return the counts of a persisted judged frame; unpersist the frame where a rule's bound is exceeded.

    Raises:
        ExpectationFailed: More rows broke a rule than it allows.
    """
    try:
        counts = counted(verdict, table)
        refuse_beyond_bounds(counts, table)
    except BaseException:
        verdict.unpersist()
        raise
    return counts
