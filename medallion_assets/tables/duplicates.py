"""Which rows of a judged micro-batch come again: for ever, or within a horizon of event time."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.tables.table import Table

GOOD = "_outcome = 'good'"


def without_duplicates(marked: DataFrame, names: tuple[str, ...], existing: DataFrame | None) -> DataFrame:
    """Marks good rows whose key stands already, or stands earlier in the batch.

    The earliest wins: by batch and by the source file's time where the rows carry them, by arrival else.
    """
    keys = [F.col(key) for key in names]
    order = [F.col(c) for c in ("_batch_id", "_source_modified_at", "_source_file") if c in marked.columns]
    by_key = Window.partitionBy(F.expr(GOOD), *keys).orderBy(*order, F.monotonically_increasing_id())
    numbered = marked.withColumn("_repeated", F.row_number().over(by_key) > 1)
    if existing is not None:
        held = existing.select(*names).distinct().withColumn("_held", F.lit(True))
        numbered = numbered.join(held, list(names), "left")
        numbered = numbered.withColumn("_repeated", F.expr("_repeated OR _held IS NOT NULL"))
    return _told(numbered, marked.columns)


def without_near_duplicates(marked: DataFrame, table: Table, existing: DataFrame | None) -> DataFrame:
    """Marks good rows of whose key another stands, or comes earlier in the batch, within the horizon."""
    time, horizon = F.col(table.unique_over), F.expr(f"INTERVAL {table.unique_within}")
    by_key = Window.partitionBy(F.expr(GOOD), *table.unique_by).orderBy(time)
    repeated = F.coalesce(F.lag(time).over(by_key) + horizon >= time, F.lit(False))
    numbered = marked.withColumn("_repeated", repeated)
    if existing is not None:
        numbered = _near_those_that_stand(numbered, table, existing)
    return _told(numbered, marked.columns)


def _near_those_that_stand(numbered: DataFrame, table: Table, existing: DataFrame) -> DataFrame:
    """Marks the rows that have one of their key in the table within the horizon, before or after."""
    time, horizon = F.col(table.unique_over), F.expr(f"INTERVAL {table.unique_within}")
    then = F.col("_then")
    held = existing.select(*(F.col(k).alias(f"_held_{k}") for k in table.unique_by),
                           F.col(table.unique_over).alias("_then"))  # fmt: skip
    first = numbered.agg(F.min(time)).first()
    if first is None or first[0] is None:
        return numbered
    # The table's files say from when to when they hold rows: older ones are not opened.
    held = held.where(then >= F.lit(first[0]) - horizon)
    near = (then + horizon >= time) & (then - horizon <= time)
    for key in table.unique_by:
        near = near & (F.col(key) == F.col(f"_held_{key}"))
    stands = numbered.join(held, near, "left_semi").withColumn("_repeated", F.lit(True))
    return stands.unionByName(numbered.join(held, near, "left_anti"))


def _told(numbered: DataFrame, columns: list[str]) -> DataFrame:
    outcome = F.when(F.expr(f"{GOOD} AND _repeated"), F.lit("duplicate")).otherwise(F.col("_outcome"))
    return numbered.withColumn("_outcome", outcome).select(*(F.col(f"`{c}`") for c in columns))
