"""Stream-static joins: the unmatched, the late, the repeated and the followed."""

import pytest

from medallion_assets.declare import Pipeline, static, stream
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.run import refresh
from medallion_assets_tests.shop import bought, json_lines, orders_of

pytestmark = pytest.mark.spark


def joined(how, **options):
    shop = Pipeline("shop")
    orders = orders_of(shop, schema="id INT, customer STRING, total INT")

    @shop.bronze()
    def customers(
        files=shop.landing("customers", format="json", schema="customer STRING, city STRING"),  # noqa: B008
    ):
        """One row per customer, as they landed."""
        return files

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
    drop("shop/customers", "1.json", json_lines({"customer": "a", "city": "Quito"}))
    drop("shop/orders", "1.json", json_lines(bought(1, 10), bought(2, 20, "b"), bought(3, 5, "z")))
    refreshed(orders, customers, sales)
    held = rows_of("shop/quarantine/sales", "SELECT rules, reason_class FROM t")
    assert held == [{"rules": ["customers_matched"], "reason_class": "join"}] * 2
    drop("shop/customers", "2.json", json_lines({"customer": "b", "city": "Lagos"}))
    drop("shop/orders", "2.json", json_lines(bought(4, 7, "b")))
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
    drop("shop/customers", "1.json", json_lines({"customer": "a", "city": "Quito"}))
    drop("shop/orders", "1.json", json_lines(bought(1, 10), bought(2, 20, "b")))
    *_, done = refreshed(orders, customers, sales)
    assert done.batches[0].rules["customers_matched"] == 1
    assert rows_of("shop/silver/sales", "SELECT city FROM t ORDER BY id") == [
        {"city": "Quito"},
        {"city": None},
    ]


def test_a_row_whose_key_is_null_is_unmatched_however_the_query_joins(drop, refreshed, rows_of):
    shop = Pipeline("shop")
    orders, customers, by_name = joined("inner", unmatched="retry")

    @shop.silver(unique_by="id")
    def by_condition(orders=stream(orders), known=static(customers, on="customer", unmatched="keep")):
        """One row per order, with its customer's city."""
        same = (orders.customer == known.customer) & (orders.id > 0)
        return orders.join(known, same).select("id", known.customer, "city")

    @shop.silver(unique_by="id")
    def by_filter(orders=stream(orders), known=static(customers, on="customer", unmatched="quarantine")):
        """One row per order, with its customer's city."""
        crossed = orders.crossJoin(known).where(orders.customer == known.customer)
        return crossed.select("id", orders.customer, "city")

    unnamed = {"customer": None, "city": "Nowhere"}
    drop("shop/customers", "1.json", json_lines({"customer": "a", "city": "Quito"}, unnamed))
    drop("shop/orders", "1.json", json_lines(bought(1, 10), bought(2, 20, None), bought(3, 5, "z")))
    tables = orders, customers, by_name, by_condition, by_filter
    *_, kept, _ = refreshed(*tables)
    assert kept.batches[0].rules["known_matched"] == 2
    drop("shop/customers", "2.json", json_lines({"customer": "z", "city": "Lagos"}))
    refreshed(*tables)
    passed = {"id": 1, "customer": "a", "city": "Quito"}
    came = {"id": 3, "customer": "z", "city": "Lagos"}
    kept = [{"id": 2, "customer": None, "city": None}, {"id": 3, "customer": "z", "city": None}]
    ordered = "SELECT id, customer, city FROM t ORDER BY id"
    assert rows_of("shop/silver/sales", ordered) == [passed, came]
    assert rows_of("shop/silver/by_condition", ordered) == [passed, *kept]
    assert rows_of("shop/silver/by_filter", ordered) == [passed]
    held = rows_of("shop/quarantine/sales", "SELECT rules, reason_class FROM t WHERE status = 'open'")
    assert held == [{"rules": ["customers_matched"], "reason_class": "join"}]


def test_a_followed_dimension_changes_rows_that_were_joined_before(drop, refreshed, rows_of, lake, spark):
    orders, customers, sales = joined("left", follow=True)
    drop("shop/customers", "1.json", json_lines({"customer": "a", "city": "Quito"}))
    drop("shop/orders", "1.json", json_lines(bought(1, 10), bought(2, 20, "b")))
    refreshed(orders, customers, sales)
    spark.sql(f"UPDATE delta.`{lake.path(customers)}` SET city = 'Pune'")
    refreshed(sales)
    assert rows_of("shop/silver/sales", "SELECT city FROM t ORDER BY id") == [
        {"city": "Pune"},
        {"city": None},
    ]


def test_a_repeated_key_of_a_static_table_stops_the_run_by_name_or_is_taken_once(drop, lake, spark, rows_of):
    two = json_lines({"customer": "a", "city": "Quito"}, {"customer": "a", "city": "Lagos"})
    for repeated, outcome in (("fail", None), ("keep_one", 1)):
        orders, customers, sales = joined("left", unique_by="customer", repeated=repeated)
        drop("shop/customers", "1.json", two)
        drop("shop/orders", "1.json", json_lines(bought(1, 10)))
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
    drop("shop/customers", "1.json", json_lines(*[{"customer": "a", "city": c} for c in ("Quito", "Lagos")]))
    drop("shop/orders", "1.json", json_lines(bought(1, 10)))
    shop = Pipeline("shop", tables={})
    wide = shop.silver()(sales.query)
    for table in (orders, customers, wide):
        refresh(table, lake, lambda: spark)
    assert balance(wide, lake).missing == -1
