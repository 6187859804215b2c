"""Quarantined rows fixed, replayed, given up: seen in tables, quarantines and books."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.tables import Pipeline, expect, keep_changes, stream
from medallion_assets.tables import replay as engine
from medallion_assets.tables.choice import Choice
from medallion_assets.tables.conservation import balance
from medallion_assets.tables.discard import discard
from medallion_assets.tables.errors import ReplayRefused
from medallion_assets.tables.refresh import full_refresh, refresh
from medallion_assets.tables.replay import replay

pytestmark = pytest.mark.spark
ABOVE_ZERO = expect("above_zero", "total > 0")
BRONZE, SILVER = "shop/quarantine/orders", "shop/quarantine/sales"


def shop_with(rules=(ABOVE_ZERO,), keys="id", bronze_rules=(), **landing):
    shop = Pipeline("shop")
    told = {"format": "json", "schema": "id INT, total INT, at TIMESTAMP"} | landing

    @shop.bronze(expectations=bronze_rules)
    def orders(files=shop.landing("orders", **told)):  # noqa: B008
        """One row per order, as it landed."""
        return files

    @shop.silver(unique_by=keys, expectations=rules)
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "total", "at")

    @shop.gold(output_mode="incremental", counts_rows="sales")
    def totals(sales=stream(sales)):
        """One row per kind of sale."""
        return sales.groupBy(F.lit("all").alias("of")).agg(
            F.sum("total").alias("total"), F.count("*").alias("sales")
        )

    return orders, sales, totals


@pytest.fixture
def refreshed(lake, spark):
    def run_all(*tables):
        done = [refresh(table, lake, lambda: spark) for table in tables]
        for table in tables:
            books = balance(table, lake)
            assert books.holds, f"{table.key}: {books}"
        return done

    return run_all


@pytest.fixture
def replayed(lake, spark):
    def run(table, choice=Choice(), fix="", **more):  # noqa: B008
        done = replay(table, lake, spark, choice, fix, **more)
        books = balance(table, lake)
        assert books.holds, str(books)
        return done

    return run


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def order(number, total, at="2026-01-01T00:00:00.123456Z"):
    return {"id": number, "total": total, "at": at}


@pytest.mark.parametrize("keys", ["id", ()], ids=["rows with keys", "rows without"])
def test_a_fixed_row_reaches_gold_once_however_often_replayed_and_leaves_its_trace(
    drop, refreshed, replayed, rows_of, keys
):
    tables = shop_with(keys=keys)
    drop("shop/orders", "a.json", lines(order(1, 5), order(2, -7), order(3, -8)))
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


@pytest.mark.parametrize("keys", ["id", ()], ids=["rows with keys", "rows without"])
def test_a_row_that_fails_again_stays_open_with_its_attempts(drop, refreshed, replayed, rows_of, keys):
    tables = shop_with(keys=keys)
    drop("shop/orders", "a.json", lines(order(1, -5)))
    refreshed(*tables)
    assert replayed(tables[1]).still_open == 1
    assert replayed(tables[1], fix="total = total + 1").still_open == 1
    found = rows_of(SILVER, "SELECT status, attempts, row FROM t")
    assert [(f["status"], f["attempts"], json.loads(f["row"])["total"]) for f in found] == [("open", 3, -5)]


def test_todays_rules_judge_a_replay(drop, refreshed, replayed, rows_of):
    orders, sales, _ = shop_with()
    drop("shop/orders", "a.json", lines(order(1, -5)))
    refreshed(orders, sales)
    softer = shop_with(rules=(expect("above_minus_ten", "total > -10"),))[1]
    assert replayed(softer).written == 1
    assert rows_of("shop/silver/sales", "SELECT total FROM t") == [{"total": -5}]


def test_a_choice_takes_only_what_it_says(drop, refreshed, replayed, rows_of):
    tables = shop_with(rules=(ABOVE_ZERO, expect("small", "total < 100")))
    drop("shop/orders", "a.json", lines(order(1, -5), order(2, 500)))
    refreshed(*tables)
    assert replayed(tables[1], Choice(rules=("small",)), "total = 50").written == 1
    assert replayed(tables[1], Choice(where="row LIKE '%nothing%'"), "total = 50").tried == 0
    assert rows_of(SILVER, "SELECT rules FROM t WHERE status = 'open'") == [{"rules": ["above_zero"]}]


def test_a_dry_run_says_the_same_and_moves_nothing(drop, refreshed, replayed, rows_of, lake):
    tables = shop_with()
    drop("shop/orders", "a.json", lines(order(1, 5), order(1, -5), order(2, -7), order(3, None)))
    refreshed(*tables)
    before = rows_of(SILVER)
    foreseen = replayed(tables[1], fix="total = abs(total)", dry_run=True)
    assert (foreseen.written, foreseen.duplicates, foreseen.still_open) == (1, 1, 1)
    assert rows_of(SILVER) == before
    done = replayed(tables[1], fix="total = abs(total)")
    assert (done.written, done.duplicates, done.still_open) == (1, 1, 1)


def test_a_malformed_record_is_read_again_as_it_was_mended(drop, refreshed, replayed, rows_of):
    orders, sales, totals = shop_with()
    broken = '{"id": 2, "total": 7, "at": "2026-01-01T00:00:00Z"'
    drop("shop/orders", "a.json", lines(order(1, 5)) + broken + "\nnot json at all\n")
    refreshed(orders, sales, totals)
    done = replayed(orders, fix="row = concat(row, '}')")
    assert (done.tried, done.written, done.still_open) == (2, 1, 1)
    refreshed(orders, sales, totals)
    assert rows_of("shop/gold/totals", "SELECT total FROM t") == [{"total": 12}]
    held = rows_of(BRONZE, "SELECT row, attempts FROM t WHERE status = 'open'")
    assert held == [{"row": "not json at all", "attempts": 2}]
    (file,) = rows_of("shop/bronze/orders", "SELECT DISTINCT _source_file AS path FROM t")
    assert file["path"].endswith("a.json")
    told = rows_of("shop/_ledger/orders_files", "SELECT * FROM t ORDER BY processed_time DESC LIMIT 1")[0]
    assert (told["rows_read"], told["rows_loaded"], told["rows_quarantined"]) == (3, 2, 1)


def test_a_mended_record_that_breaks_a_rule_is_held_by_that_rule(drop, refreshed, replayed, rows_of):
    orders, *_ = shop_with(bronze_rules=(ABOVE_ZERO,))
    drop("shop/orders", "a.json", lines(order(1, 5)) + '{"id": 2, "total": -7\n')
    refreshed(orders)
    assert replayed(orders, fix="row = concat(row, '}')").still_open == 1
    held = rows_of(BRONZE, "SELECT reason_class, rules FROM t WHERE status = 'open'")
    assert held == [{"reason_class": "rule", "rules": ["above_zero"]}]
    assert replayed(orders, Choice(reasons=("rule",)), fix="total = 7").written == 1


CSV = "id,total\n1,5\n2,many\n3,7,8\n"


def test_csv_records_are_read_again_by_their_files_own_header(drop, refreshed, replayed, rows_of):
    orders, *_ = shop_with(format="csv", schema="id INT, total INT")
    drop("shop/orders", "a.csv", CSV)
    refreshed(orders)
    assert replayed(orders, Choice(where="row LIKE '%many%'"), "row = replace(row, 'many', '6')").written == 1
    assert replayed(orders, fix="row = '3,7'").written == 1
    assert rows_of("shop/bronze/orders", "SELECT id, total FROM t ORDER BY id") == [
        {"id": 1, "total": 5},
        {"id": 2, "total": 6},
        {"id": 3, "total": 7},
    ]


def test_a_repair_outlives_a_full_refresh_and_a_correction_of_its_key(
    drop, refreshed, replayed, rows_of, lake
):
    tables = shop_with(allow_overwrites="replace")
    drop("shop/orders", "a.json", lines(order(1, 5), order(2, -7)))
    drop("shop/orders", "b.json", lines(order(2, 1), order(3, 3)))
    refreshed(*tables)
    replayed(tables[1], fix="id = 20, total = 7")
    refreshed(*tables)
    full_refresh(tables[1], lake)
    refreshed(*tables)
    drop("shop/orders", "b.json", lines(order(2, 2), order(3, 30), order(20, 1)))
    refreshed(*tables)
    assert rows_of("shop/silver/sales", "SELECT id, total FROM t ORDER BY id")[-2:] == [
        {"id": 3, "total": 30},
        {"id": 20, "total": 7},
    ]
    assert rows_of(SILVER, "SELECT status FROM t") == [{"status": "replayed"}]
    assert rows_of("shop/gold/totals", "SELECT sales FROM t") == [{"sales": 4}]


def test_an_event_mended_late_takes_its_place_in_history(drop, lake, refreshed, replayed, rows_of):
    shop = Pipeline("shop")

    @shop.bronze()
    def events(files=shop.landing("events", format="json", schema="id INT, city STRING, at INT")):  # noqa: B008
        """One row per event."""
        return files

    @shop.silver(keeps=keep_changes("id", "at", type=2))
    def places(events=stream(events)):
        """One row per place and time."""
        return events.select("id", "city", "at")

    drop("shop/events", "a.json", lines({"id": 1, "city": "A", "at": 1}, {"id": 1, "city": "B", "at": None}))
    refreshed(events, places)
    assert replayed(places, fix="at = 2").written == 1
    drop("shop/events", "b.json", lines({"id": 1, "city": "C", "at": 3}))
    refreshed(events, places)
    found = rows_of("shop/silver/places", "SELECT city FROM t ORDER BY at")
    assert [f["city"] for f in found] == ["A", "B", "C"]


DEATHS = [("move_entries", "id"), ("remade", "id"), ("move_entries", ()), ("append", ())]


@pytest.mark.parametrize(("at", "keys"), DEATHS)
def test_a_replay_that_dies_is_finished_by_the_next_refresh(
    drop, refreshed, lake, spark, rows_of, monkeypatch, keys, at
):
    tables = shop_with(keys=keys)
    drop("shop/orders", "a.json", lines(order(1, 5), order(2, -7)))
    refreshed(*tables)
    real = getattr(engine, at)

    def dies_after(*args, **told):
        real(*args, **told)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, at, dies_after)
    with pytest.raises(KeyboardInterrupt):
        replay(tables[1], lake, spark, Choice(), "total = 7")
    monkeypatch.setattr(engine, at, real)
    refreshed(*tables)
    assert rows_of("shop/silver/sales", "SELECT id, total FROM t ORDER BY id")[1:] == [{"id": 2, "total": 7}]
    assert rows_of(SILVER, "SELECT status, attempts FROM t") == [{"status": "replayed", "attempts": 2}]


BAD = ["total", "total = 1 WHERE true", "total = ", "nothing = 1", "1 = 2"]


@pytest.mark.parametrize("fix", BAD)
def test_a_fix_that_cannot_be_read_moves_nothing(drop, refreshed, lake, spark, rows_of, fix):
    tables = shop_with()
    drop("shop/orders", "a.json", lines(order(1, -5)))
    refreshed(*tables)
    with pytest.raises(ReplayRefused, match="fix"):
        replay(tables[1], lake, spark, Choice(), fix)
    assert rows_of(SILVER, "SELECT status, attempts FROM t") == [{"status": "open", "attempts": 1}]
    refreshed(*tables)


def test_a_row_given_up_stays_with_the_reason_and_is_not_tried_again(
    drop, refreshed, lake, spark, rows_of, replayed
):
    tables = shop_with()
    drop("shop/orders", "a.json", lines(order(1, -5)))
    refreshed(*tables)
    with pytest.raises(ReplayRefused, match="why"):
        discard(tables[1], lake, spark, Choice(), " ")
    assert discard(tables[1], lake, spark, Choice(), "a test order") == 1
    assert replayed(tables[1], fix="total = 5").tried == 0
    refreshed(*tables)
    assert rows_of(SILVER, "SELECT status, note FROM t") == [{"status": "discarded", "note": "a test order"}]
