"""Runs that died and checkpoints that went: seen in what the next run leaves."""

import shutil

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, stream
from medallion_assets.declare.errors import CheckpointMismatch
from medallion_assets.delta.errors import TableBusy
from medallion_assets.delta.lease import held
from medallion_assets.quarantine import quarantined
from medallion_assets.runs.run import refresh
from medallion_assets_tests.shop import chain, orders_and_sales, orders_of, totals_file

pytestmark = pytest.mark.spark


def test_a_crash_between_table_and_quarantine_neither_loses_nor_doubles(
    drop, refreshed, rows_of, lake, monkeypatch
):
    orders, sales = orders_and_sales(expect("above_zero", "total > 0"))
    drop("shop/orders", "a.json", totals_file(1, -1))
    refreshed(orders)

    def dies(*_):
        raise OSError("the machine went away")

    with monkeypatch.context() as patch:
        patch.setattr(quarantined, "append", dies)
        with pytest.raises(Exception, match="the machine went away"):
            refreshed(sales)
    refreshed(sales)
    assert len(rows_of("shop/silver/sales")) == len(rows_of("shop/quarantine/sales")) == 1


def test_a_table_whose_first_files_were_all_refused_takes_those_that_come_after(
    drop, refreshed, rows_of, look
):
    orders, sales = orders_and_sales()
    drop("shop/orders", "a.json.gz", "no gzip")
    for _ in range(2):
        refreshed(orders, sales)
        assert look("doctor", orders).well
    drop("shop/orders", "b.json", totals_file(1, 2))
    refreshed(orders, sales)
    assert len(rows_of("shop/silver/sales")) == 2


def test_lost_checkpoints_neither_double_nor_lose_a_row(drop, refreshed, rows_of, lake):
    orders, sales = orders_and_sales(expect("above_zero", "total > 0"))
    drop("shop/orders", "a.json", totals_file(1, -1) + "{broken\n")
    refreshed(orders, sales)
    for table in (orders, sales):
        shutil.rmtree(lake.state(table, "checkpoint"))
    drop("shop/orders", "b.json", totals_file(3, -4, start=10) + "{broken too\n")
    refreshed(orders, sales)
    count = "SELECT count(*) AS n FROM t"
    assert rows_of("shop/bronze/orders", count) == [{"n": 4}]
    assert rows_of("shop/quarantine/orders", count) == [{"n": 2}]
    assert rows_of("shop/silver/sales", count) == [{"n": 2}]
    assert rows_of("shop/quarantine/sales", count) == [{"n": 2}]


def test_a_stream_that_began_again_with_a_correction_goes_on_for_many_increments(
    drop, refreshed, rows_of, lake
):
    tables = chain(allow_overwrites="replace")
    for number in range(2):
        drop("shop/orders", f"{number}.json", totals_file(5, start=number))
        refreshed(*tables)
    for table in tables:
        shutil.rmtree(lake.state(table, "checkpoint"))
    drop("shop/orders", "1.json", totals_file(105, start=1))
    for number in range(2, 5):
        refreshed(*tables)
        assert rows_of(tables[-1].key, "SELECT total FROM t") == [{"total": 5 * number + 100}]
        drop("shop/orders", f"{number}.json", totals_file(5, start=number))


def test_a_table_removed_under_its_checkpoint_is_refused_with_the_way_out(drop, refreshed, lake):
    orders, _ = orders_and_sales()
    drop("shop/orders", "a.json", totals_file(1))
    refreshed(orders)
    shutil.rmtree(lake.path(orders))
    with pytest.raises(CheckpointMismatch, match=r"shop/bronze/orders: .*medallion reset .*run again"):
        refreshed(orders)


def test_a_table_held_by_another_refuses_with_the_holders_name(tmp_path):
    refused = pytest.raises(TableBusy, match="shop/bronze/orders is being written by process")
    with held(tmp_path, "shop/bronze/orders"), refused, held(tmp_path, "shop/bronze/orders", 0.1):
        raise AssertionError("two writers held one table")


def test_an_aggregate_killed_after_its_write_goes_on_at_the_next_run(drop, lake, spark, rows_of):
    shop = Pipeline("shop")

    orders = orders_of(shop)

    @shop.gold(output_mode="complete", row_count_column="orders")
    def totals(orders=stream(orders)):
        """One row per shop, with the sum of its orders."""
        return orders.groupBy().agg(F.sum("total").alias("total"), F.count("*").alias("orders"))

    for total in (1, 2):
        drop("shop/orders", f"{total}.json", totals_file(total))
        refresh(orders, lake, lambda: spark)
        refresh(totals, lake, lambda: spark)
    # As a process leaves it that died after Delta's commit and before Spark's.
    checkpoint = lake.state(totals, "checkpoint")
    for name in ("commits/1", "commits/.1.crc", "state/0/0/2.delta", "state/0/1/2.delta"):
        (checkpoint / name).unlink(missing_ok=True)
    drop("shop/orders", "3.json", totals_file(3))
    refresh(orders, lake, lambda: spark)
    refresh(totals, lake, lambda: spark)
    assert rows_of("shop/gold/totals", "SELECT total, orders FROM t") == [{"total": 6, "orders": 3}]
