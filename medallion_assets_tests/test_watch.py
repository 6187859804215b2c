"""A table's rows and its query's progress, seen as they come and written nowhere."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812
from typer.testing import CliRunner

from medallion_assets import Pipeline, autoload_to_table, stream, watch
from medallion_assets.cli import app
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.reports.show import console
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import ABOVE_ZERO, json_lines, orders_and_sales, orders_file, orders_of

pytestmark = pytest.mark.spark
watching = import_module("medallion_assets.reports.watch")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setattr(console, "width", 200)


def files_of(lake):
    return {str(p): p.stat().st_mtime_ns for p in lake.root.rglob("*") if p.is_file()}


def checkpoints():
    return sorted(Path(tempfile.gettempdir()).glob("temporary-*"))


def test_a_watch_shows_rows_as_they_come_with_progress_and_leaves_nothing_behind(
    drop, lake, refreshed, spark, capsys
):
    orders, sales = orders_and_sales()
    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(orders, sales)
    before, left = files_of(lake), checkpoints()
    shown = watch(orders, from_start=True, until=lambda seen: seen.rows >= 1, spark=spark)
    told = capsys.readouterr().out
    assert (shown.rows, shown.backlog, files_of(lake), checkpoints()) == (1, 0, before, left)
    assert all(
        word in told for word in ("a.json", "rows per second", "backlog 0 commits", "1 read, 1 written")
    )
    assert watch(sales, seconds=2, spark=spark).rows == 0, "old rows are shown only where they are asked for"
    drop("shop/orders", "b.json", orders_file((2, 7), (3, 9)))
    later = once(lambda: refreshed(orders, sales))
    shown = watch(sales, until=lambda seen: later() or seen.rows >= 2, seconds=60, spark=spark)
    assert (shown.rows, shown.batches) == (2, 1)
    assert "insert" in capsys.readouterr().out


def once(act):
    """Return a function that does something the first time it is called, and is false."""
    left = [act]

    def first() -> bool:
        if left:
            left.pop()()
        return False

    return first


def test_columns_that_join_the_table_do_not_end_a_watch(lake, spark, drop, tmp_path, capsys):
    folder = drop("shop/orders", "a.json", json_lines({"id": 1})).parent
    load = partial(autoload_to_table, folder, "json", "t", tmp_path / "c", spark=spark)
    load()
    drop("shop/orders", "b.json", json_lines({"id": 2, "tip": 3}))
    later = once(load)
    shown = watch(
        "default.bronze.t",
        from_start=True,
        until=lambda seen: (seen.rows == 1 and later()) or seen.rows >= 2,
        seconds=60,
        spark=spark,
    )
    assert (shown.rows, "tip" in capsys.readouterr().out) == (2, True)


def test_a_stream_in_memory_is_a_view_one_can_query_until_it_is_stopped(drop, refreshed, spark, lake):
    rules = (ABOVE_ZERO,)
    orders, sales = orders_and_sales(*rules)
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(orders, sales)
    shown = watch(orders, format="memory", name="seen", from_start=True, spark=spark)
    try:
        shown.query.processAllAvailable()
        assert spark.sql("SELECT sum(total) AS n FROM seen").first().n == 4
        drop("shop/orders", "b.json", orders_file((3, 9)))
        refreshed(orders)
        shown.query.processAllAvailable()
    finally:
        active = spark.streams.active
        for query in active:
            query.stop()
            query.awaitTermination()
    assert [query.name for query in active] == ["seen"], "what the notebooks' loop finds, and ends"
    assert spark.sql("SELECT sum(total) AS n FROM seen").first().n == 13
    held = watch(
        sales, quarantine=True, from_start=True, until=lambda seen: seen.rows, seconds=30, spark=spark
    )
    assert (held.table, held.rows) == ("shop/silver/sales (quarantine)", 1)


def test_a_watch_shows_what_a_query_makes_of_the_rows_printed_by_what_changed_and_kept_whole_in_memory(
    drop, refreshed, spark, lake, capsys
):
    orders, _ = orders_and_sales()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, 6)))
    refreshed(orders)
    spark.createDataFrame([(5, "Ann")], "total INT, name STRING").createOrReplaceTempView("known")

    def by_name(rows):
        rows.createOrReplaceTempView("orders_seen")
        return rows.sparkSession.sql("SELECT id, name FROM orders_seen LEFT JOIN known USING (total)")

    def by_window(rows):
        window = F.window("_ingested_at", "365 days").alias("window")
        return rows.withWatermark("_ingested_at", "1 minute").groupBy(window, "total").count()

    later = once(lambda: (drop("shop/orders", "b.json", orders_file((3, 5))), refreshed(orders)))
    shown = watch(
        orders, query=by_window, from_start=True, until=lambda s: (s.rows == 2 and later()) or s.rows == 3,
        seconds=90, spark=spark,
    )  # fmt: skip
    assert (shown.rows, shown.batches) == (3, 2), "of the two groups the second batch changed one"
    assert "count" in capsys.readouterr().out
    views = [
        watch(orders, query=query, format="memory", name=f"of_{query.__name__}", from_start=True, spark=spark)
        for query in (by_name, by_window)
    ]
    try:
        for view in views:
            view.query.processAllAvailable()
        names = {(row.id, row.name) for row in spark.table("of_by_name").collect()}
        counts = {(row.total, row["count"]) for row in spark.table("of_by_window").collect()}
        assert (names, counts) == ({(1, "Ann"), (2, None), (3, "Ann")}, {(5, 2), (6, 1)})
    finally:
        for view in views:
            view.stop()
    with pytest.raises(DeclarationError, match="returns no frame made of the rows"):
        watch(orders, query=lambda rows: spark.range(3), spark=spark)


def test_the_command_shows_a_table_by_its_name_for_as_long_as_it_is_asked(drop, refreshed, spark, lake):
    orders, _ = orders_and_sales()
    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(orders)
    done = CliRunner().invoke(app, ["watch", "shop.bronze.orders", "--from-start", "--for", "4"])
    assert done.exit_code == 0, done.output
    assert "stopped after 1 rows in 1 micro-batches" in done.output
    unknown = CliRunner().invoke(app, ["watch", "shop.bronze.order"])
    assert (unknown.exit_code, "no Delta table is called" in unknown.output) == (2, True)


def test_the_seconds_of_a_watch_begin_once_its_session_has_started(drop, refreshed, spark, lake, monkeypatch):
    orders, _ = orders_and_sales()
    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(orders)

    def cold(settings):
        time.sleep(6)
        return spark

    monkeypatch.setattr(watching, "start_session", cold)
    assert watch(orders, from_start=True, seconds=5).rows == 1


REFUSED = [
    ({"format": "kafka"}, "neither console nor memory"),
    ({"format": "memory"}, "needs the name of its view"),
]


@pytest.mark.parametrize("happens", ["removed", "replaced"])
def test_a_table_that_goes_while_it_is_watched_ends_the_watch_with_one_sentence(
    happens, drop, refreshed, spark, lake
):
    orders, _ = orders_and_sales()
    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(orders)
    path = lake.path(orders)

    def goes():
        shutil.rmtree(path)
        if happens == "replaced":
            spark.range(3).write.format("delta").save(str(path))

    gone = once(goes)
    with pytest.raises(StreamingQueryException) as told:
        watch(orders, from_start=True, until=lambda seen: seen.rows and gone(), seconds=60, spark=spark)
    words = str(told.value)
    assert "shop/bronze/orders could not be watched any longer" in words
    assert "1 row of it were shown, and nothing was written" in words
    assert "\n" not in words
    assert ("no table lies at" in words) == (happens == "removed")


@pytest.mark.parametrize("how", [signal.SIGINT, seldom(signal.SIGTERM)])
def test_ctrl_c_ends_the_command_with_what_it_showed(how, drop, refreshed, lake):
    orders, _ = orders_and_sales()
    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(orders)
    left = checkpoints()
    command = [Path(sys.executable).with_name("medallion"), "watch", "shop.bronze.orders", "--from-start"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        shown = next(line for line in process.stdout if "rows per second" in line)
        process.send_signal(how)
        rest, _ = process.communicate(timeout=60)
    assert "1 row" in shown
    assert (process.returncode, checkpoints()) == (0, left)
    assert "1 row" in rest
    assert "Traceback" not in rest


@pytest.mark.parametrize(("asked", "told"), REFUSED)
def test_a_watch_that_cannot_be_is_refused_before_spark_starts(lake, asked, told):
    with pytest.raises(DeclarationError, match=told):
        watch("shop/bronze/orders", **asked)


def test_a_declared_query_may_register_a_temporary_view_of_its_stream_and_ask_it_in_sql(
    drop, refreshed, rows_of
):
    shop = Pipeline("shop")
    orders = orders_of(shop)

    @shop.silver()
    def dear(orders=stream(orders)):
        """One row per order, with what it costs in cents."""
        orders.createOrReplaceTempView("orders_seen")
        return orders.sparkSession.sql("SELECT id, total * 100 AS cents FROM orders_seen")

    for number in (1, 2):
        drop("shop/orders", f"{number}.json", orders_file((number, 5)))
        refreshed(orders, dear)
    assert rows_of("shop/silver/dear", "SELECT id, cents FROM t ORDER BY id") == [
        {"id": 1, "cents": 500},
        {"id": 2, "cents": 500},
    ]
