"""What a person mended: read again, kept through all that comes after, ended where it died."""

import pytest

from medallion_assets.declare import Pipeline, keep_changes, stream
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.replay import replay as engine
from medallion_assets.replay.replay import replay
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import ABOVE_ZERO, chain, json_lines, order

pytestmark = pytest.mark.spark
BRONZE, SILVER = "shop/quarantine/orders", "shop/quarantine/sales"


def test_a_malformed_record_is_read_again_as_it_was_mended(drop, refreshed, replayed, rows_of):
    orders, sales, totals = chain()
    broken = '{"id": 2, "total": 7, "at": "2026-01-01T00:00:00Z"'
    drop("shop/orders", "a.json", json_lines(order(1, 5)) + broken + "\nnot json at all\n")
    refreshed(orders, sales, totals)
    done = replayed(orders, fix="row = concat(row, '}')")
    assert (done.tried, done.written, done.still_open) == (2, 1, 1)
    refreshed(orders, sales, totals)
    assert rows_of("shop/gold/totals", "SELECT total FROM t") == [{"total": 12}]
    held = rows_of(BRONZE, "SELECT row, attempts FROM t WHERE status = 'open'")
    assert held == [{"row": "not json at all", "attempts": 2}]
    (file,) = rows_of("shop/bronze/orders", "SELECT DISTINCT _source_file AS path FROM t")
    assert file["path"].endswith("a.json")
    told = rows_of("shop/_ledger/orders_files", "SELECT * FROM t ORDER BY recorded DESC LIMIT 1")[0]
    assert (told["rows_read"], told["rows_loaded"], told["rows_quarantined"]) == (3, 2, 1)


def test_a_mended_record_that_breaks_a_rule_is_held_by_that_rule(drop, refreshed, replayed, rows_of):
    orders, *_ = chain(bronze_rules=(ABOVE_ZERO,))
    drop("shop/orders", "a.json", json_lines(order(1, 5)) + '{"id": 2, "total": -7\n')
    refreshed(orders)
    assert replayed(orders, fix="row = concat(row, '}')").still_open == 1
    held = rows_of(BRONZE, "SELECT reason_class, rules FROM t WHERE status = 'open'")
    assert held == [{"reason_class": "rule", "rules": ["above_zero"]}]
    assert replayed(orders, QuarantineFilter(reasons=("rule",)), fix="total = 7").written == 1


CSV = "id,total\n1,5\n2,many\n3,7,8\n"


def test_csv_records_are_read_again_by_their_files_own_header(drop, refreshed, replayed, rows_of):
    orders, *_ = chain(format="csv", schema="id INT, total INT")
    drop("shop/orders", "a.csv", CSV)
    refreshed(orders)
    assert (
        replayed(
            orders, QuarantineFilter(where="row LIKE '%many%'"), "row = replace(row, 'many', '6')"
        ).written
        == 1
    )
    assert replayed(orders, fix="row = '3,7'").written == 1
    assert rows_of("shop/bronze/orders", "SELECT id, total FROM t ORDER BY id") == [
        {"id": 1, "total": 5},
        {"id": 2, "total": 6},
        {"id": 3, "total": 7},
    ]


def test_a_repair_outlives_a_full_refresh_and_a_correction_of_its_key(
    do, drop, refreshed, replayed, rows_of, lake
):
    tables = chain(allow_overwrites="replace")
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -7)))
    drop("shop/orders", "b.json", json_lines(order(2, 1), order(3, 3)))
    refreshed(*tables)
    replayed(tables[1], fix="id = 20, total = 7")
    refreshed(*tables)
    do("full_refresh", tables[1])
    refreshed(*tables)
    drop("shop/orders", "b.json", json_lines(order(2, 2), order(3, 30), order(20, 1)))
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

    @shop.silver(scd=keep_changes("id", "at", type=2))
    def places(events=stream(events)):
        """One row per place and time."""
        return events.select("id", "city", "at")

    drop(
        "shop/events",
        "a.json",
        json_lines({"id": 1, "city": "A", "at": 1}, {"id": 1, "city": "B", "at": None}),
    )
    refreshed(events, places)
    assert replayed(places, fix="at = 2").written == 1
    drop("shop/events", "b.json", json_lines({"id": 1, "city": "C", "at": 3}))
    refreshed(events, places)
    found = rows_of("shop/silver/places", "SELECT city FROM t ORDER BY at")
    assert [f["city"] for f in found] == ["A", "B", "C"]


DEATHS = [
    seldom("move_entries", "id"),
    ("prepare_recompute", "id"),
    seldom("move_entries", ()),
    ("append", ()),
]


@pytest.mark.parametrize(("at", "keys"), DEATHS)
def test_a_replay_that_dies_is_finished_by_the_next_refresh(
    drop, refreshed, lake, spark, rows_of, monkeypatch, keys, at
):
    tables = chain(keys=keys)
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -7)))
    refreshed(*tables)
    real = getattr(engine, at)

    def dies_after(*args, **told):
        real(*args, **told)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, at, dies_after)
    with pytest.raises(KeyboardInterrupt):
        replay(tables[1], lake, spark, QuarantineFilter(), "total = 7")
    monkeypatch.setattr(engine, at, real)
    refreshed(*tables)
    assert rows_of("shop/silver/sales", "SELECT id, total FROM t ORDER BY id")[1:] == [{"id": 2, "total": 7}]
    assert rows_of(SILVER, "SELECT status, attempts FROM t") == [{"status": "replayed", "attempts": 2}]


def test_a_replay_that_died_and_whose_plan_a_power_cut_emptied_is_tried_again_from_the_start(
    drop, refreshed, replayed, lake, spark, rows_of, monkeypatch
):
    tables = chain()
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -7)))
    refreshed(*tables)
    real = engine.move_entries

    def dies_after(*args, **told):
        real(*args, **told)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "move_entries", dies_after)
    with pytest.raises(KeyboardInterrupt):
        replay(tables[1], lake, spark, QuarantineFilter(), "total = 7")
    monkeypatch.setattr(engine, "move_entries", real)
    lake.state(tables[1], "replay.json").write_bytes(b"")
    refreshed(*tables)
    assert [row["status"] for row in rows_of(SILVER, "SELECT status FROM t")] == ["open"]
    assert replayed(tables[1], fix="total = 7").written == 1
    assert rows_of("shop/silver/sales", "SELECT id, total FROM t ORDER BY id")[1:] == [{"id": 2, "total": 7}]


def test_a_replay_first_ends_the_batch_that_died_with_the_row_it_is_of(
    drop, refreshed, replayed, lake, rows_of
):
    tables = chain()
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -7)))
    refreshed(*tables)
    drop("shop/orders", "b.json", json_lines(order(3, -8)))
    refreshed(*tables)
    # As a process leaves it that died after the tables' commits and before the checkpoint's.
    for name in ("commits/1", "commits/.1.crc"):
        (lake.state(tables[1], "checkpoint") / name).unlink()
    assert replayed(tables[1], fix="total = abs(total)").written == 2
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 20, "sales": 3}]


def test_a_replay_without_a_checkpoint_goes_by_what_the_tables_commits_say(
    drop, refreshed, replayed, do, rows_of
):
    tables = chain()
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -7)))
    refreshed(*tables)
    do("reset_checkpoint", tables[1])
    assert replayed(tables[1], fix="total = abs(total)").written == 1
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 12, "sales": 2}]
