"""Corrections travel: what is replaced, deleted or matched late upstream reaches every table once."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, stream
from medallion_assets.delta import log
from medallion_assets.runs.run import refresh
from medallion_assets_tests.shop import ABOVE_ZERO, bought, json_lines, orders_of

pytestmark = pytest.mark.spark
REPLACED = {
    "schema": "id INT, customer STRING, total INT",
    "settle_seconds": 0,
    "allow_overwrites": "replace",
}


def chain():
    shop = Pipeline("shop")
    orders = orders_of(shop, **REPLACED)

    @shop.silver(unique_by="id", expectations=[ABOVE_ZERO])
    def sales(orders=stream(orders)):
        """One row per order with a total above zero."""
        return orders.select("id", "customer", "total", "_source_file")

    @shop.silver()
    def lines_of(orders=stream(orders)):
        """One row per order, whatever its total."""
        return orders.select("customer", "total")

    def totals(sales):
        """One row per customer, with the sum of their orders."""
        sums = F.sum("total").alias("total"), F.avg("total").alias("mean"), F.count("*").alias("orders")
        return sales.groupBy("customer").agg(*sums)

    def whole(sales=stream(sales)):
        """One row per customer, recomputed each time."""
        return totals(sales)

    def merged(sales=stream(sales)):
        """One row per customer, at the cost of what is new."""
        return totals(sales)

    gold = [
        shop.gold(output_mode="complete", row_count_column="orders")(whole),
        shop.gold(output_mode="incremental", row_count_column="orders")(merged),
    ]
    return orders, sales, lines_of, *gold


def gold_rows(rows_of, name):
    return rows_of(f"shop/gold/{name}", "SELECT customer, total, mean, orders FROM t ORDER BY customer")


def test_a_file_that_comes_again_changed_replaces_its_rows_down_to_gold(drop, refreshed, rows_of):
    tables = chain()
    drop(
        "shop/orders",
        "it's 1.json",
        json_lines(bought(1, 10), bought(2, 20), bought(3, -1), bought(4, 5, "b")),
    )
    drop("shop/orders", "2.json", json_lines(bought(9, 90, "c")))
    refreshed(*tables)
    drop("shop/orders", "it's 1.json", json_lines(bought(1, 11), bought(3, 30), bought(5, -5), bought(2, 20)))
    drop("shop/orders", "new.json", json_lines(bought(8, 80, "d")))
    bronze, silver, _, _, merged = refreshed(*tables)
    assert list(bronze.batches[0].replaced.values()) == [[4, 4]]
    assert [r["total"] for r in rows_of("shop/bronze/orders", "SELECT total FROM t ORDER BY id, total")] == [
        11,
        20,
        30,
        -5,
        80,
        90,
    ]
    assert rows_of("shop/silver/sales", "SELECT id, total FROM t ORDER BY id") == [
        {"id": 1, "total": 11},
        {"id": 2, "total": 20},
        {"id": 3, "total": 30},
        {"id": 8, "total": 80},
        {"id": 9, "total": 90},
    ]
    quarantined = rows_of("shop/quarantine/sales", "SELECT row FROM t")
    assert [json.loads(r["row"])["id"] for r in quarantined] == [5]
    assert sorted(r["total"] for r in rows_of("shop/silver/lines_of")) == [-5, 11, 20, 30, 80, 90]
    expected = [
        {"customer": "a", "total": 61, "mean": 61 / 3, "orders": 3},
        {"customer": "c", "total": 90, "mean": 90.0, "orders": 1},
        {"customer": "d", "total": 80, "mean": 80.0, "orders": 1},
    ]
    assert gold_rows(rows_of, "whole") == gold_rows(rows_of, "merged") == expected
    assert silver.batches[0].strategy.startswith("recomputed for the keys")
    assert merged.batches[0].strategy.startswith("recomputed for the groups it touches: rows were taken away")


def test_malformed_records_of_a_replaced_file_leave_the_quarantine(drop, refreshed, rows_of):
    orders = orders_of(Pipeline("shop"), **REPLACED)
    drop("shop/orders", "1.json", json_lines(bought(1, 10)) + "{broken\n{broken too\n")
    refreshed(orders)
    drop(
        "shop/orders",
        "1.json",
        json_lines(bought(1, 10)) + '{"id": 2, "customer": "b", "total": 9}\n{still\n',
    )
    refreshed(orders)
    assert [r["row"] for r in rows_of("shop/quarantine/orders", "SELECT row FROM t")] == ["{still"]
    assert len(rows_of("shop/bronze/orders")) == 2


def test_a_record_deleted_in_bronze_is_gone_from_silver_and_gold(drop, refreshed, rows_of, lake, spark):
    orders, sales, _, whole, merged = chain()
    drop("shop/orders", "1.json", json_lines(bought(1, 10), bought(2, 20), bought(4, 5, "b")))
    refreshed(orders, sales, whole, merged)
    spark.sql(f"DELETE FROM delta.`{lake.path(orders)}` WHERE id IN (2, 4)")
    refreshed(sales, whole, merged)
    assert [r["id"] for r in rows_of("shop/silver/sales", "SELECT id FROM t")] == [1]
    expected = [{"customer": "a", "total": 10, "mean": 10.0, "orders": 1}]
    assert gold_rows(rows_of, "whole") == gold_rows(rows_of, "merged") == expected


def test_a_duplicate_stands_in_for_the_row_that_was_deleted(drop, refreshed, rows_of, lake, spark):
    orders, sales, *_ = chain()
    drop("shop/orders", "1.json", json_lines(bought(1, 10)))
    drop("shop/orders", "2.json", json_lines(bought(1, 77)))
    _, silver = refreshed(orders, sales)
    assert silver.total("duplicates") == 1
    spark.sql(f"DELETE FROM delta.`{lake.path(orders)}` WHERE total = 10")
    refreshed(sales)
    assert rows_of("shop/silver/sales", "SELECT id, total FROM t") == [{"id": 1, "total": 77}]


def test_upkeep_that_moves_files_changes_nothing_downstream(drop, refreshed, lake, spark):
    orders, sales, *_ = chain()
    for name in ("1", "2"):
        drop("shop/orders", f"{name}.json", json_lines(bought(int(name), 10)))
        refreshed(orders, sales)
    spark.sql(f"OPTIMIZE delta.`{lake.path(orders)}`")
    before = log.version(lake.path(sales))
    refreshed(sales)
    assert log.version(lake.path(sales)) == before
    assert refresh(sales, lake, lambda: spark).skipped == "nothing new"
