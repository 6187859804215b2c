"""Processing time: rounds go on while files land, say what they did, and end when they are told to."""

import os
import threading
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import dagster as dg
import pytest
from typer.testing import CliRunner

from medallion_assets.cli import app
from medallion_assets.declare import Pipeline
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.declare.pipeline import chosen
from medallion_assets.declare.triggers import timings_of
from medallion_assets.definitions import defs
from medallion_assets.orchestration import build
from medallion_assets.orchestration.build import build_definitions
from medallion_assets.orchestration.events import announced
from medallion_assets.orchestration.resources import SparkResource
from medallion_assets.pipelines import PIPELINES
from medallion_assets.pytest_plugin import Crashed
from medallion_assets.runs import streaming
from medallion_assets.runs.run import Outcome, run_tables
from medallion_assets.runs.streaming import stream_tables
from medallion_assets.simulators import land
from medallion_assets.sources.errors import seconds_of
from medallion_assets.storage.lease import held
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import chain, orders_of, totals_file

BRONZE = "school/bronze/courses"


@pytest.mark.parametrize(
    ("told", "seconds"), [("10s", 10), ("500ms", 0.5), ("1m", 60), ("1.5 h", 5400), ("1 day", 86400)]
)
def test_an_interval_is_read_as_people_write_it(told, seconds):
    assert seconds_of(told) == seconds


def test_what_is_no_interval_is_refused_with_an_example():
    with pytest.raises(ValueError, match="'often' is no interval; say it like 10s"):
        seconds_of("often")


def test_a_stop_ends_the_stream_though_nothing_ever_landed(lake, no_spark):
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    assert list(stream_tables(chosen(PIPELINES, ["school"]), lake, no_spark, 0.05, stop)) == []


@pytest.mark.parametrize("record", ["", '{"na', '{"name": "x", "of": "another release"}'])
def test_a_stream_begins_beside_a_record_that_cannot_be_read(lake, no_spark, record):
    dead = lake.root / "_streams" / "dead" / "stream.json"
    dead.parent.mkdir(parents=True)
    dead.write_text(record)
    assert streaming.running_streams(lake) == []
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    assert list(stream_tables(chosen(PIPELINES, ["school"]), lake, no_spark, 0.05, stop)) == []
    assert not dead.exists()


def test_each_table_of_a_stream_is_taken_at_the_processing_time_of_its_own(lake, no_spark, monkeypatch):
    stop, taken = threading.Event(), Counter()
    bronze, sales, _ = tables = chain()
    tables = (bronze, replace(sales, trigger="1 hour"), tables[2])

    def counted(due, *others, **named):
        taken.update(table.key for table in due)
        return run_tables(due, *others, **named)

    monkeypatch.setattr(streaming, "run_tables", counted)
    threading.Timer(1, stop.set).start()
    timings = timings_of(tables, ["availableNow", "shop.gold.totals=200ms", f"{sales.key}=1 hour"])
    assert list(stream_tables(tables, lake, no_spark, 0.05, stop, timings)) == []
    assert taken[sales.key] == 1
    assert 2 <= taken["shop/gold/totals"] <= 6 < taken[bronze.key]
    assert timings_of(tables)[sales.key].every_seconds == 3600, "as it declares"


def test_a_table_that_fails_is_taken_ever_more_rarely_and_the_others_from_start_to_start(
    lake, no_spark, monkeypatch
):
    stop, began = threading.Event(), {}
    bronze, sales, _ = chain()

    def worked(due, *others, **named):
        for table in due:
            began.setdefault(table.key, []).append(time.monotonic())
            time.sleep(0.1 if table is bronze else 0)
            yield Outcome(table, None, None, error="as ever" if table is sales else "")

    monkeypatch.setattr(streaming, "run_tables", worked)
    threading.Timer(3.4, stop.set).start()
    failed = [m.outcome.table for m in stream_tables((bronze, sales), lake, no_spark, 0.2, stop)]
    assert failed in ([sales] * 3, [sales] * 4), "at once, then after 0.4 s, 0.8 s and 1.6 s"
    gaps = {key: [after - before for before, after in pairwise(times)] for key, times in began.items()}
    assert all(gap > 0.7 * least for gap, least in zip(gaps[sales.key], (0.4, 0.8, 1.6), strict=False))
    usual = sorted(gaps[bronze.key])[len(gaps[bronze.key]) // 2]
    assert usual < 0.29, "the work is within the interval, and not added to it"


def test_a_trigger_that_cannot_be_is_told_as_the_declaration_loads():
    shop = Pipeline("shop")
    with pytest.raises(DeclarationError, match=r"test_streaming.py:\d+: shop/bronze/orders: Spark's contin"):

        @shop.bronze(trigger="continuous")
        def orders(files=shop.landing("orders", format="json")):  # noqa: B008
            """One row per order."""


@pytest.mark.spark
def test_a_trigger_of_one_table_says_into_how_many_micro_batches_its_files_go(lake, drop, spark, monkeypatch):
    shop = Pipeline("shop")
    table = orders_of(shop, max_files_per_trigger=1)

    def landed(turn):
        for number in range(3):
            drop("shop/orders", f"{turn}-{number}.json", totals_file(5, start=turn * 3 + number))

    def batches(of, asked=()):
        (outcome,) = run_tables([of], lake, lambda: spark, timings=timings_of([of], asked) if asked else None)
        return len(outcome.refresh.batches)

    landed(0)
    assert batches(table) == 3
    landed(1)
    assert batches(table, ["once", "availableNow", f"{table.key}=once"]) == 1
    landed(2)
    assert batches(replace(table, trigger="once")) == 1
    landed(3)
    monkeypatch.setenv("MEDALLION_LAKE", str(lake.root))
    config = {"ops": {"shop__bronze__orders": {"config": {"trigger": "once"}}}}
    job = build_definitions([shop]).resolve_job_def("shop_chain")
    done = job.execute_in_process(run_config=config)
    (event,) = done.get_asset_materialization_events()
    assert event.materialization.metadata["micro_batches"].value == 1
    assert event.materialization.metadata["rows_written"].value == 3


@pytest.mark.spark
def test_files_that_land_between_rounds_are_taken_and_their_latency_told(lake, drop, spark, rows_of):
    stop, seen = threading.Event(), []
    head = "course_id,title,instructor,category,price\n"
    drop("school/courses", "1.csv", head + "C1,One,Ada,x,1\n")
    for moment in stream_tables(chosen(PIPELINES, [BRONZE]), lake, lambda: spark, 0.05, stop):
        seen.append(moment)
        if len(seen) == 1:
            drop("school/courses", "2.csv", head + "C2,Two,Bob,x,2\n")
        else:
            stop.set()
    assert [m.outcome.refresh.total("written") for m in seen] == [1, 1]
    assert all(0 < m.latency_seconds < 120 for m in seen)
    assert len(rows_of(BRONZE)) == 2


@pytest.mark.spark
@pytest.mark.parametrize("commit", [seldom(1), 2, seldom(3)])
def test_a_stream_that_died_in_a_round_goes_on_where_it_stopped(
    lakehouse_here, lake, drop, spark, rows_of, commit
):
    tables, stop = chain(), threading.Event()
    drop("shop/orders", "1.json", totals_file(5, -1))
    for moment in stream_tables(tables, lake, lambda: spark, 0.05, stop):
        if moment.outcome.table is tables[-1]:
            break
    drop("shop/orders", "2.json", totals_file(7, -2, 8, start=2))
    with lakehouse_here.crash_at(commit):
        refuse_to_go_on(stream_tables(tables, lake, lambda: spark, 0.05, stop))
    drop("shop/orders", "3.json", totals_file(9, start=5))
    threading.Timer(120, stop.set).start()
    for _ in stream_tables(tables, lake, lambda: spark, 0.05, stop):
        if rows_of(tables[-1].key, "SELECT sales FROM t") == [{"sales": 4}]:
            stop.set()
    assert rows_of(tables[-1].key, "SELECT total, sales FROM t") == [{"total": 29, "sales": 4}]
    lakehouse_here.assert_exactly_once(*tables)


@pytest.mark.spark
def test_checkpoints_are_reset_beside_a_live_stream_between_two_of_its_batches(
    lakehouse_here, lake, drop, spark, rows_of, look
):
    tables, stop, told = chain(gold="complete"), threading.Event(), []

    def reset():
        while not stop.wait(0.2):
            told.extend(look("reset_checkpoint", table) for table in tables)

    threading.Timer(120, stop.set).start()
    thread = threading.Thread(target=reset)
    drop("shop/orders", "first.json", totals_file(5))
    for number, moment in enumerate(stream_tables(tables, lake, lambda: spark, 0.05, stop)):
        assert not moment.outcome.error
        if number == 0:
            thread.start()
        if number < 3:
            drop("shop/orders", f"{number}.json", totals_file(5, 6, start=number * 10 + 10))
        if rows_of(tables[-1].key, "SELECT sales FROM t") == [{"sales": 7}]:
            stop.set()
    thread.join()
    assert all(answer.well for answer in told)
    assert sum("was deleted" in answer.does for answer in told) > 2
    assert not any("not ended" in answer.does or "interrupted" in answer.does for answer in told)
    assert rows_of(tables[-1].key, "SELECT total, sales FROM t") == [{"total": 38, "sales": 7}]
    lakehouse_here.assert_exactly_once(*tables)


@pytest.mark.spark
def test_a_checkpoint_is_reset_once_the_batch_that_holds_the_table_has_ended(lake, drop, spark, look):
    tables, inside = chain(), threading.Event()
    drop("shop/orders", "1.json", totals_file(5))
    assert [outcome.error for outcome in run_tables(tables, lake, lambda: spark)] == [""] * 3
    sales = tables[1]

    def batch():
        with held(lake.state(sales, "lease"), "a stream"):
            inside.set()
            time.sleep(1)

    thread = threading.Thread(target=batch)
    thread.start()
    inside.wait()
    began = time.monotonic()
    assert "another process is writing the table now" in look("reset_checkpoint", sales, dry_run=True).does
    assert "was deleted" in look("reset_checkpoint", sales).does
    assert time.monotonic() - began > 0.7
    thread.join()


def refuse_to_go_on(moments):
    """Ends a stream with the first table that fails, as the process would have."""
    for moment in moments:
        if moment.outcome.error:
            raise Crashed


@pytest.mark.spark
def test_rounds_leave_no_thread_behind(lake, drop, spark):
    tables, seen = chosen(PIPELINES, [BRONZE]), []
    for number in range(6):
        drop("school/courses", f"{number}.csv", f"course_id,title,instructor\nC{number},One,Ada\n")
        assert [outcome.error for outcome in run_tables(tables, lake, lambda: spark)] == [""]
        seen.append(threading.active_count())
    # A thread may take a moment to end: what may not be is one more for each round.
    assert seen[-1] - seen[1] < 3


@pytest.mark.spark
def test_micro_batches_outside_of_dagster_are_materializations_in_it(
    lake, drop, spark, monkeypatch, tmp_path
):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    drop("school/courses", "1.csv", "course_id,title,instructor,category,price\nC1,One,Ada,x,1\n")
    (outcome,) = run_tables(chosen(PIPELINES, [BRONZE]), lake, lambda: spark)
    assert announced(outcome, lake, 1.5) == 1
    with dg.DagsterInstance.get() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(BRONZE.split("/")))
    metadata = event.asset_materialization.metadata
    assert metadata["rows_written"].value == 1
    assert metadata["latency_seconds"].value == 1.5


def test_stop_ends_a_streaming_job_of_dagster_that_waits(lake, no_spark, monkeypatch):
    monkeypatch.setattr(SparkResource, "starter", lambda *_, **__: no_spark)
    config = {"ops": {"keep_up_school": {"config": {"every_seconds": 600, "for_seconds": 120}}}}
    job, ended = defs.resolve_job_def("school_stream"), []
    thread = threading.Thread(
        target=lambda: ended.append(job.execute_in_process(run_config=config)), daemon=True
    )
    thread.start()
    deadline = time.monotonic() + 60
    while not streaming.running_streams(lake) and time.monotonic() < deadline:
        time.sleep(0.05)
    done = CliRunner().invoke(app, ["stop", "school", "--wait", "60s"])
    thread.join(60)
    assert (done.exit_code, [run.success for run in ended]) == (0, [True]), done.output
    assert all(word in done.output for word in ("school/gold", "stopped", str(os.getpid())))
    assert streaming.running_streams(lake) == []


@pytest.mark.spark
def test_the_streaming_job_tells_of_each_micro_batch_while_it_runs(lake, spark, monkeypatch):
    land("school", lake.settings.landing, 1)
    for name, value in (("MEDALLION_LAKE", lake.root), ("MEDALLION_LANDING", lake.settings.landing)):
        monkeypatch.setenv(name, str(value))
    own = {"school/bronze/enrollments": "once", "school/silver/enrollments": "1h"}
    config = {"every_seconds": 1, "for_seconds": 1, "triggers": own}
    config = {"ops": {"keep_up_school": {"config": config}}}
    asked = {}

    def told_to(*others):
        asked.update(others[-1])
        return stream_tables(*others)

    monkeypatch.setattr(build, "stream_tables", told_to)
    done = defs.resolve_job_def("school_stream").execute_in_process(run_config=config)
    told = {e.asset_key.to_user_string() for e in done.get_asset_materialization_events()}
    assert done.success
    assert "school/bronze/enrollments" in told
    each = {key: (timing.batches, timing.every_seconds) for key, timing in asked.items()}
    assert each.pop("school/bronze/enrollments") == ("once", None)
    assert each.pop("school/silver/enrollments") == ("availableNow", 3600)
    assert {*each.values()} == {("availableNow", None)}, "the others as they declare"
