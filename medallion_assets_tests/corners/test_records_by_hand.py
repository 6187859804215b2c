"""Rows that someone deleted on purpose: counted once a person says so, and never more than were deleted."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Layout, Pipeline, stream
from medallion_assets.declare.errors import GateClosed
from medallion_assets.delta import log
from medallion_assets.quality.conservation import balance
from medallion_assets.quality.verdicts import conservation
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import ABOVE_ZERO, chain, json_lines, order, orders_of

pytestmark = pytest.mark.spark


def test_rows_deleted_by_hand_count_once_someone_says_why_and_no_other_missing_row_does(
    drop, refreshed, lake, spark, do, look
):
    tables = orders, _, totals = chain()
    drop("shop/orders", "a.json", json_lines(*(order(n, 5) for n in range(1, 7)), order(7, -1)))
    refreshed(*tables)
    assert "nothing to accept" in look("accept_changes", orders, why="none").does
    spark.sql(f"DELETE FROM delta.`{lake.path(orders)}` WHERE id IN (1, 2)")
    spark.sql(f"UPDATE delta.`{lake.path(orders)}` SET total = 6 WHERE id = 3")
    told = conservation(orders, lake)
    assert not told.passed
    assert "DELETE in version 1 of the table (2 rows fewer)" in told.words
    assert "medallion accept_changes shop/bronze/orders" in told.words
    told = look("doctor", orders).does
    assert "version 1 was written by hand (DELETE): run accept_changes --why" in told
    assert "full_refresh" not in told
    assert not do("accept_changes", orders).well
    assert not balance(orders, lake).holds
    assert do("accept_changes", orders, why="a wish to be forgotten", dry_run=True).found == {"rows": 2}
    assert not balance(orders, lake).holds
    assert do("accept_changes", orders, why="a wish to be forgotten", run_id="r1").well
    books = balance(orders, lake)
    assert str(books) == "7 in = 5 rows + 0 quarantined + 2 removed by hand (accepted)"
    note = json.loads(log.history(lake.path(orders), 1)[0]["userMetadata"])
    assert {**note["accepted"], "who": ""} == {"rows": 2, "why": "a wish to be forgotten", "who": ""}
    assert note["accepted"]["who"]
    assert do("audit", orders).well
    assert look("doctor", orders).well
    drop("shop/orders", "b.json", json_lines(order(8, 5)))
    refreshed(*tables)
    assert log.rows(lake.path(totals), "SELECT total, sales FROM t") == [{"total": 26, "sales": 5}]
    # Rows that go through a commit which says it is the table's own are no one's deletion by hand.
    with_note = "spark.databricks.delta.commitInfo.userMetadata"
    spark.conf.set(with_note, json.dumps({"table": orders.key}))
    try:
        spark.sql(f"DELETE FROM delta.`{lake.path(orders)}` WHERE id = 4")
    finally:
        spark.conf.unset(with_note)
    refused = do("accept_changes", orders, why="it is gone")
    assert not refused.well
    assert "explain 2 of it" in refused.does
    assert not balance(orders, lake).holds
    told = look("doctor", orders).does
    assert "run audit, which names the files, then reprocess them" in told
    assert "accept_changes" not in told
    # The files bring all of their rows back, also those whose removal was accepted.
    assert do("reprocess", orders, files=("a.json", "b.json")).well
    assert "run accept_changes" in look("doctor", orders).does
    assert do("accept_changes", orders, why="they are back").found == {"rows": -2}
    assert str(balance(orders, lake)) == "8 in = 8 rows + 0 quarantined"
    assert look("doctor", orders).well


@pytest.mark.thorough
def test_a_row_deleted_in_silver_is_accepted_and_may_come_back_with_a_full_refresh(
    drop, refreshed, lake, spark, do, look
):
    tables = _, sales, totals = chain()
    drop("shop/orders", "a.json", json_lines(*(order(n, 5) for n in range(1, 4))))
    refreshed(*tables)
    spark.sql(f"DELETE FROM delta.`{lake.path(sales)}` WHERE id = 1")
    told = look("doctor", sales).does
    assert "version 1 was written by hand (DELETE): run accept_changes --why" in told
    assert "else full_refresh" in told
    assert do("accept_changes", sales, why="a test").found == {"rows": 1}
    assert look("doctor", sales).well
    refreshed(*tables)
    assert log.rows(lake.path(totals), "SELECT sales FROM t") == [{"sales": 2}]
    assert do("full_refresh", sales).well
    refreshed(*tables)
    assert balance(sales, lake).by_hand == 0
    assert log.rows(lake.path(totals), "SELECT sales FROM t") == [{"sales": 3}]
    assert not do("accept_changes", totals, why="a test").well


@pytest.mark.parametrize("at_once", [True, seldom(False)])
def test_a_gate_opens_again_once_deletions_and_insertions_by_hand_are_accepted(
    drop, refreshed, lake, spark, do, look, rows_of, at_once
):
    shop = Pipeline("shop")
    orders = orders_of(shop)

    @shop.silver(expectations=[ABOVE_ZERO], write_audit_publish=True)
    def sales(orders=stream(orders)):
        """One row per sale, with its file."""
        return orders.select("id", "total", "_source_file")

    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, 6), order(3, -1)))
    drop("shop/orders", "b.json", json_lines(order(4, 5)))
    refreshed(orders, sales)
    there = f"delta.`{lake.path(sales)}`"
    spark.sql(f"DELETE FROM {there} WHERE id = 1")
    if not at_once:
        assert do("accept_changes", sales, why="a wish").found == {"rows": 1}
    spark.sql(f"INSERT INTO {there} SELECT * FROM {there} WHERE id = 4")
    drop("shop/orders", "c.json", json_lines(order(5, 7)))
    refreshed(orders)
    with pytest.raises(GateClosed) as closed:
        refreshed(sales)
    assert "`medallion accept_changes shop/silver/sales --why ...`" in str(closed.value)
    told = do("accept_changes", sales, why="it was b's")
    assert told.found == {"rows": 0 if at_once else -1}
    assert ("1 were put in for as many of other files" in told.does) == at_once
    assert "nothing to accept" in look("accept_changes", sales, why="again").does
    assert look("doctor", sales).well
    for number, file in enumerate("cde", 5):
        drop("shop/orders", f"{file}.json", json_lines(order(number, 7)))
        refreshed(orders, sales)
    ids = [row["id"] for row in rows_of(sales.key, "SELECT id FROM t ORDER BY id")]
    assert ids == [2, 4, 4, 5, 6, 7]
    assert look("doctor", sales).well


def test_doctor_tells_of_a_commit_by_hand_only_while_the_rows_come_from_it(
    drop, refreshed, lake, spark, do, look
):
    tables = _, sales, totals = chain(gold="complete")
    drop("shop/orders", "a.json", json_lines(order(1, 5)))
    refreshed(*tables)
    spark.sql(f"DELETE FROM delta.`{lake.path(totals)}`")
    told = look("doctor", totals)
    assert (told.well, "written by hand (DELETE)" in told.does) == (False, True)
    # In this mode each run writes all groups again.
    drop("shop/orders", "b.json", json_lines(order(2, 6)))
    refreshed(*tables)
    assert log.rows(lake.path(totals), "SELECT total FROM t") == [{"total": 11}]
    assert look("doctor", totals).does == "well"
    spark.sql(f"UPDATE delta.`{lake.path(sales)}` SET total = 9 WHERE id = 1")
    by_hand = "written by hand (UPDATE), not by a run: run full_refresh"
    assert by_hand in look("doctor", sales).does
    assert do("full_refresh", sales).well
    assert look("doctor", sales).well
    assert do("undo", sales).well
    assert by_hand in look("doctor", sales).does
    assert do("full_refresh", sales).well
    spark.sql(f"UPDATE delta.`{lake.path(sales)}` SET total = 7 WHERE id = 1")
    assert by_hand in look("doctor", sales).does
    # The UPDATE after the full refresh goes with it; the one before it is back.
    assert do("undo", sales).well
    assert [row["total"] for row in log.rows(lake.path(sales), "SELECT total FROM t ORDER BY id")] == [9, 6]
    told = look("doctor", sales).does
    assert (by_hand in told, told.count("by hand")) == (True, 1)


@pytest.mark.parametrize("by_hand", ["DELETE FROM {} WHERE id = 2", "UPDATE {} SET total = 6 WHERE id = 2"])
def test_rows_that_a_deletion_vector_takes_out_are_in_no_count_and_no_batch(
    drop, refreshed, lake, spark, do, look, rows_of, by_hand
):
    shop, vectors = Pipeline("shop"), Layout(properties={"delta.enableDeletionVectors": "true"})
    landed = {"format": "json", "schema": "id INT, total INT", "allow_overwrites": "replace"}

    @shop.bronze()
    def orders(files=shop.landing("orders", **landed)):  # noqa: B008
        """One row per order."""
        return files

    @shop.silver(layout=vectors, unique_by="id", expectations=[ABOVE_ZERO])
    def sales(orders=stream(orders)):
        """One row per sale, with its file."""
        return orders.select("id", "total", "_source_file")

    @shop.gold(output_mode="incremental", row_count_column="sales")
    def totals(sales=stream(sales)):
        """One row for all sales."""
        return sales.groupBy(F.lit("all").alias("of")).agg(
            F.sum("total").alias("total"), F.count("*").alias("sales")
        )

    tables = orders, sales, totals
    drop("shop/orders", "a.json", json_lines(*({"id": n, "total": 5} for n in range(1, 5))))
    drop("shop/orders", "b.json", json_lines(*({"id": n, "total": 5} for n in range(5, 9))))
    refreshed(*tables)
    assert [look("doctor", table).does for table in tables] == ["well"] * 3
    # A bronze table cannot be declared with vectors; someone may have asked for them.
    asked = "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark.sql(f"ALTER TABLE delta.`{lake.path(orders)}` {asked}")
    spark.sql(by_hand.format(f"delta.`{lake.path(sales)}`"))
    assert do("accept_changes", sales, why="a wish").found == (
        {"rows": 1} if by_hand.startswith("DEL") else {}
    )
    drop("shop/orders", "b.json", json_lines({"id": 5, "total": 7}, {"id": 9, "total": 7}))
    drop("shop/orders", "c.json", json_lines({"id": 10, "total": -1}))
    refreshed(*tables)
    held = {table.key: spark.read.format("delta").load(str(lake.path(table))).count() for table in tables}
    assert {table.key: log.row_count(lake.path(table)) for table in tables} == held
    assert {key: len(rows_of(key)) for key in held} == held
    assert held[orders.key] == 7
    assert do("audit", orders).well
    assert do("full_refresh", sales).well
    refreshed(*tables)
    assert rows_of(totals.key, "SELECT total, sales FROM t") == [{"total": 34, "sales": 6}]
    assert [look("doctor", table).does for table in tables] == ["well"] * 3
