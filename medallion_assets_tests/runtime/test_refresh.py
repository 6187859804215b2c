"""What the rules of a table make of its rows, and what the books say."""

import json

import pytest

from medallion_assets.declare import Pipeline, expect
from medallion_assets.declare.errors import ExpectationFailed
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.run import refresh
from medallion_assets_tests.shop import orders_and_sales, totals_file

pytestmark = pytest.mark.spark


def test_a_row_is_quarantined_with_every_rule_it_broke_and_null_has_failed(drop, refreshed, rows_of):
    tables = orders_and_sales(expect("above_zero", "total > 0"), expect("even", "total % 2 = 0"))
    drop("shop/orders", "a.json", totals_file(2, -1, None))
    refreshed(*tables)
    assert rows_of("shop/silver/sales", "SELECT total FROM t") == [{"total": 2}]
    found = rows_of("shop/quarantine/sales", "SELECT rules, row FROM t ORDER BY row")
    assert [r["rules"] for r in found] == [["above_zero", "even"]] * 2
    assert [json.loads(r["row"])["total"] for r in found] == [-1, None]


def test_warn_keeps_and_counts_and_drop_lets_go_and_counts(drop, refreshed, rows_of, lake):
    tables = orders_and_sales(
        expect("small", "total < 10", "warn"), expect("above_zero", "total > 0", "drop")
    )
    drop("shop/orders", "a.json", totals_file(5, 50, -1))
    _, done = refreshed(*tables)
    assert done.batches[0].rules == {"small": 1, "above_zero": 1}
    assert (done.total("written"), done.total("dropped")) == (2, 1)


def test_a_broken_rule_that_says_fail_stops_the_run_and_nothing_moves(drop, refreshed, rows_of):
    orders, sales = orders_and_sales(expect("above_zero", "total > 0", "fail"))
    drop("shop/orders", "a.json", totals_file(1, -1))
    refreshed(orders)
    with pytest.raises(
        ExpectationFailed, match=r"shop/silver/sales: a row broke .* above_zero .* nothing is lost"
    ):
        refreshed(sales)
    assert rows_of("shop/silver/sales") == []


def test_a_filter_hidden_in_a_query_breaks_conservation(drop, lake, spark):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT, total INT")):  # noqa: B008
        """One row per order, as it landed."""
        return files.where("total > 0")

    drop("shop/orders", "a.json", totals_file(1, -1))
    refresh(orders, lake, lambda: spark)
    assert balance(orders, lake).missing == 1


def test_rows_taken_away_behind_the_back_break_conservation(drop, refreshed, lake, spark):
    orders, _ = orders_and_sales()
    drop("shop/orders", "a.json", totals_file(1, 2, 3))
    refreshed(orders)
    spark.sql(f"DELETE FROM delta.`{lake.path(orders)}` WHERE id = 1")
    assert balance(orders, lake).missing == 1


@pytest.mark.parametrize("at_most", [1, "40%"])
def test_more_broken_rows_than_a_rule_allows_stop_the_batch_before_anything_is_written(
    drop, refreshed, rows_of, at_most
):
    tables = orders_and_sales(expect("above_zero", "total > 0", at_most=at_most))
    drop("shop/orders", "a.json", totals_file(5, 6, -1))
    refreshed(*tables)
    drop("shop/orders", "b.json", totals_file(7, -1, -2, start=10))
    with pytest.raises(ExpectationFailed, match=r"2 of 3 rows of the batch broke above_zero"):
        refreshed(*tables)
    assert rows_of("shop/silver/sales", "SELECT count(*) AS n FROM t") == [{"n": 2}]
    assert rows_of("shop/quarantine/sales", "SELECT count(*) AS n FROM t") == [{"n": 1}]
