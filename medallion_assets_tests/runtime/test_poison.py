"""Rows a query cannot take: they alone are held, whatever came with them goes on."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, keep_changes, stream
from medallion_assets.declare.errors import RefreshFailed
from medallion_assets.quality.conservation import balance
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.replay.replay import replay
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import json_lines, orders_of

pytestmark = pytest.mark.spark
ORDER = "id INT, total STRING, at INT"
HELD = "shop/quarantine/sales"


def shop_with(**options):
    shop = Pipeline("shop")

    orders = orders_of(shop, schema=ORDER, allow_overwrites="replace")

    @shop.silver(**options)
    def sales(orders=stream(orders)):
        """One row per sale."""
        # Spark's default cast: one text that is no number fails the whole batch.
        return orders.select("id", F.col("total").cast("int").alias("total"), "at")

    return orders, sales


def lines(*totals, start=0):
    rows = ({"id": start + i, "total": t, "at": start + i} for i, t in enumerate(totals))
    return json_lines(*rows)


SHAPES = {
    "rows": {"expectations": [expect("above_zero", "total > 0")]},
    "rows with keys": {"unique_by": "id"},
    "history": {"scd": keep_changes("id", "at", type=2)},
}


@pytest.mark.parametrize("shape", ["rows with keys", seldom("rows"), seldom("history")])
def test_the_poison_is_held_alone_and_named_and_comes_through_mended(
    do, drop, refreshed, rows_of, lake, spark, shape
):
    tables = shop_with(**SHAPES[shape])
    drop("shop/orders", "a.json", lines("5", "many", *(str(n) for n in range(1, 40)), "few"))
    _, done = refreshed(*tables)
    assert (done.total("written"), done.total("quarantined")) == (40, 2)
    held = rows_of(HELD, "SELECT row, rules, reason_class, note FROM t ORDER BY row")
    assert [json.loads(h["row"])["total"] for h in held] == ["many", "few"]
    assert {(h["rules"][0], h["reason_class"]) for h in held} == {("query_failed", "query")}
    assert "CAST_INVALID_INPUT" in held[0]["note"]
    drop("shop/orders", "b.json", lines("7", start=1))
    refreshed(*tables)
    do("full_refresh", tables[1])
    refreshed(*tables)
    done = replay(tables[1], lake, spark, QuarantineFilter(where="row LIKE '%few%'"), "total = '3'")
    assert (done.tried, done.written) == (1, 1)
    assert balance(tables[1], lake).holds
    do("full_refresh", tables[1])
    refreshed(*tables)
    assert rows_of("shop/silver/sales", "SELECT total FROM t WHERE id = 41") == [{"total": 3}]


def test_a_query_that_fails_on_every_row_is_no_fault_of_the_rows(drop, refreshed, rows_of):
    orders, sales = shop_with()
    drop("shop/orders", "a.json", lines("many", "few", "some"))
    refreshed(orders)
    with pytest.raises(RefreshFailed, match="CAST_INVALID_INPUT"):
        refreshed(sales)
    assert rows_of(HELD) == []


def test_poison_that_goes_upstream_goes_from_quarantine_too(drop, refreshed, rows_of):
    tables = shop_with(unique_by="id")
    drop("shop/orders", "a.json", lines("5", "many", "few"))
    refreshed(*tables)
    drop("shop/orders", "a.json", lines("6", "8", "few", "some"))
    refreshed(*tables)
    held = rows_of(HELD, "SELECT row FROM t ORDER BY row")
    assert [json.loads(h["row"])["total"] for h in held] == ["few", "some"]
    assert rows_of("shop/silver/sales", "SELECT total FROM t ORDER BY total") == [{"total": 6}, {"total": 8}]
