"""Each check a table is judged by: it holds, and fails once its cause is planted, and no other does."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, stream
from medallion_assets.quality.verdicts import verdicts
from medallion_assets.runs.run import refresh
from medallion_assets_tests.shop import ABOVE_ZERO, json_lines

pytestmark = pytest.mark.spark


def click(number, day=1, **more):
    return {"id": number, "total": 5, "at": f"2024-01-{day:02d}T00:00:00Z"} | more


def tables():
    shop = Pipeline("shop")
    source = shop.landing("clicks", format="json", infer_column_types=True, schema_hints="at TIMESTAMP")

    @shop.bronze()
    def clicks(files=source):
        """One row per click, as it landed."""
        return files

    @shop.silver(unique_by="id", expectations=[ABOVE_ZERO])
    def clean(clicks=stream(clicks)):
        """One row per click."""
        return clicks.select("id", "total", "at")

    @shop.gold(output_mode="update", unique_by="window", row_count_column="clicks")
    def days(clean=stream(clean, event_time="at", watermark="1 hour")):
        """One row per day."""
        return clean.groupBy(F.window("at", "1 day").alias("window")).agg(F.count("*").alias("clicks"))

    return clicks, clean, days


class Planted:
    """What is done to a lake that was well."""

    def __init__(self, drop, lake, spark, number):
        self.drop, self.lake, self.spark, self.number = drop, lake, spark, number

    def click(self, day=21, **more):
        """Lands a click that is new, in a column that is new with the first of them."""
        told = click(9 + self.number, day, tip=1, **more)
        self.drop("shop/clicks", f"planted-{self.number}.json", json.dumps(told))

    def sql(self, words, table):
        self.spark.sql(words.format(f"delta.`{self.lake.path(table)}`"))


PLANTS = {
    "every_file_taken": lambda p, _: p.drop("shop/clicks", "cut.json.gz", b"\x1f\x8b\x08\x00cut"),
    "schema_unchanged": lambda p, _: p.click(),
    "nothing_rescued": lambda p, _: p.click(total="many"),
    "above_zero": lambda p, _: p.click(total=-1),
    "no_late_rows": lambda p, _: p.click(day=1),
    "unique_keys": lambda p, t: p.sql("UPDATE {} SET id = 1 WHERE id = 2", t[1]),
    "conservation": lambda p, t: p.sql("DELETE FROM {} WHERE id = 1", t[1]),
}
ALSO = {"nothing_rescued": {"schema_unchanged", "above_zero"}}
"""A mistyped field is one no column took, a column of another type, and NULL where a rule wants a number."""


OF_A_RUN = ("schema_unchanged", "nothing_rescued", "above_zero", "no_late_rows")
"""Checks of the last run: in one lake, one after another; each tells of its own cause alone."""


@pytest.mark.parametrize("checks", [OF_A_RUN, *((c,) for c in PLANTS if c not in OF_A_RUN)], ids="-".join)
def test_a_check_fails_once_its_cause_is_planted_and_no_other_does(drop, lake, spark, checks):
    chain = tables()

    def failed():
        for table in chain:
            refresh(table, lake, lambda: spark)
        return {v.name for table in chain for v in verdicts(table, lake) if not v.passed}

    drop("shop/clicks", "1.json", json_lines(click(1), click(2), click(3, day=9)))
    failed()
    # A second run: what came first is no news any more.
    drop("shop/clicks", "2.json", json.dumps(click(4, day=20)))
    assert failed() == set()
    for number, check in enumerate(checks):
        PLANTS[check](Planted(drop, lake, spark, number), chain)
        assert failed() == {check} | ALSO.get(check, set())
