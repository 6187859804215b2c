"""What a person asks of tables beyond a run: seen in the tables, their files and what is told."""

import json
import shutil
from datetime import datetime, timezone
from functools import partial

import pytest

from medallion_assets.declare import Pipeline, expect
from medallion_assets.delta import log
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets_tests.shop import chain, json_lines, orders_file, orders_of

pytestmark = pytest.mark.spark
shop_with = partial(chain, gold="complete")


def test_plan_says_what_a_run_would_take_and_what_changed_code_needs(drop, refreshed, look):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5)))
    assert look("plan", tables[0]).does.startswith("1 new file to load")
    assert look("plan", tables[0]).downstream == ("shop/silver/sales", "shop/gold/totals")
    refreshed(*tables)
    assert [look("plan", t).does for t in tables] == ["nothing new"] * 3
    changed = shop_with(rules=(expect("above_one", "total > 1"),))
    assert "for old ones run full_refresh" in look("plan", changed[1]).does
    assert look("plan", changed[2]).does == "nothing new"


def test_a_full_refresh_applies_new_rules_to_old_rows_and_undo_takes_it_back(drop, refreshed, do, rows_of):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, 1)))
    refreshed(*tables)
    changed = shop_with(rules=(expect("above_one", "total > 1"),))
    foreseen = do("full_refresh", changed[1], dry_run=True)
    assert (foreseen.reads, foreseen.downstream) == ("shop/bronze/orders", ("shop/gold/totals",))
    assert rows_of("shop/silver/sales", "SELECT count(*) AS n FROM t") == [{"n": 2}]
    assert "2 rows before, 1 now" in do("full_refresh", changed[1]).does
    refreshed(*changed)
    assert rows_of("shop/gold/totals", "SELECT total FROM t") == [{"total": 5}]
    assert "is restored" in do("undo", changed[1]).does
    drop("shop/orders", "b.json", orders_file((3, 9)))
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 15, "sales": 3}]
    assert not do("undo", changed[1]).well


def test_a_full_refresh_that_fails_leaves_everything_as_it_was(drop, refreshed, do, rows_of):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, 1)))
    refreshed(*tables)
    strict = shop_with(rules=(expect("above_one", "total > 1", "fail"),))
    with pytest.raises(RuntimeError, match="above_one"):
        do("full_refresh", strict[1])
    drop("shop/orders", "b.json", orders_file((3, 9)))
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 15, "sales": 3}]


def test_a_full_refresh_is_refused_where_its_upstream_is_gone(drop, refreshed, do, rows_of, lake):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, 1)))
    refreshed(*tables)
    shutil.rmtree(lake.path(tables[0]))
    told = do("full_refresh", tables[1])
    assert not told.well
    assert "shop/bronze/orders" in told.does
    assert rows_of("shop/silver/sales", "SELECT count(*) AS n FROM t") == [{"n": 2}]


def test_bronze_is_not_made_anew_from_files_that_may_be_gone(drop, refreshed, do):
    orders, *_ = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(orders)
    told = do("full_refresh", orders)
    assert not told.well
    assert "Nothing was changed" in told.does


def test_a_reset_checkpoint_neither_loses_nor_doubles(drop, refreshed, do, rows_of):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(*tables)
    for table in tables:
        do("reset_checkpoint", table)
    drop("shop/orders", "b.json", orders_file((3, 9)))
    refreshed(*tables)
    assert rows_of("shop/bronze/orders", "SELECT count(*) AS n FROM t") == [{"n": 3}]
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 14, "sales": 2}]


def test_a_checkpoint_may_go_while_a_batch_has_refused_rows_and_no_commit_yet(
    drop, refreshed, do, lakehouse_here, rows_of
):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(*tables)
    drop("shop/orders", "b.json", orders_file((3, 9), (4, -1)))
    refreshed(tables[0])
    with lakehouse_here.crash_at(1):
        refreshed(tables[1])
    assert do("reset_checkpoint", tables[1]).well
    refreshed(*tables)
    assert rows_of("shop/quarantine/sales", "SELECT count(*) AS n FROM t") == [{"n": 2}]
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 14, "sales": 2}]


def test_reprocessed_files_replace_what_they_gave_all_the_way_down(drop, refreshed, do, rows_of, lake):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    old = drop("shop/orders", "b.json", orders_file((3, 9)))
    refreshed(*tables)
    assert "1 file would be read again" in do("reprocess", tables[0], files=("a.json",), dry_run=True).does
    told = do("reprocess", tables[0], files=("a.json",))
    assert told.found["records_before"] == told.found["records_now"] == 2
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 14, "sales": 2}]
    old.unlink()
    refused = do("reprocess", tables[0], since="2020-01-01")
    assert not refused.well
    assert "b.json" in refused.does


def test_files_are_chosen_for_reprocessing_by_when_they_arrived_or_by_when_their_rows_happened(
    drop, refreshed, do
):
    orders = orders_of(Pipeline("shop"), schema="id INT, at STRING")
    arrived = [datetime.now(timezone.utc)]
    for number, day in enumerate(("2026-01-01", "2026-02-01T10:00:00Z", "no day")):
        drop("shop/orders", f"{number}.json", json_lines({"id": number, "at": day}, {"id": 9, "at": None}))
        refreshed(orders)
        arrived.append(datetime.now(timezone.utc))

    def chosen(since, until, event_time=""):
        asked = {"since": str(since), "until": str(until), "event_time": event_time}
        return do("reprocess", orders, dry_run=True, **asked).found.get("files", 0)

    assert chosen(arrived[1], arrived[2]) == 1
    assert (chosen(arrived[1], ""), chosen("", arrived[1]), chosen("", "")) == (2, 1, 3)
    assert chosen("2026-01-01", "2026-01-02", "at") == 1
    assert chosen("2026-01-01T00:00:00.000001", "2026-02-01T10:00:00Z", "at") == 0
    assert chosen("2026-01-02", "", "try_cast(substr(at, 1, 10) AS DATE)") == 1
    refused = do("reprocess", orders, since="two hours ago", until="2026-01-02")
    assert (refused.well, refused.does.partition(",")[0]) == (
        False, "refused: two hours ago and 2026-01-02: a time is ISO 8601"
    )  # fmt: skip
    told = do("reprocess", orders, since="2026-01-01", until="2026-01-02", event_time="at")
    assert (told.found["records_before"], told.found["records_now"]) == (2, 2)


def test_a_reprocessing_that_died_before_its_batch_does_not_double(drop, refreshed, do, rows_of, lake, spark):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, 7)))
    refreshed(*tables)

    def dies():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VERBS["reprocess"](tables[0], lake, dies, VerbRequest(files=("a.json",)))
    refreshed(*tables)
    assert rows_of("shop/bronze/orders", "SELECT id FROM t ORDER BY id") == [{"id": 1}, {"id": 2}]


def test_a_reset_takes_everything_downstream_with_it_and_starts_again(drop, refreshed, look, rows_of, lake):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(*tables)
    assert "shop/gold/totals" in look("reset", tables[0], dry_run=True).does
    assert log.exists(lake.path(tables[0]))
    look("reset", tables[0])
    assert not list(lake.root.rglob("shop/**/*.parquet")), "of what runs did the event log stays"
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total FROM t") == [{"total": 5}]


def test_rescued_fields_go_into_their_columns_once_the_schema_knows_them(drop, refreshed, do, rows_of):
    told = {"schema_evolution_mode": "rescue", "rescued_data_column": "_rescued_data"}
    first = shop_with(**told)[0]
    drop(
        "shop/orders",
        "a.json",
        '{"id": 1, "total": 5, "tip": 2, "note": {"by": "x"}}\n{"id": 2, "tip": "n"}\n',
    )
    refreshed(first)
    orders = orders_of(Pipeline("shop"), schema="id INT, total INT, at TIMESTAMP, tip INT", **told)

    drop("shop/orders", "b.json", '{"id": 3, "tip": 4}\n')
    refreshed(orders)
    choice = QuarantineFilter(reasons=("rescued",))
    assert do("replay", orders, choice=choice, dry_run=True).found == {"rows": 1}
    assert do("replay", orders, choice=choice).found == {"rows": 1}
    assert do("replay", orders, choice=choice).found == {"rows": 0}
    found = rows_of("shop/bronze/orders", "SELECT id, tip, _rescued_data AS r FROM t ORDER BY id")
    assert [(row["id"], row["tip"]) for row in found] == [(1, 2), (2, None), (3, 4)]
    assert set(json.loads(found[0]["r"])) == {"note", "_file_path"}
    assert json.loads(found[1]["r"])["tip"] == "n"
