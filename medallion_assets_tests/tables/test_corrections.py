"""Corrections travel: what is replaced, deleted or matched late upstream reaches every table once."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.tables import Pipeline, expect, static, stream
from medallion_assets.tables.conservation import balance
from medallion_assets.tables.refresh import refresh

pytestmark = pytest.mark.spark


def shop_with(**landing):
    shop = Pipeline("shop")
    told = {"format": "json", "schema": "id INT, customer STRING, total INT", "settle_seconds": 0} | landing

    @shop.bronze()
    def orders(files=shop.landing("orders", **told)):  # noqa: B008
        """One row per order, as it landed."""
        return files

    @shop.bronze()
    def customers(
        files=shop.landing("customers", format="json", schema="customer STRING, city STRING"),  # noqa: B008
    ):
        """One row per customer, as they landed."""
        return files

    return shop, orders, customers


@pytest.fixture
def refreshed(lake, spark):
    def run_all(*tables):
        done = [refresh(table, lake, lambda: spark) for table in tables]
        for table in tables:
            books = balance(table, lake)
            assert books.holds, f"{table.key}: {books}"
        return done

    return run_all


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def order(number, total, customer="a"):
    return {"id": number, "customer": customer, "total": total}


def chain():
    shop, orders, _ = shop_with(allow_overwrites="replace")

    @shop.silver(unique_by="id", expectations=[expect("above_zero", "total > 0")])
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
        """One row per customer, made anew each time."""
        return totals(sales)

    def merged(sales=stream(sales)):
        """One row per customer, at the cost of what is new."""
        return totals(sales)

    gold = [
        shop.gold(output_mode="complete", counts_rows="orders")(whole),
        shop.gold(output_mode="incremental", counts_rows="orders")(merged),
    ]
    return orders, sales, lines_of, *gold


def gold_rows(rows_of, name):
    return rows_of(f"shop/gold/{name}", "SELECT customer, total, mean, orders FROM t ORDER BY customer")


def test_a_file_that_comes_again_changed_replaces_its_rows_down_to_gold(drop, refreshed, rows_of):
    tables = chain()
    drop("shop/orders", "it's 1.json", lines(order(1, 10), order(2, 20), order(3, -1), order(4, 5, "b")))
    drop("shop/orders", "2.json", lines(order(9, 90, "c")))
    refreshed(*tables)
    drop("shop/orders", "it's 1.json", lines(order(1, 11), order(3, 30), order(5, -5), order(2, 20)))
    drop("shop/orders", "new.json", lines(order(8, 80, "d")))
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
    assert silver.batches[0].strategy.startswith("made anew for the keys")
    assert merged.batches[0].strategy.startswith("remade for the groups it touches: rows were taken away")


def test_malformed_records_of_a_replaced_file_leave_the_quarantine(drop, refreshed, rows_of):
    _, orders, _ = shop_with(allow_overwrites="replace")
    drop("shop/orders", "1.json", lines(order(1, 10)) + "{broken\n{broken too\n")
    refreshed(orders)
    drop("shop/orders", "1.json", lines(order(1, 10)) + '{"id": 2, "customer": "b", "total": 9}\n{still\n')
    refreshed(orders)
    assert [r["row"] for r in rows_of("shop/quarantine/orders", "SELECT row FROM t")] == ["{still"]
    assert len(rows_of("shop/bronze/orders")) == 2


def test_a_record_deleted_in_bronze_is_gone_from_silver_and_gold(drop, refreshed, rows_of, lake, spark):
    orders, sales, _, whole, merged = chain()
    drop("shop/orders", "1.json", lines(order(1, 10), order(2, 20), order(4, 5, "b")))
    refreshed(orders, sales, whole, merged)
    spark.sql(f"DELETE FROM delta.`{lake.path(orders)}` WHERE id IN (2, 4)")
    refreshed(sales, whole, merged)
    assert [r["id"] for r in rows_of("shop/silver/sales", "SELECT id FROM t")] == [1]
    expected = [{"customer": "a", "total": 10, "mean": 10.0, "orders": 1}]
    assert gold_rows(rows_of, "whole") == gold_rows(rows_of, "merged") == expected


def test_a_duplicate_stands_in_for_the_row_that_was_deleted(drop, refreshed, rows_of, lake, spark):
    orders, sales, *_ = chain()
    drop("shop/orders", "1.json", lines(order(1, 10)))
    drop("shop/orders", "2.json", lines(order(1, 77)))
    _, silver = refreshed(orders, sales)
    assert silver.total("duplicates") == 1
    spark.sql(f"DELETE FROM delta.`{lake.path(orders)}` WHERE total = 10")
    refreshed(sales)
    assert rows_of("shop/silver/sales", "SELECT id, total FROM t") == [{"id": 1, "total": 77}]


def test_upkeep_that_moves_files_changes_nothing_downstream(drop, refreshed, lake, spark):
    orders, sales, *_ = chain()
    for name in ("1", "2"):
        drop("shop/orders", f"{name}.json", lines(order(int(name), 10)))
        refreshed(orders, sales)
    spark.sql(f"OPTIMIZE delta.`{lake.path(orders)}`")
    before = log.version(lake.path(sales))
    refreshed(sales)
    assert log.version(lake.path(sales)) == before
    assert refresh(sales, lake, lambda: spark).skipped == "nothing new"


def joined(how, **options):
    shop, orders, customers = shop_with()
    known = static(customers, on="customer", **options)

    @shop.silver(unique_by="id")
    def sales(orders=stream(orders), customers=known):
        """One row per order, with its customer's city."""
        return orders.join(customers.select("customer", "city"), "customer", how).select(
            "id", "customer", "city"
        )

    return orders, customers, sales


@pytest.mark.parametrize("how", ["left", "inner"])
def test_orders_of_unknown_customers_wait_and_come_through_once(drop, refreshed, rows_of, how):
    orders, customers, sales = joined(how, unmatched="retry")
    drop("shop/customers", "1.json", lines({"customer": "a", "city": "Quito"}))
    drop("shop/orders", "1.json", lines(order(1, 10), order(2, 20, "b"), order(3, 5, "z")))
    refreshed(orders, customers, sales)
    held = rows_of("shop/quarantine/sales", "SELECT rules, reason_class FROM t")
    assert held == [{"rules": ["customers_matched"], "reason_class": "join"}] * 2
    drop("shop/customers", "2.json", lines({"customer": "b", "city": "Lagos"}))
    drop("shop/orders", "2.json", lines(order(4, 7, "b")))
    refreshed(orders, customers, sales)
    refreshed(orders, customers, sales)
    assert rows_of("shop/silver/sales", "SELECT id, city FROM t ORDER BY id") == [
        {"id": 1, "city": "Quito"},
        {"id": 2, "city": "Lagos"},
        {"id": 4, "city": "Lagos"},
    ]
    assert len(rows_of("shop/quarantine/sales")) == 1


def test_kept_rows_without_a_match_are_counted_even_by_an_inner_join(drop, refreshed, rows_of):
    orders, customers, sales = joined("inner", unmatched="keep")
    drop("shop/customers", "1.json", lines({"customer": "a", "city": "Quito"}))
    drop("shop/orders", "1.json", lines(order(1, 10), order(2, 20, "b")))
    *_, done = refreshed(orders, customers, sales)
    assert done.batches[0].rules["customers_matched"] == 1
    assert rows_of("shop/silver/sales", "SELECT city FROM t ORDER BY id") == [
        {"city": "Quito"},
        {"city": None},
    ]


def test_a_followed_dimension_changes_rows_that_were_joined_before(drop, refreshed, rows_of, lake, spark):
    orders, customers, sales = joined("left", follow=True)
    drop("shop/customers", "1.json", lines({"customer": "a", "city": "Quito"}))
    drop("shop/orders", "1.json", lines(order(1, 10), order(2, 20, "b")))
    refreshed(orders, customers, sales)
    spark.sql(f"UPDATE delta.`{lake.path(customers)}` SET city = 'Pune'")
    refreshed(sales)
    assert rows_of("shop/silver/sales", "SELECT city FROM t ORDER BY id") == [
        {"city": "Pune"},
        {"city": None},
    ]


def test_a_repeated_key_of_a_static_table_stops_the_run_by_name_or_is_taken_once(drop, lake, spark, rows_of):
    two = lines({"customer": "a", "city": "Quito"}, {"customer": "a", "city": "Lagos"})
    for repeated, outcome in (("fail", None), ("keep_one", 1)):
        orders, customers, sales = joined("left", unique_by="customer", repeated=repeated)
        drop("shop/customers", "1.json", two)
        drop("shop/orders", "1.json", lines(order(1, 10)))
        refresh(orders, lake, lambda: spark)
        refresh(customers, lake, lambda: spark)
        if outcome is None:
            with pytest.raises(Exception, match=r"shop/bronze/customers has more than one row .* \('a',\)"):
                refresh(sales, lake, lambda: spark)
            assert rows_of("shop/silver/sales") == []
    refresh(sales, lake, lambda: spark)
    assert len(rows_of("shop/silver/sales")) == 1


def test_a_join_that_multiplies_rows_breaks_conservation(drop, lake, spark):
    orders, customers, sales = joined("left")
    drop("shop/customers", "1.json", lines(*[{"customer": "a", "city": c} for c in ("Quito", "Lagos")]))
    drop("shop/orders", "1.json", lines(order(1, 10)))
    shop = Pipeline("shop", tables={})
    wide = shop.silver()(sales.query)
    for table in (orders, customers, wide):
        refresh(table, lake, lambda: spark)
    assert balance(wide, lake).missing == -1
