"""Rules of keys and references that refuse single rows: what the judge sees, and looks up, for them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.keys import of_keys
from medallion_assets.ingestion.quarantine import JOIN, KEY
from medallion_assets.tables.duplicates import arrival
from medallion_assets.tables.expectations import Expectation, expect
from medallion_assets.tables.set_rules import SetRule
from medallion_assets.tables.table import Read, Table


def by_row(rules: Sequence[SetRule]) -> Iterator[Expectation]:
    """Gives what rows are judged by: the columns these predicates speak of are made for each batch."""
    for rule in rules:
        if rule.judges_rows:
            refers = rule.kind == "references"
            column = f"_check_{rule.name}" + ("_matched" if refers else "")
            yield replace(expect(rule.name, column, rule.otherwise), reason=JOIN if refers else KEY)


def looked_up(rules: Sequence[SetRule]) -> Iterator[tuple[str, Read]]:
    """Gives the tables that rows are judged by, as static inputs the query takes no frame of."""
    for rule in rules:
        if rule.judges_rows and rule.kind == "references":
            told = Read("static", rule.other, on=rule.columns, unmatched="quarantine", asked_by=rule.name)
            yield rule.name, told


def with_repeats_told(rows: DataFrame, table: Table, existing: DataFrame | None) -> DataFrame:
    """Gives rows with ``_check_<rule>`` for each rule of ``one_each``: false where its values stand already.

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
