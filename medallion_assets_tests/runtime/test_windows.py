"""Windows over event time hold what a computation over the raw rows gives; late rows are held and named."""

import json
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, stream
from medallion_assets.declare.errors import DeclarationError, ReplayRefused
from medallion_assets.lake.position import newest_batch
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.orchestration.metadata import refreshed as page_of
from medallion_assets.quality.conservation import balance
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.runs.run import refresh
from medallion_assets_tests.shop import json_lines

pytestmark = pytest.mark.spark
NOON = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)


def clicks_with(window, mode, times=1):
    shop = Pipeline("shop")

    @shop.bronze()
    def clicks(files=shop.landing("clicks", format="json", schema="at TIMESTAMP, who STRING")):  # noqa: B008
        """One row per click."""
        return files

    keys = {"unique_by": ("window", "who")} if mode == "update" else {}

    @shop.gold(output_mode=mode, row_count_column="clicks", window_overlap=times, **keys)
    def windows(clicks=stream(clicks, event_time="at", watermark="1 minute")):
        """One row per window and person."""
        return clicks.groupBy(window.alias("window"), "who").agg(F.count("*").alias("clicks"))

    return clicks, windows


def at(seconds, who="a"):
    return {"at": (NOON + timedelta(seconds=seconds)).isoformat(), "who": who}


@pytest.fixture
def land(drop, lake, spark):
    def landed(tables, name, *clicks):
        drop("shop/clicks", name, json_lines(*clicks))
        done = [refresh(t, lake, lambda: spark) for t in tables]
        for table in tables:
            assert balance(table, lake).holds, str(balance(table, lake))
        return done[-1]

    return landed


def tumbling(clicks, size=30):
    counts = Counter()
    for click in clicks:
        seconds = int(datetime.fromisoformat(click["at"]).timestamp())
        counts[seconds - seconds % size, click["who"]] += 1
    return dict(counts)


def held(rows_of):
    rows = rows_of("shop/gold/windows", 'SELECT "window" AS w, who, clicks FROM t')
    return {(int(r["w"]["start"].timestamp()), r["who"]): r["clicks"] for r in rows}


def held_late(rows_of, status="open"):
    wanted = (
        f"SELECT row, rules, batch_id, attempts FROM t WHERE reason_class = 'late' AND status = '{status}'"
    )
    rows = rows_of("shop/quarantine/windows", wanted)
    return sorted((json.loads(r["row"])["at"][11:19], *r["rules"]) for r in rows)


def numbers_of_doctor(table, lake):
    return VERBS["doctor"](table, lake, None, VerbRequest()).found


def closed(start, end):
    return f"late: the window from 2024-01-01 12:{start} to 2024-01-01 12:{end} was closed"


def test_tumbling_windows_in_update_mode_grow_and_late_rows_are_held(land, rows_of, lake):
    tables = clicks_with(F.window("at", "30 seconds"), "update")
    first = [at(0), at(5), at(31, "b")]
    second = [at(29), at(100), at(600)]
    land(tables, "1.json", *first)
    land(tables, "2.json", *second)
    assert held(rows_of) == tumbling([*first, *second])
    third = [at(605), at(900)]
    land(tables, "3.json", *third)
    done = land(tables, "4.json", at(1), at(2), at(3, "c"), at(899))
    assert (done.batches[0].late, done.total("read"), done.total("written")) == (3, 4, 1)
    assert held(rows_of) == tumbling([*first, *second, *third, at(899)])
    last = newest_batch(tables[1], lake)
    assert last.watermark.startswith("2024-01-01T12:14:00")
    assert last.open_groups == 2
    numbers = numbers_of_doctor(tables[1], lake)
    assert (numbers["open_windows"], numbers["rows_in_open_windows"]) == (2, 0)
    assert (numbers["watermark"], numbers["state_bytes"]) == (last.watermark, last.state_bytes)
    checkpoint = [file for file in lake.state(tables[1], "checkpoint").rglob("*") if file.is_file()]
    assert numbers["checkpoint_bytes"] == sum(file.stat().st_size for file in checkpoint) > 1000
    page = {name: getattr(value, "value", value) for name, value in page_of(tables[1], lake, done).items()}
    assert page["watermark"].startswith("2024-01-01T12:14:00")
    assert (page["open_groups"], page["late_rows"]) == (2, 3)
    assert page["state_bytes"] == last.state_bytes > 0
    window = closed("00:00", "00:30")
    assert held_late(rows_of) == [(f"12:00:0{second}", window) for second in (1, 2, 3)]


def test_a_late_row_is_in_its_window_once_the_state_is_made_anew(land, rows_of, lake, spark, replayed):
    tables = clicks_with(F.window("at", "30 seconds"), "update")
    clicks = [[at(0), at(900)], [at(1000)], [at(1), at(2), at(1001)], [at(3), at(1002)]]
    for number, some in enumerate(clicks):
        land(tables, f"{number}.json", *some)
    assert len(held_late(rows_of)) == 3
    assert replayed(tables[1], fix="who = 'b'").tried == 0
    assert replayed(tables[1], QuarantineFilter(where="row LIKE '%T12:00:03%'"), dry_run=True).tried == 1
    assert replayed(tables[1], QuarantineFilter(where="row LIKE '%T12:00:03%'")).written == 3
    assert held(rows_of) == tumbling([click for some in clicks for click in some])
    assert (len(held_late(rows_of)), len(held_late(rows_of, "replayed"))) == (0, 3)
    land(tables, "late.json", at(4))
    land(tables, "later.json", at(5))
    assert len(held_late(rows_of)) == 1
    VERBS["full_refresh"](tables[1], lake, lambda: spark, VerbRequest())
    assert balance(tables[1], lake).holds
    assert not held_late(rows_of)
    assert held(rows_of)[int(NOON.timestamp()), "a"] == 6


def test_late_rows_are_held_once_though_their_batch_dies_before_its_commit(land, rows_of, lake, spark):
    tables = clicks_with(F.window("at", "30 seconds"), "update")
    for number, some in enumerate([[at(0), at(900)], [at(1000)], [at(1), at(1001)]]):
        land(tables, f"{number}.json", *some)
    checkpoint = lake.state(tables[1], "checkpoint")
    for name in ("commits/2", "commits/.2.crc"):
        (checkpoint / name).unlink(missing_ok=True)
    land(tables, "3.json", at(1002))
    assert held_late(rows_of) == [("12:00:01", closed("00:00", "00:30"))]


def test_append_mode_writes_a_window_once_it_is_closed_and_counts_those_that_are_open(land, rows_of, lake):
    tables = clicks_with(F.window("at", "30 seconds"), "append")
    land(tables, "1.json", at(0), at(5), at(200))
    assert held(rows_of) == tumbling([at(0), at(5)])
    done = land(tables, "2.json", at(6, "b"), at(190, "b"), at(900))
    assert held(rows_of) == tumbling([at(0), at(5), at(190, "b"), at(200)])
    assert (done.total("late"), done.batches[-1].open_rows) == (1, 1)
    assert (done.total("read"), done.total("written")) == (3, 2)
    assert numbers_of_doctor(tables[1], lake)["rows_in_open_windows"] == 1


def test_sliding_windows_count_a_row_in_each_window_it_lies_in(land, rows_of):
    tables = clicks_with(F.window("at", "30 seconds", "15 seconds"), "update", times=2)
    land(tables, "1.json", at(0), at(20))
    land(tables, "2.json", at(10))
    start = int(NOON.timestamp())
    assert held(rows_of) == {(start - 15, "a"): 2, (start, "a"): 3, (start + 15, "a"): 1}


def test_a_row_is_held_for_each_sliding_window_that_is_closed_and_stands_in_the_other(land, rows_of):
    tables = clicks_with(F.window("at", "30 seconds", "15 seconds"), "update", times=2)
    land(tables, "1.json", at(0), at(80))
    land(tables, "2.json", at(81))
    land(tables, "3.json", at(10, "b"), at(1, "c"))
    # The watermark is 12:00:20: the windows to 12:00:15 are closed, those to 12:00:30 are not.
    windows = closed("59:45", "00:15").replace("12:59", "11:59")
    assert held_late(rows_of) == [("12:00:01", windows), ("12:00:10", windows)]
    start = int(NOON.timestamp())
    assert [held(rows_of)[start, who] for who in "bc"] == [1, 1]


def test_session_windows_end_after_a_silence_and_rows_after_that_are_late(land, rows_of):
    tables = clicks_with(F.session_window("at", "30 seconds"), "append")
    land(tables, "1.json", at(0), at(20), at(100))
    land(tables, "2.json", at(40), at(900))
    land(tables, "3.json", at(1000))
    done = land(tables, "4.json", at(1), at(2), at(1001))
    assert done.batches[0].late == 2
    start = int(NOON.timestamp())
    assert held(rows_of) == {(start, "a"): 3, (start + 100, "a"): 1, (start + 900, "a"): 1}
    wanted = [("12:00:01", closed("00:01", "00:31")), ("12:00:02", closed("00:02", "00:32"))]
    assert held_late(rows_of) == wanted


@pytest.mark.thorough
def test_rows_without_a_time_are_held_whatever_keeps_the_windows_and_counted_once_mended(
    land, do, replayed, rows_of, lake, spark
):
    shop, watched = Pipeline("shop"), {"event_time": "at", "watermark": "1 minute"}
    clicks, closing = clicks_with(F.window("at", "30 seconds"), "append")
    count = F.count("*").alias("clicks")

    @shop.gold(output_mode="append", row_count_column="clicks")
    def sessions(clicks=stream(clicks, **watched)):
        """One row per session."""
        return clicks.groupBy(F.session_window("at", "30 seconds").alias("w"), "who").agg(count)

    @shop.gold(output_mode="complete", row_count_column="clicks")
    def whole(clicks=stream(clicks)):
        """One row per window of whole seconds."""
        seconds = clicks.select(F.date_trunc("second", "at").alias("at"))
        return seconds.where("true").groupBy(F.window("at", "30 seconds").alias("w")).agg(count)

    @shop.gold(output_mode="incremental", row_count_column="clicks", window_overlap=2)
    def merged(clicks=stream(clicks)):
        """One row per sliding window."""
        return clicks.groupBy(F.window("at", "30 seconds", "15 seconds").alias("w"), "who").agg(count)

    golds = {"windows": closing, "sessions": sessions, "whole": whole, "merged": merged}

    def held_in(name):
        found = rows_of(f"shop/quarantine/{name}", "SELECT row, rules FROM t WHERE status = 'open'")
        return sorted((json.loads(r["row"])["who"], *r["rules"]) for r in found)

    rule, never = "no_event_time", {"at": None}
    land((clicks, *golds.values()), "1.json", at(0), never | {"who": "a"})
    land((clicks, *golds.values()), "2.json", at(900), never | {"who": "a"}, never | {"who": "b"})
    assert {n: held_in(n) for n in golds} == {n: [("a", rule), ("a", rule), ("b", rule)] for n in golds}
    for name in ("whole", "merged"):
        with pytest.raises(ReplayRefused, match=rule):
            replayed(golds[name])
        mine = QuarantineFilter(where="row LIKE '%\"a\"%'")
        assert replayed(golds[name], mine, fix="at = TIMESTAMP'2024-01-01 12:00:01'").tried == 2
        clicked = rows_of(f"shop/gold/{name}", "SELECT CAST(sum(clicks) AS BIGINT) AS n FROM t")
        assert clicked == [{"n": 4 * golds[name].window_overlap}]
    spark.sql(f"DELETE FROM delta.`{lake.path(clicks)}` WHERE who = 'b'")
    for name, table in golds.items():
        refresh(table, lake, lambda: spark)
        assert balance(table, lake).holds, balance(table, lake)
        assert held_in(name) == ([("a", rule)] * 2 if name in ("windows", "sessions") else [])
    assert do("full_refresh", merged).well
    assert balance(merged, lake).holds, balance(merged, lake)


def test_a_state_killed_between_its_write_and_its_commit_goes_on(land, rows_of, lake, spark):
    tables = clicks_with(F.window("at", "30 seconds"), "update")
    land(tables, "1.json", at(0), at(5))
    land(tables, "2.json", at(6))
    checkpoint = lake.state(tables[1], "checkpoint")
    for name in ("commits/1", "commits/.1.crc"):
        (checkpoint / name).unlink(missing_ok=True)
    land(tables, "3.json", at(7), at(40))
    assert held(rows_of) == tumbling([at(0), at(5), at(6), at(7), at(40)])


def test_a_row_deleted_upstream_leaves_its_window(land, rows_of, lake, spark):
    tables = clicks_with(F.window("at", "30 seconds"), "update")
    land(tables, "1.json", at(0), at(5), at(40, "b"))
    spark.sql(f"DELETE FROM delta.`{lake.path(tables[0])}` WHERE who = 'b'")
    refresh(tables[1], lake, lambda: spark)
    assert held(rows_of) == tumbling([at(0), at(5)])


def test_a_query_that_no_longer_fits_its_state_names_the_verb_that_mends_it(land, do, rows_of):
    clicks, before = clicks_with(F.window("at", "30 seconds"), "update")
    land((clicks, before), "1.json", at(0))
    shop = Pipeline("shop")

    @shop.gold(output_mode="update", row_count_column="clicks", unique_by=("window", "who"))
    def windows(clicks=stream(clicks, event_time="at", watermark="1 minute")):
        """One row per window and person."""
        sums = F.count("*").alias("clicks"), F.max("at").alias("last")
        return clicks.groupBy(F.window("at", "30 seconds").alias("window"), "who").agg(*sums)

    with pytest.raises(Exception, match=r"shop/gold/windows: .*medallion full_refresh shop/gold/windows"):
        land((clicks, windows), "2.json", at(1))
    assert do("full_refresh", windows).well
    assert [r["clicks"] for r in rows_of("shop/gold/windows", "SELECT clicks FROM t")] == [2]


def test_update_mode_without_keys_is_refused_as_it_is_declared():
    shop = Pipeline("shop")

    @shop.bronze()
    def clicks(files=shop.landing("clicks", format="json", schema="at TIMESTAMP")):  # noqa: B008
        """One row per click."""
        return files

    with pytest.raises(DeclarationError, match="update mode merges by keys: say unique_by"):

        @shop.gold(output_mode="update", row_count_column="clicks")
        def windows(clicks=stream(clicks)):
            """One row per minute."""
            return clicks
