"""Rules of keys and references that refuse single rows: over batches, recomputed and replayed."""

import pytest

from medallion_assets.declare import Pipeline, expect, keep_changes, references, stream, unique
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.quality.conservation import balance
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.replay.replay import replay
from medallion_assets_tests.shop import ABOVE_ZERO, bought, json_lines, orders_and_sales, orders_of

HELD = "shop/quarantine/sales"
HELD_SQL = "SELECT row, rules, reason_class FROM t WHERE status = 'open' ORDER BY row"


def sold(rows_of):
    return [
        tuple(row.values())
        for row in rows_of("shop/silver/sales", "SELECT id, total FROM t ORDER BY id, total")
    ]


def orders(*told):
    return json_lines(*({"id": number, "total": total} for number, total in told))


@pytest.mark.spark
@pytest.mark.parametrize("otherwise", ["quarantine", "drop"])
def test_a_row_whose_key_stands_is_refused_and_the_first_good_one_stays(drop, refreshed, rows_of, otherwise):
    tables = orders_and_sales(ABOVE_ZERO, unique("one_each", "id", otherwise), expect("small", "total < 100"))
    drop("shop/orders", "a.json", orders((1, 900), (1, 5), (1, 6), (2, 7)))
    refreshed(*tables)
    assert sold(rows_of) == [(1, 5), (2, 7)]
    drop("shop/orders", "b.json", orders((2, 8), (3, 9)))
    _, done = refreshed(*tables)
    assert sold(rows_of) == [(1, 5), (2, 7), (3, 9)]
    assert done.batches[-1].rules["one_each"] == 1
    held = [(h["rules"], h["reason_class"]) for h in rows_of(HELD, HELD_SQL)]
    expected = [(["one_each"], "key")] * 2 if otherwise == "quarantine" else []
    assert [h for h in held if "small" not in h[0]] == expected


@pytest.mark.spark
def test_a_row_refused_for_its_key_comes_through_under_another(drop, refreshed, rows_of, lake, spark):
    tables = orders_and_sales(unique("one_each", "id", "quarantine"))
    drop("shop/orders", "a.json", orders((1, 5), (1, 6)))
    refreshed(*tables)
    again = replay(tables[1], lake, spark, QuarantineFilter(rules=("one_each",)))
    assert (again.tried, again.still_open) == (1, 1)
    done = replay(tables[1], lake, spark, QuarantineFilter(rules=("one_each",)), "id = 2")
    assert (done.written, sold(rows_of)) == (1, [(1, 5), (2, 6)])
    assert balance(tables[1], lake).holds


def shop_of_customers(otherwise):
    shop = Pipeline("shop")
    bought_here = orders_of(shop, schema="id INT, customer STRING, total INT", allow_overwrites="replace")

    @shop.bronze()
    def customers(files=shop.landing("customers", format="json", schema="customer STRING")):  # noqa: B008
        """One row per customer."""
        return files

    @shop.silver(expectations=[references("customer_known", "customer", customers, otherwise)])
    def sales(orders=stream(bought_here)):
        """One row per sale."""
        return orders.select("id", "customer", "total")

    return customers, bought_here, sales


@pytest.mark.spark
def test_a_row_that_refers_to_nothing_waits_until_it_is_replayed(drop, refreshed, rows_of, lake, spark):
    tables = shop_of_customers("quarantine")
    drop("shop/customers", "a.json", json_lines({"customer": "a"}))
    drop("shop/orders", "a.json", json_lines(bought(1, 5), bought(2, 6, "b"), bought(3, 7, None)))
    refreshed(*tables)
    assert sold(rows_of) == [(1, 5)]
    assert [(h["rules"], h["reason_class"]) for h in rows_of(HELD, HELD_SQL)] == [
        (["customer_known"], "join")
    ] * 2
    drop("shop/customers", "b.json", json_lines({"customer": "b"}))
    refreshed(*tables)
    assert replay(tables[2], lake, spark, QuarantineFilter(rules=("customer_known",))).written == 1
    assert sold(rows_of) == [(1, 5), (2, 6)]
    drop("shop/orders", "a.json", json_lines(bought(1, 50), bought(3, 7, "b"), bought(4, 8, "c")))
    refreshed(*tables)
    assert sold(rows_of) == [(1, 50), (3, 7)]


@pytest.mark.spark
def test_a_row_that_refers_to_nothing_is_let_go_and_counted_where_it_says_drop(drop, refreshed, rows_of):
    tables = shop_of_customers("drop")
    drop("shop/customers", "a.json", json_lines({"customer": "a"}))
    drop("shop/orders", "a.json", json_lines(bought(1, 5), bought(2, 6, "b")))
    *_, done = refreshed(*tables)
    assert (done.total("dropped"), sold(rows_of)) == (1, [(1, 5)])


def test_two_answers_to_one_question_are_refused_as_they_load():
    one_each = unique("one_each", "id", "quarantine")
    with pytest.raises(DeclarationError, match="two answers"):
        orders_and_sales(one_each, unique_by="id")
    with pytest.raises(DeclarationError, match="leave out unique"):
        orders_and_sales(one_each, scd=keep_changes("id", "total"))


def test_bronze_takes_no_rule_that_looks_at_other_rows():
    with pytest.raises(DeclarationError, match="silver and gold"):
        orders_of(Pipeline("shop"), [unique("one_each", "id", "drop")])
