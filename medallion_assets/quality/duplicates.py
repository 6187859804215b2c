"""Which rows of a judged micro-batch come again: for ever, or within a horizon of event time."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import working
from medallion_assets.delta.names import quoted

GOOD = f"{working.OUTCOME} = 'good'"


def without_duplicates(marked: DataFrame, names: tuple[str, ...], existing: DataFrame | None) -> DataFrame:
    """Marks good rows whose key stands already, or stands earlier in the batch.

    The earliest wins: by batch and by the source file's time where the rows carry them, by arrival else.
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
    return _told(numbered, marked.columns)


def arrival(rows: DataFrame) -> list[Column]:
    """Return what orders rows as they came: by batch and by file where they carry them, as read else."""
    known = [F.col(c) for c in ("_batch_id", "_source_modified_at", "_source_file") if c in rows.columns]
    return [*known, F.monotonically_increasing_id()]


def without_near_duplicates(marked: DataFrame, table: Table, existing: DataFrame | None) -> DataFrame:
    """Marks good rows that come within the horizon after one of their key that is kept.

    Rows that come in the order of their time are kept the same, however they are cut into batches.
    """
    rows = marked.withColumn(working.REPEATED, F.lit(False))
    if existing is not None:
        rows = _near_those_that_stand(rows, table, existing)
    time, keys = F.col(table.unique_over), [F.col(key) for key in table.unique_by]
    mine = [F.expr(f"{GOOD} AND NOT {working.REPEATED}"), *keys]
    times = F.array_sort(F.collect_list(time).over(Window.partitionBy(*mine)))
    alone = F.row_number().over(Window.partitionBy(*mine, time).orderBy(F.monotonically_increasing_id())) == 1
    kept = F.array_contains(_far_apart(times, table.unique_within), time) & alone
    # A row without a time is near none.
    repeated = F.col(working.REPEATED) | ~F.coalesce(kept, F.lit(True))
    return _told(rows.withColumn(working.REPEATED, repeated), marked.columns)


def _far_apart(times: Column, horizon: str) -> Column:
    """Return the first of ascending times, and each that is more than the horizon after the last returned."""
    interval = F.expr(f"INTERVAL {horizon}")

    def and_next(kept: Column, time: Column) -> Column:
        far = F.coalesce(F.try_element_at(kept, F.lit(-1)) + interval < time, F.lit(True))
        return F.when(far, F.concat(kept, F.array(time))).otherwise(kept)

    return F.aggregate(times, F.filter(times, lambda _: F.lit(False)), and_next)


def _near_those_that_stand(numbered: DataFrame, table: Table, existing: DataFrame) -> DataFrame:
    """Marks the rows that have one of their key in the table within the horizon, before or after."""
    time, horizon = F.col(table.unique_over), F.expr(f"INTERVAL {table.unique_within}")
    then = F.col(working.THEN)
    held = existing.select(*(F.col(k).alias(f"{working.HELD}_{k}") for k in table.unique_by),
                           F.col(table.unique_over).alias(working.THEN))  # fmt: skip
    first = numbered.agg(F.min(time)).first()
    if first is None or first[0] is None:
        return numbered
    # The table's files say from when to when they hold rows: older ones are not opened.
    held = held.where(then >= F.lit(first[0]) - horizon)
    near = (then + horizon >= time) & (then - horizon <= time)
    for key in table.unique_by:
        near = near & (F.col(key) == F.col(f"{working.HELD}_{key}"))
    stands = numbered.join(held, near, "left_semi").withColumn(working.REPEATED, F.lit(True))
    return stands.unionByName(numbered.join(held, near, "left_anti"))


def _told(numbered: DataFrame, columns: list[str]) -> DataFrame:
    outcome = F.when(F.expr(f"{GOOD} AND {working.REPEATED}"), F.lit("duplicate")).otherwise(
        F.col(working.OUTCOME)
    )
    return numbered.withColumn(working.OUTCOME, outcome).select(*(F.col(quoted(c)) for c in columns))
