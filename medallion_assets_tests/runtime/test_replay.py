"""Quarantined rows fixed, replayed, given up: seen in tables, quarantines and books."""

import json

import pytest

from medallion_assets.declare import expect
from medallion_assets.declare.errors import ReplayRefused
from medallion_assets.quarantine.choice import QuarantineFilter, discard
from medallion_assets.replay.replay import replay
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import ABOVE_ZERO, chain, json_lines, order

pytestmark = pytest.mark.spark
SILVER = "shop/quarantine/sales"


@pytest.mark.parametrize("keys", ["id", seldom(())], ids=["rows with keys", "rows without"])
def test_a_fixed_row_reaches_gold_once_however_often_replayed_and_leaves_its_trace(
    drop, refreshed, replayed, rows_of, keys
):
    tables = chain(keys=keys)
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -7), order(3, -8)))
    refreshed(*tables)
    done = replayed(tables[1], fix="total = abs(total)")
    assert (done.tried, done.written, done.still_open) == (2, 2, 0)
    assert replayed(tables[1], fix="total = abs(total)").tried == 0
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 20, "sales": 3}]
    traces = rows_of(SILVER, "SELECT status, attempts, repaired FROM t ORDER BY repaired")
    assert [(t["status"], t["attempts"]) for t in traces] == [("replayed", 2)] * 2
    assert [json.loads(t["repaired"])["total"] for t in traces] == [7, 8]
    assert rows_of("shop/silver/sales", "SELECT count(DISTINCT at) AS n FROM t") == [{"n": 1}]


@pytest.mark.parametrize("keys", [seldom("id"), ()], ids=["rows with keys", "rows without"])
def test_a_row_that_fails_again_stays_open_with_its_attempts(drop, refreshed, replayed, rows_of, keys):
    tables = chain(keys=keys)
    drop("shop/orders", "a.json", json_lines(order(1, -5)))
    refreshed(*tables)
    assert replayed(tables[1]).still_open == 1
    assert replayed(tables[1], fix="total = total + 1").still_open == 1
    found = rows_of(SILVER, "SELECT status, attempts, row FROM t")
    assert [(f["status"], f["attempts"], json.loads(f["row"])["total"]) for f in found] == [("open", 3, -5)]


def test_todays_rules_judge_a_replay(drop, refreshed, replayed, rows_of):
    orders, sales, _ = chain()
    drop("shop/orders", "a.json", json_lines(order(1, -5)))
    refreshed(orders, sales)
    softer = chain(rules=(expect("above_minus_ten", "total > -10"),))[1]
    assert replayed(softer).written == 1
    assert rows_of("shop/silver/sales", "SELECT total FROM t") == [{"total": -5}]


def test_a_choice_takes_only_what_it_says(drop, refreshed, replayed, rows_of):
    tables = chain(rules=(ABOVE_ZERO, expect("small", "total < 100")))
    drop("shop/orders", "a.json", json_lines(order(1, -5), order(2, 500)))
    refreshed(*tables)
    assert replayed(tables[1], QuarantineFilter(rules=("small",)), "total = 50").written == 1
    assert replayed(tables[1], QuarantineFilter(where="row LIKE '%nothing%'"), "total = 50").tried == 0
    assert rows_of(SILVER, "SELECT rules FROM t WHERE status = 'open'") == [{"rules": ["above_zero"]}]


def test_a_dry_run_says_the_same_and_moves_nothing(drop, refreshed, replayed, rows_of, lake):
    tables = chain()
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(1, -5), order(2, -7), order(3, None)))
    refreshed(*tables)
    before = rows_of(SILVER)
    foreseen = replayed(tables[1], fix="total = abs(total)", dry_run=True)
    assert (foreseen.written, foreseen.duplicates, foreseen.still_open) == (1, 1, 1)
    assert rows_of(SILVER) == before
    done = replayed(tables[1], fix="total = abs(total)")
    assert (done.written, done.duplicates, done.still_open) == (1, 1, 1)


BAD = ["total", "total = 1 WHERE true", "total = ", "nothing = 1", "1 = 2"]


def test_a_fix_that_cannot_be_read_moves_nothing(drop, refreshed, lake, spark, rows_of):
    tables = chain()
    drop("shop/orders", "a.json", json_lines(order(1, -5)))
    refreshed(*tables)
    for fix in BAD:
        with pytest.raises(ReplayRefused, match="fix"):
            replay(tables[1], lake, spark, QuarantineFilter(), fix)
    assert rows_of(SILVER, "SELECT status, attempts FROM t") == [{"status": "open", "attempts": 1}]
    refreshed(*tables)


def test_a_row_given_up_stays_with_the_reason_and_is_not_tried_again(
    drop, refreshed, lake, spark, rows_of, replayed
):
    tables = chain()
    drop("shop/orders", "a.json", json_lines(order(1, -5)))
    refreshed(*tables)
    with pytest.raises(ReplayRefused, match="why"):
        discard(tables[1], lake, spark, QuarantineFilter(), " ")
    assert discard(tables[1], lake, spark, QuarantineFilter(), "a test order") == 1
    assert replayed(tables[1], fix="total = 5").tried == 0
    refreshed(*tables)
    assert rows_of(SILVER, "SELECT status, note FROM t") == [{"status": "discarded", "note": "a test order"}]


def test_a_row_given_up_is_a_row_again_once_it_is_made_anew_and_breaks_no_rule(
    do, drop, refreshed, lake, spark, rows_of
):
    tables, relaxed = chain(), chain(rules=())
    drop("shop/orders", "a.json", json_lines(order(1, -5), order(2, 5)))
    refreshed(*tables)
    discard(tables[1], lake, spark, QuarantineFilter(), "a test order")
    do("full_refresh", tables[1])
    refreshed(*tables)
    assert rows_of(SILVER, "SELECT status FROM t") == [{"status": "discarded"}]
    do("full_refresh", relaxed[1])
    refreshed(*relaxed)
    assert rows_of("shop/silver/sales", "SELECT id FROM t ORDER BY id") == [{"id": 1}, {"id": 2}]
    assert not rows_of(SILVER, "SELECT status FROM t")
