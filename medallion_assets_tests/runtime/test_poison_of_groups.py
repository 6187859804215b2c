"""Rows an aggregate's query cannot take: they alone are held, and the groups are those of the others."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, stream
from medallion_assets.quality.conservation import balance
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.replay.replay import replay
from medallion_assets.runs.run import refresh
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import json_lines, orders_of

pytestmark = pytest.mark.spark
HELD = "shop/quarantine/spent"
WINDOW = {"event_time": "at", "watermark": "1 day"}

SHAPES = {
    "complete": ({"output_mode": "complete"}, {}, False),
    "update": ({"output_mode": "update", "unique_by": "customer"}, {}, False),
    "merged": ({"output_mode": "incremental"}, {}, False),
    "recomputed": ({"output_mode": "incremental"}, {}, True),
    "windows": ({"output_mode": "update", "unique_by": ("day", "customer")}, WINDOW, False),
}
"""Options of the aggregate, of its stream, and whether it has a function that cannot be merged."""

ORDER = "id INT, customer STRING, total STRING, at TIMESTAMP"


def shop_with(options, timed, has_median):
    shop = Pipeline("shop")
    landed = orders_of(shop, schema=ORDER, allow_overwrites="replace")

    @shop.silver()
    def sales(orders=stream(landed)):
        """One row per sale."""
        return orders.select("id", "customer", "total", "at")

    @shop.gold(row_count_column="sales", **options)
    def spent(sales=stream(sales, **timed)):
        """One row per customer."""
        # Spark's default cast: one text that is no number fails the whole batch.
        further = [F.median("id").alias("middle")] if has_median else []
        sums = F.sum(F.col("total").cast("int")).alias("total"), F.count("*").alias("sales"), *further
        by = [F.window("at", "1 day").alias("day")] if timed else []
        return sales.groupBy(*by, "customer").agg(*sums)

    return landed, sales, spent


def lines(*told):
    at = "2026-01-01T12:00:00Z"
    return json_lines(*({"id": n, "customer": c, "total": t, "at": at} for n, c, t in told))


def held(rows_of):
    found = rows_of(HELD, "SELECT row FROM t WHERE status = 'open' ORDER BY row")
    return sorted(json.loads(h["row"])["total"] for h in found)


def spent(rows_of):
    found = rows_of("shop/gold/spent", "SELECT customer, total, sales FROM t ORDER BY customer")
    return {row["customer"]: (row["total"], row["sales"]) for row in found}


IN_CI = ("windows", "merged")
"""One whose state Spark keeps, one whose groups we do; the rest with ``make thorough``."""


@pytest.mark.parametrize("shape", [s if s in IN_CI else seldom(s) for s in SHAPES])
def test_groups_are_those_of_the_rows_the_query_takes(drop, refreshed, rows_of, lake, spark, shape):
    tables = shop_with(*SHAPES[shape])
    drop("shop/orders", "a.json", lines((1, "a", "5"), (2, "a", "7"), (3, "b", "1")))
    refreshed(*tables)
    drop("shop/orders", "b.json", lines((4, "a", "many"), (5, "a", "8"), (6, "b", "few")))
    *_, done = refreshed(*tables)
    assert done.total("quarantined") == 2
    assert (spent(rows_of), held(rows_of)) == ({"a": (20, 3), "b": (1, 1)}, ["few", "many"])
    # To the letter the row that is held already, and one that never was.
    drop("shop/orders", "c.json", lines((4, "a", "many"), (7, "b", "2")))
    refreshed(*tables)
    assert (spent(rows_of), held(rows_of)) == ({"a": (20, 3), "b": (3, 2)}, ["few", "many", "many"])
    done = replay(tables[-1], lake, spark, QuarantineFilter(where="row LIKE '%many%'"), "total = '10'")
    assert (done.tried, done.written, done.still_open) == (2, 2, 0)
    assert (spent(rows_of), held(rows_of)) == ({"a": (40, 5), "b": (3, 2)}, ["few"])
    drop("shop/orders", "b.json", lines((4, "a", "many"), (5, "a", "9")))
    refreshed(*tables)
    assert spent(rows_of) == {"a": (41, 5), "b": (3, 2)}
    assert held(rows_of) == []


@pytest.mark.parametrize(
    ("shape", "commit"),
    [("complete", 2), seldom("complete", 3), ("merged", 1), seldom("merged", 2)],
)
def test_a_death_while_poison_is_set_aside_loses_and_doubles_nothing(
    do, drop, refreshed, rows_of, lake, spark, lakehouse_here, shape, commit
):
    tables = shop_with(*SHAPES[shape])
    drop("shop/orders", "a.json", lines((1, "a", "5"), (2, "b", "many")))
    refreshed(*tables[:2])
    # The first is the one that fails on the poison.
    with lakehouse_here.crash_at(commit):
        refresh(tables[-1], lake, lambda: spark)
    refreshed(tables[-1])
    assert (spent(rows_of), held(rows_of)) == ({"a": (5, 1)}, ["many"])
    do("full_refresh", tables[-1])
    refreshed(tables[-1])
    assert (spent(rows_of), held(rows_of)) == ({"a": (5, 1)}, ["many"])
    assert balance(tables[-1], lake).holds
