"""Gates and full refreshes: staged, judged, and published in one commit or not at all."""

from dataclasses import replace

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, stream, unique
from medallion_assets.declare.errors import DeclarationError, GateClosed
from medallion_assets.delta import log
from medallion_assets.runs.run import refresh
from medallion_assets.runtime import recompute as correct
from medallion_assets.runtime import strategy, write
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import ABOVE_ZERO, orders_file, orders_of

pytestmark = pytest.mark.spark
ONE_EACH = unique("one_each", "id", "fail")
SUMS = "SELECT total, sales FROM t"


def gated(*rules):
    shop = Pipeline("shop")
    orders = orders_of(shop, allow_overwrites="replace", settle_seconds=0)

    @shop.silver(expectations=rules, write_audit_publish=True)
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "total")

    @shop.gold(output_mode="complete", row_count_column="sales", write_audit_publish=True)
    def totals(sales=stream(sales)):
        """One row per kind of sale."""
        return sales.groupBy(F.lit("all").alias("of")).agg(
            F.sum("total").alias("total"), F.count("*").alias("sales")
        )

    return orders, sales, totals


def test_a_batch_that_breaks_a_blocking_check_is_kept_back_until_it_is_mended(
    drop, refreshed, rows_of, lake, no_spark
):
    orders, sales, totals = gated(ONE_EACH, ABOVE_ZERO)
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(orders, sales, totals)
    before = log.version(lake.path(sales)), log.version(lake.quarantine(sales))
    drop("shop/orders", "b.json", orders_file((1, 7), (3, 9), (4, -2)))
    refreshed(orders)
    with pytest.raises(GateClosed, match=r"shop/silver/sales: .* one_each: 1 keys .* Nothing was published"):
        refreshed(sales)
    assert (log.version(lake.path(sales)), log.version(lake.quarantine(sales))) == before
    assert not list(lake.root.rglob("_staging/*/*"))
    drop("shop/orders", "b.json", orders_file((3, 9), (4, -2), (5, 1)))
    refreshed(orders, sales, totals)
    assert rows_of("shop/silver/sales", "SELECT id FROM t ORDER BY id") == [{"id": i} for i in (1, 3, 5)]
    assert rows_of("shop/quarantine/sales", "SELECT count(*) AS n FROM t") == [{"n": 2}]
    assert rows_of("shop/gold/totals", SUMS) == [{"total": 15, "sales": 3}]


def test_a_row_of_one_file_that_stands_for_a_lost_one_of_another_closes_the_gate(drop, refreshed, rows_of):
    shop = Pipeline("shop")
    orders = orders_of(shop)

    @shop.silver(expectations=[ABOVE_ZERO], write_audit_publish=True)
    def sales(orders=stream(orders)):
        """One row per sale, but for one of b.json that is lost, and one of c.json that is there twice."""
        times = F.expr("CASE WHEN id = 3 THEN 0 WHEN id = 4 THEN 2 ELSE 1 END")
        twice = F.explode(F.array_repeat(F.lit(1), times)).alias("_check_again")
        return orders.select("id", "total", "_source_file", twice)

    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(orders, sales)
    drop("shop/orders", "b.json", orders_file((3, 1), (5, 2), (6, -1)))
    drop("shop/orders", "c.json", orders_file((4, 9)))
    refreshed(orders)
    with pytest.raises(GateClosed, match=r"each_file: .*b.json: 1 rows fewer; .*c.json: 1 rows more"):
        refreshed(sales)
    assert rows_of("shop/silver/sales", "SELECT id FROM t") == [{"id": 1}]


@pytest.mark.parametrize("file", [seldom("_source_file"), "concat('eu/', _source_file)"])
def test_rows_put_in_by_hand_and_files_under_other_names_leave_the_gate_open(
    drop, refreshed, do, lake, spark, rows_of, file
):
    shop = Pipeline("shop")
    orders = orders_of(shop)

    @shop.silver(expectations=[ABOVE_ZERO], write_audit_publish=True)
    def sales(orders=stream(orders)):
        """One row per sale, with its file as the query calls it."""
        return orders.select("id", "total", F.expr(file).alias("_source_file"))

    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(orders, sales)
    for table in (orders, sales):
        again = f"SELECT * FROM delta.`{lake.path(table)}` WHERE id = 1 LIMIT 1"
        spark.sql(f"INSERT INTO delta.`{lake.path(table)}` {again}")
        assert do("accept_changes", table, why="a test").found == {"rows": -1}
    assert do("audit", orders).well
    drop("shop/orders", "b.json", orders_file((3, 9)))
    refreshed(orders, sales)
    assert rows_of("shop/silver/sales", "SELECT id FROM t ORDER BY id") == [{"id": i} for i in (1, 1, 1, 3)]


@pytest.mark.parametrize("at", ["staged", seldom("append_refused"), seldom("append")])
def test_a_gated_batch_that_dies_is_taken_again_by_the_next_run(
    drop, refreshed, do, rows_of, monkeypatch, at
):
    tables = gated(ABOVE_ZERO)
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(*tables)
    drop("shop/orders", "b.json", orders_file((3, 9), (4, -2)))
    refreshed(tables[0])
    real, calls = getattr(write, at), []

    def dies(*args, **told):
        calls.append(args)
        if at == "staged" or len(calls) == 2:
            # The second time is on the table itself, once the staged one was judged.
            raise KeyboardInterrupt
        return real(*args, **told)

    with monkeypatch.context() as patch:
        patch.setattr(write, at, dies)
        with pytest.raises(KeyboardInterrupt):
            refreshed(tables[1])
    # Work on another table leaves alone what died here.
    do("full_refresh", tables[2])
    refreshed(*tables)
    drop("shop/orders", "c.json", orders_file((6, 1)))
    refreshed(*tables)
    assert rows_of("shop/gold/totals", SUMS) == [{"total": 15, "sales": 3}]
    assert rows_of("shop/quarantine/sales", "SELECT count(*) AS n FROM t") == [{"n": 2}]


@pytest.mark.parametrize("gate", [True, seldom(False)])
def test_a_commit_by_hand_between_judging_and_publishing_hides_no_batch(
    drop, refreshed, do, rows_of, lake, spark, monkeypatch, gate
):
    orders, sales, totals = (
        replace(table, write_audit_publish=gate and not table.source)
        for table in gated(ONE_EACH, ABOVE_ZERO, expect("id_known", "id > 0", "fail"))
    )
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(orders, sales, totals)
    drop("shop/orders", "b.json", orders_file((3, 9), (4, -2)))
    refreshed(orders)
    at, real = ("refuse_unfit", write.refuse_unfit) if gate else ("append_refused", write.append_refused)

    def by_hand(*judged):
        real(*judged)
        for table in (sales, totals):
            spark.sql(f"ALTER TABLE delta.`{lake.path(table)}` SET TBLPROPERTIES ('x.y' = '1')")
        spark.sql(f"DELETE FROM delta.`{lake.path(sales)}` WHERE id = 1")

    with monkeypatch.context() as patch:
        patch.setattr(write, at, by_hand)
        assert refresh(sales, lake, lambda: spark).total("written") == 1
    assert rows_of("shop/silver/sales", "SELECT id FROM t") == [{"id": 3}]
    assert rows_of("shop/quarantine/sales", "SELECT count(*) AS n FROM t") == [{"n": 2}]
    assert refresh(sales, lake, lambda: spark).skipped
    assert do("accept_changes", sales, why="a test").found == {"rows": 1}
    refreshed(sales, totals)
    assert rows_of("shop/gold/totals", SUMS) == [{"total": 9, "sales": 1}]


@pytest.mark.parametrize("at", ["prepare_recompute", seldom("replace_quarantined"), seldom("append")])
def test_a_full_refresh_that_dies_leaves_the_table_as_it_was_or_whole(
    drop, refreshed, do, rows_of, monkeypatch, at
):
    tables = gated(ABOVE_ZERO)
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(*tables)
    module = strategy if at == "prepare_recompute" else correct
    real = getattr(module, at)

    def dies_after(*args, **told):
        real(*args, **told)
        raise KeyboardInterrupt

    changed = gated(expect("above_minus_two", "total > -2"))
    with monkeypatch.context() as patch:
        patch.setattr(module, at, dies_after)
        with pytest.raises(KeyboardInterrupt):
            do("full_refresh", changed[1])
    assert rows_of("shop/silver/sales", "SELECT id FROM t") == [{"id": 1}]
    drop("shop/orders", "b.json", orders_file((3, 9)))
    refreshed(*changed)
    assert rows_of("shop/gold/totals", SUMS) == [{"total": 14, "sales": 2}]
    assert "2 rows before, 3 now" in do("full_refresh", changed[1]).does
    refreshed(*changed)
    assert rows_of("shop/gold/totals", SUMS) == [{"total": 13, "sales": 3}]


def test_bronze_takes_no_gate(lake):
    shop = Pipeline("shop")
    with pytest.raises(DeclarationError, match="a gate is for silver and gold"):

        @shop.bronze(write_audit_publish=True)
        def orders(files=shop.landing("orders", format="json")):  # noqa: B008
            """One row per order."""
            return files
