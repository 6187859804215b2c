"""A query that gives fewer columns than its table has, or others, stops by name: no value becomes NULL."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, keep_changes, stream
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets_tests.shop import json_lines

pytestmark = pytest.mark.spark
SCHEMA = "id INT, total INT, at INT, address STRUCT<street: STRING, town: STRING>"
ORDER = {"total": 5, "at": 1, "address": {"street": "a", "town": "b"}}


def shop(
    bronze=lambda files: files, silver=lambda orders: orders.select("id", "total", "at", "address"), **more
):
    """Three tables whose queries a test changes; ``more`` is said of silver."""
    made = Pipeline("shop")

    @made.bronze()
    def orders(files=made.landing("orders", format="json", schema=SCHEMA)):  # noqa: B008
        """One row per order, as it landed."""
        return bronze(files)

    @made.silver(**more)
    def sales(orders=stream(orders)):
        """One row per sale."""
        return silver(orders)

    @made.gold(output_mode="incremental", row_count_column="n")
    def totals(sales=stream(sales)):
        """One row per day."""
        return sales.groupBy("at").agg(F.sum("total").alias("total"), F.count("*").alias("n"))

    return orders, sales, totals


RENAMED = {"total": "amount"}
CHANGED = {
    "renamed": (lambda o: o.withColumnsRenamed(RENAMED), "no longer gives total"),
    "dropped": (lambda o: o.drop("total"), "no longer gives total"),
    "retyped": (lambda o: o.withColumn("total", F.col("total").cast("string")), r"total \(int in the table"),
    "narrowed": (lambda o: o.withColumn("total", F.expr("total / 2D")), r"total \(int .* double"),
    "inside": (lambda o: o.withColumn("address", F.expr("struct(address.street, 7 AS town)")), r"town:int"),
    "a field": (lambda o: o.withColumn("address", F.expr("struct(address.street)")), r"gives address\.town"),
}  # fmt: skip


def selected(change):
    return lambda orders: change(orders.select("id", "total", "at", "address"))


def test_a_query_that_renames_drops_or_retypes_a_column_stops_before_anything_is_written(lakehouse):
    ways = {"appended": {}, "states": {"scd": keep_changes("id", "at")}}
    for place, (way, more) in enumerate(ways.items()):
        tables = shop(**more)
        lakehouse.land("shop/orders", f"{place}-1.json", json_lines({"id": 10 * place, **ORDER, "at": place}))
        lakehouse.run(tables[0])
        VERBS["reset"](tables[1], lakehouse.lake, lakehouse._spark, VerbRequest())
        lakehouse.run(*tables[1:])
        lakehouse.land(
            "shop/orders", f"{place}-2.json", json_lines({"id": 10 * place + 1, **ORDER, "at": 90 + place})
        )
        before = lakehouse.rows(tables[1], "SELECT count(*) AS n FROM t")
        for name, (change, words) in CHANGED.items():
            changed = shop(silver=selected(change), **more)
            lakehouse.run(changed[0])
            with pytest.raises(RuntimeError, match=f"shop/silver/sales: .*{words}"):
                lakehouse.run(changed[1])
            assert lakehouse.rows(tables[1], "SELECT count(*) AS n FROM t") == before, (way, name)
        lakehouse.run(*tables)
        lakehouse.assert_conserved(*tables)
        VERBS["reset"](tables[1], lakehouse.lake, lakehouse._spark, VerbRequest(dry_run=False))


def test_a_bronze_query_that_renames_a_column_stops_and_one_that_adds_a_column_goes_on(lakehouse):
    tables = shop()
    lakehouse.land("shop/orders", "1.json", json_lines({"id": 1, **ORDER}))
    lakehouse.run(*tables)
    lakehouse.land("shop/orders", "2.json", json_lines({"id": 2, **ORDER}))
    renamed = shop(bronze=lambda files: files.withColumnsRenamed(RENAMED))
    with pytest.raises(RuntimeError, match=r"shop/bronze/orders: .*no longer gives total.*in silver"):
        lakehouse.run(*renamed)
    more = shop(
        bronze=lambda files: files.withColumn("twice", F.col("total") * 2),
        silver=lambda orders: orders.select("id", "total", "at", "address", "twice"),
    )
    lakehouse.run(*more)
    found = lakehouse.rows(more[1], "SELECT id, total, twice FROM t ORDER BY id")
    assert [tuple(r.values()) for r in found] == [(1, 5, None), (2, 5, 10)]
    assert lakehouse.rows(more[2], "SELECT total, n FROM t") == [{"total": 10, "n": 2}]


@pytest.mark.thorough
def test_once_silver_is_made_anew_without_a_column_gold_stops_by_its_name(lakehouse):
    tables = shop()
    lakehouse.land("shop/orders", "1.json", json_lines({"id": 1, **ORDER}))
    lakehouse.run(*tables)
    renamed = shop(silver=selected(lambda o: o.withColumnsRenamed(RENAMED)))
    done = VERBS["full_refresh"](renamed[1], lakehouse.lake, lakehouse._spark, VerbRequest())
    assert done.well, done.does
    lakehouse.land("shop/orders", "2.json", json_lines({"id": 2, **ORDER}))
    lakehouse.run(*renamed[:2])
    with pytest.raises(RuntimeError, match=r"shop/gold/totals: the query .* `total` cannot be resolved"):
        lakehouse.run(renamed[2])
    with pytest.raises(RuntimeError, match=r"shop/gold/totals: .*`total`"):
        VERBS["full_refresh"](renamed[2], lakehouse.lake, lakehouse._spark, VerbRequest())
    assert lakehouse.rows(tables[2], "SELECT total, n FROM t") == [{"total": 5, "n": 1}]
