"""The plugin as a user's own tests take it: it dies where it says, and its assertions can fail."""

import json

import pytest

from medallion_assets.declare import Pipeline, expect, stream

pytestmark = pytest.mark.spark


@pytest.fixture
def tables():
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT, total INT")):  # noqa: B008
        """One row per order, as it landed."""
        return files

    @shop.silver(unique_by="id", expectations=[expect("above_zero", "total > 0")])
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "total")

    return orders, sales


# The others too with `make thorough`: each takes two runs and a recount.
DEATHS = [(1, "after"), (4, "before")]
DEATHS += [
    pytest.param(commit, when, marks=pytest.mark.thorough)
    for commit in (1, 2, 3, 4)
    for when in ("before", "after")
    if (commit, when) not in DEATHS
]
ORDERS = "".join(json.dumps({"id": i, "total": i - 2}) + "\n" for i in range(6)) + "{broken\n"


@pytest.mark.parametrize(("commit", "when"), DEATHS)
def test_a_run_that_dies_at_a_commit_is_made_good_by_the_next(lakehouse, tables, commit, when):
    lakehouse.land("shop/orders", "a.json", ORDERS)
    with lakehouse.crash_at(commit, when):
        lakehouse.run(*tables)
    lakehouse.run(*tables)
    lakehouse.assert_conserved(*tables)
    lakehouse.assert_exactly_once(*tables)
    assert [row["id"] for row in lakehouse.rows(tables[1], "SELECT id FROM t ORDER BY id")] == [3, 4, 5]


def test_a_crash_that_never_came_is_an_error(lakehouse, tables):
    lakehouse.land("shop/orders", "a.json", ORDERS)
    with pytest.raises(AssertionError, match="nothing died: there were 4 commits"), lakehouse.crash_at(9):
        lakehouse.run(*tables)


def test_the_assertions_fail_once_a_row_is_taken_or_doubled(lakehouse, tables, spark):
    lakehouse.land("shop/orders", "a.json", ORDERS)
    lakehouse.run(*tables)
    path = lakehouse.lake.path(tables[0])
    spark.read.format("delta").load(str(path)).limit(1).write.format("delta").mode("append").save(str(path))
    for check in (lakehouse.assert_conserved, lakehouse.assert_exactly_once):
        with pytest.raises(AssertionError, match="shop/bronze/orders"):
            check(tables[0])
