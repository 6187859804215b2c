"""What one refresh does with rules, crashes and lost checkpoints: seen in the tables it leaves."""

import json
import shutil

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.errors import TableBusy
from medallion_assets.delta.lease import held
from medallion_assets.tables import Pipeline, expect, stream
from medallion_assets.tables import write as writes
from medallion_assets.tables.conservation import balance
from medallion_assets.tables.errors import CheckpointMismatch, ExpectationFailed
from medallion_assets.tables.refresh import refresh

pytestmark = pytest.mark.spark


def shop_with(*expectations, **options):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT, total INT")):  # noqa: B008
        """One row per order, as it landed."""
        return files

    @shop.silver(expectations=expectations, **options)
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "total")

    return orders, sales


@pytest.fixture
def refreshed(lake, spark):
    def run_all(*tables):
        return [refresh(table, lake, lambda: spark) for table in tables]

    return run_all


def orders_file(*totals, start=0):
    return "".join(json.dumps({"id": start + i, "total": t}) + "\n" for i, t in enumerate(totals))


def test_a_row_is_quarantined_with_every_rule_it_broke_and_null_has_failed(drop, refreshed, rows_of):
    tables = shop_with(expect("above_zero", "total > 0"), expect("even", "total % 2 = 0"))
    drop("shop/orders", "a.json", orders_file(2, -1, None))
    refreshed(*tables)
    assert rows_of("shop/silver/sales", "SELECT total FROM t") == [{"total": 2}]
    found = rows_of("shop/quarantine/sales", "SELECT rules, row FROM t ORDER BY row")
    assert [r["rules"] for r in found] == [["above_zero", "even"]] * 2
    assert [json.loads(r["row"])["total"] for r in found] == [-1, None]


def test_warn_keeps_and_counts_and_drop_lets_go_and_counts(drop, refreshed, rows_of, lake):
    tables = shop_with(expect("small", "total < 10", "warn"), expect("above_zero", "total > 0", "drop"))
    drop("shop/orders", "a.json", orders_file(5, 50, -1))
    _, done = refreshed(*tables)
    assert done.batches[0].rules == {"small": 1, "above_zero": 1}
    assert (done.total("written"), done.total("dropped")) == (2, 1)
    assert balance(tables[1], lake).holds


def test_a_broken_rule_that_says_fail_stops_the_run_and_nothing_moves(drop, refreshed, rows_of):
    orders, sales = shop_with(expect("above_zero", "total > 0", "fail"))
    drop("shop/orders", "a.json", orders_file(1, -1))
    refreshed(orders)
    with pytest.raises(
        ExpectationFailed, match=r"shop/silver/sales: a row broke above_zero .* nothing is lost"
    ):
        refreshed(sales)
    assert rows_of("shop/silver/sales") == []


def test_a_filter_hidden_in_a_query_breaks_conservation(drop, refreshed, lake):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT, total INT")):  # noqa: B008
        """One row per order, as it landed."""
        return files.where("total > 0")

    drop("shop/orders", "a.json", orders_file(1, -1))
    refreshed(orders)
    assert balance(orders, lake).missing == 1


def test_rows_taken_away_behind_the_back_break_conservation(drop, refreshed, lake, spark):
    orders, _ = shop_with()
    drop("shop/orders", "a.json", orders_file(1, 2, 3))
    refreshed(orders)
    spark.sql(f"DELETE FROM delta.`{lake.path(orders)}` WHERE id = 1")
    assert balance(orders, lake).missing == 1


def test_a_crash_between_table_and_quarantine_neither_loses_nor_doubles(
    drop, refreshed, rows_of, lake, monkeypatch
):
    orders, sales = shop_with(expect("above_zero", "total > 0"))
    drop("shop/orders", "a.json", orders_file(1, -1))
    refreshed(orders)
    real = writes.append

    def dies_at_the_quarantine(rows, path, stamp, **options):
        if "quarantine" in str(path):
            raise OSError("the machine went away")
        real(rows, path, stamp, **options)

    monkeypatch.setattr(writes, "append", dies_at_the_quarantine)
    with pytest.raises(Exception, match="the machine went away"):
        refreshed(sales)
    monkeypatch.setattr(writes, "append", real)
    refreshed(sales)
    assert len(rows_of("shop/silver/sales")) == len(rows_of("shop/quarantine/sales")) == 1
    assert balance(sales, lake).holds


def test_lost_checkpoints_neither_double_nor_lose_a_row(drop, refreshed, rows_of, lake):
    orders, sales = shop_with(expect("above_zero", "total > 0"))
    drop("shop/orders", "a.json", orders_file(1, -1) + "{broken\n")
    refreshed(orders, sales)
    for table in (orders, sales):
        shutil.rmtree(lake.state(table, "checkpoint"))
    drop("shop/orders", "b.json", orders_file(3, -4, start=10) + "{broken too\n")
    refreshed(orders, sales)
    count = "SELECT count(*) AS n FROM t"
    assert rows_of("shop/bronze/orders", count) == [{"n": 4}]
    assert rows_of("shop/quarantine/orders", count) == [{"n": 2}]
    assert rows_of("shop/silver/sales", count) == [{"n": 2}]
    assert rows_of("shop/quarantine/sales", count) == [{"n": 2}]
    assert balance(orders, lake).holds
    assert balance(sales, lake).holds


def test_a_table_removed_under_its_checkpoint_is_refused_with_the_way_out(drop, refreshed, lake):
    orders, _ = shop_with()
    drop("shop/orders", "a.json", orders_file(1))
    refreshed(orders)
    shutil.rmtree(lake.path(orders))
    with pytest.raises(CheckpointMismatch, match=r"shop/bronze/orders: .*medallion reset .*run again"):
        refreshed(orders)


def test_odd_file_names_load_once_each_with_their_own_name(drop, refreshed, rows_of, lake):
    orders, _ = shop_with()
    names = [
        "a b.json",
        "p%20q.json",
        "[1].json",
        "c:d.json",
        "q?.json",
        "*.json",
        "é\u2603.json",
        "a+b.json",
        "x'y\".json",
    ]
    for i, name in enumerate(names):
        drop("shop/orders", name, orders_file(1, start=i))
    refreshed(orders)
    found = rows_of("shop/bronze/orders", "SELECT _source_file AS f FROM t")
    assert sorted(r["f"].rpartition("/")[2] for r in found) == sorted(names)


def test_several_micro_batches_of_one_discovery_all_load(drop, lake, spark, rows_of):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(
        files=shop.landing("orders", format="json", schema="id INT, total INT", max_files_per_trigger=2),  # noqa: B008
    ):
        """One row per order, as it landed."""
        return files

    for i in range(5):
        drop("shop/orders", f"{i}.json", orders_file(1, start=i))
    assert [b.files for b in refresh(orders, lake, lambda: spark).batches] == [2, 2, 1]
    assert len(rows_of("shop/bronze/orders")) == 5


def test_csv_that_does_not_fit_is_quarantined_with_its_text(drop, lake, spark, rows_of):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="csv", schema="id INT, note STRING")):  # noqa: B008
        """One row per order, as it landed."""
        return files

    drop("shop/orders", "a.csv", 'note,id\n"said ""hi""\nand left",1\nplain,2\n')
    drop("shop/orders", "b.csv", "id,note\n3,a\nmany,b\n5,c,surplus\n")
    refresh(orders, lake, lambda: spark)
    assert {(r["id"], r["note"]) for r in rows_of("shop/bronze/orders")} == {
        (1, 'said "hi"\nand left'),
        (2, "plain"),
        (3, "a"),
    }
    reasons = {r["row"]: r["rules"] for r in rows_of("shop/quarantine/orders")}
    assert reasons == {
        '{"id":"many","note":"b"}': ["does not fit the schema: id"],
        "5,c,surplus": ["malformed CSV: not as many cells as the header"],
    }
    assert balance(orders, lake).holds


def test_a_source_without_a_schema_is_inferred_and_hints_win(drop, lake, spark, rows_of):
    shop = Pipeline("shop")

    landed = shop.landing("orders", format="json", infer_column_types=True, schema_hints="total STRING")

    @shop.bronze()
    def orders(files=landed):
        """One row per order, as it landed."""
        return files

    drop("shop/orders", "a.json", orders_file(7))
    refresh(orders, lake, lambda: spark)
    assert rows_of("shop/bronze/orders", "SELECT id, total FROM t") == [{"id": 0, "total": "7"}]


def test_a_table_held_by_another_refuses_with_the_holders_name(tmp_path):
    refused = pytest.raises(TableBusy, match="shop/bronze/orders is being written by process")
    with held(tmp_path, "shop/bronze/orders"), refused, held(tmp_path, "shop/bronze/orders", 0.1):
        raise AssertionError("two writers held one table")


def test_an_aggregate_killed_after_its_write_goes_on_at_the_next_run(drop, lake, spark, rows_of):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT, total INT")):  # noqa: B008
        """One row per order, as it landed."""
        return files

    @shop.gold(output_mode="complete", counts_rows="orders")
    def totals(orders=stream(orders)):
        """One row per shop, with the sum of its orders."""
        return orders.groupBy().agg(F.sum("total").alias("total"), F.count("*").alias("orders"))

    for total in (1, 2):
        drop("shop/orders", f"{total}.json", orders_file(total))
        refresh(orders, lake, lambda: spark)
        refresh(totals, lake, lambda: spark)
    # As a process leaves it that died after Delta's commit and before Spark's.
    checkpoint = lake.state(totals, "checkpoint")
    for name in ("commits/1", "commits/.1.crc", "state/0/0/2.delta", "state/0/1/2.delta"):
        (checkpoint / name).unlink(missing_ok=True)
    drop("shop/orders", "3.json", orders_file(3))
    refresh(orders, lake, lambda: spark)
    refresh(totals, lake, lambda: spark)
    assert rows_of("shop/gold/totals", "SELECT total, orders FROM t") == [{"total": 6, "orders": 3}]


@pytest.mark.parametrize("at_most", [1, "40%"])
def test_more_broken_rows_than_a_rule_allows_stop_the_batch_before_anything_is_written(
    drop, refreshed, rows_of, at_most
):
    tables = shop_with(expect("above_zero", "total > 0", at_most=at_most))
    drop("shop/orders", "a.json", orders_file(5, 6, -1))
    refreshed(*tables)
    drop("shop/orders", "b.json", orders_file(7, -1, -2, start=10))
    with pytest.raises(ExpectationFailed, match=r"2 of 3 rows of the batch broke above_zero"):
        refreshed(*tables)
    assert rows_of("shop/silver/sales", "SELECT count(*) AS n FROM t") == [{"n": 2}]
    assert rows_of("shop/quarantine/sales", "SELECT count(*) AS n FROM t") == [{"n": 1}]
