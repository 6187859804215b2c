"""Rows whose values stand already, where a rule lets each stand once: told for the judge, batch by batch."""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta.keys import of_keys
from medallion_assets.quality.duplicates import arrival


def with_repeats_told(rows: DataFrame, table: Table, existing: DataFrame | None) -> DataFrame:
    """Return rows with ``_check_<rule>`` for each rule of ``one_each``: false where its values stand already.

    They stand in the table, or in a row of the batch that no other rule finds fault with and came first.
    """
    for place, rule in enumerate(table.one_each):
        others = {r.name for r in table.one_each[place:]}
        faults = [F.expr(e.predicate).cast("boolean") for e in table.expectations if e.name not in others]
        sound = reduce(Column.__and__, (F.coalesce(f, F.lit(False)) for f in faults), F.lit(True))
        by_value = Window.partitionBy(*rule.columns).orderBy(sound.desc(), *arrival(rows))
        told = F.row_number().over(by_value) == 1
        name = f"_check_{rule.name}"
        rows = rows.withColumn(name, told)
        if existing is not None:
            rows = _without_those_that_stand(rows, name, existing.select(*rule.columns).distinct())
    return rows


def _without_those_that_stand(rows: DataFrame, check: str, held: DataFrame) -> DataFrame:
    stands = of_keys(rows, held, "left_semi").withColumn(check, F.lit(False))
    return stands.unionByName(of_keys(rows, held, "left_anti"))
