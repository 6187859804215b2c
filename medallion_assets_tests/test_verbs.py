"""What a person asks of tables beyond a run: seen in the tables, their files and what is told."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.tables import Pipeline, expect, stream
from medallion_assets.tables.choice import Choice
from medallion_assets.tables.conservation import balance
from medallion_assets.tables.refresh import refresh
from medallion_assets.verbs import VERBS, Asked

pytestmark = pytest.mark.spark
RULE = expect("above_zero", "total > 0")


def shop_with(rules=(RULE,), **landing):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT, total INT", **landing)):  # noqa: B008
        """One row per order, as it landed."""
        return files

    @shop.silver(unique_by="id", expectations=rules)
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "total")

    @shop.gold(output_mode="complete", counts_rows="sales")
    def totals(sales=stream(sales)):
        """One row per kind of sale."""
        sums = F.sum("total").alias("total"), F.count("*").alias("sales")
        return sales.groupBy(F.lit("all").alias("of")).agg(*sums)

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
def do(lake, spark):
    return lambda verb, table, **asked: VERBS[verb](table, lake, lambda: spark, Asked(**asked))


@pytest.fixture
def look(lake, no_spark):
    """Does a verb that must answer from logs alone."""
    return lambda verb, table, **asked: VERBS[verb](table, lake, no_spark, Asked(**asked))


def lines(*orders):
    return "".join(json.dumps({"id": i, "total": t}) + "\n" for i, t in orders)


def test_plan_says_what_a_run_would_take_and_what_changed_code_needs(drop, refreshed, look):
    tables = shop_with()
    drop("shop/orders", "a.json", lines((1, 5)))
    assert look("plan", tables[0]).does.startswith("1 new files are taken")
    assert look("plan", tables[0]).downstream == ("shop/silver/sales", "shop/gold/totals")
    refreshed(*tables)
    assert [look("plan", t).does for t in tables] == ["nothing new"] * 3
    changed = shop_with(rules=(expect("above_one", "total > 1"),))
    assert "for old ones run full_refresh" in look("plan", changed[1]).does
    assert look("plan", changed[2]).does == "nothing new"


def test_a_full_refresh_applies_new_rules_to_old_rows_and_undo_takes_it_back(drop, refreshed, do, rows_of):
    tables = shop_with()
    drop("shop/orders", "a.json", lines((1, 5), (2, 1)))
    refreshed(*tables)
    changed = shop_with(rules=(expect("above_one", "total > 1"),))
    foreseen = do("full_refresh", changed[1], dry_run=True)
    assert (foreseen.reads, foreseen.downstream) == ("shop/bronze/orders", ("shop/gold/totals",))
    assert rows_of("shop/silver/sales", "SELECT count(*) AS n FROM t") == [{"n": 2}]
    assert "2 rows before, 1 now" in do("full_refresh", changed[1]).does
    refreshed(*changed)
    assert rows_of("shop/gold/totals", "SELECT total FROM t") == [{"total": 5}]
    assert "stands again" in do("undo", changed[1]).does
    drop("shop/orders", "b.json", lines((3, 9)))
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 15, "sales": 3}]
    assert not do("undo", changed[1]).well


def test_a_full_refresh_that_fails_leaves_everything_as_it_was(drop, refreshed, do, rows_of):
    tables = shop_with()
    drop("shop/orders", "a.json", lines((1, 5), (2, 1)))
    refreshed(*tables)
    strict = shop_with(rules=(expect("above_one", "total > 1", "fail"),))
    with pytest.raises(RuntimeError, match="above_one"):
        do("full_refresh", strict[1])
    drop("shop/orders", "b.json", lines((3, 9)))
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 15, "sales": 3}]


def test_bronze_is_not_made_anew_from_files_that_may_be_gone(drop, refreshed, do):
    orders, *_ = shop_with()
    drop("shop/orders", "a.json", lines((1, 5)))
    refreshed(orders)
    told = do("full_refresh", orders)
    assert not told.well
    assert "Nothing was changed" in told.does


def test_a_reset_checkpoint_neither_loses_nor_doubles(drop, refreshed, do, rows_of):
    tables = shop_with()
    drop("shop/orders", "a.json", lines((1, 5), (2, -1)))
    refreshed(*tables)
    for table in tables:
        do("reset_checkpoint", table)
    drop("shop/orders", "b.json", lines((3, 9)))
    refreshed(*tables)
    assert rows_of("shop/bronze/orders", "SELECT count(*) AS n FROM t") == [{"n": 3}]
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 14, "sales": 2}]


def test_reprocessed_files_replace_what_they_gave_all_the_way_down(drop, refreshed, do, rows_of, lake):
    tables = shop_with()
    drop("shop/orders", "a.json", lines((1, 5), (2, -1)))
    old = drop("shop/orders", "b.json", lines((3, 9)))
    refreshed(*tables)
    assert "1 files would be read again" in do("reprocess", tables[0], files=("a.json",), dry_run=True).does
    told = do("reprocess", tables[0], files=("a.json",))
    assert told.found["records_before"] == told.found["records_now"] == 2
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 14, "sales": 2}]
    old.unlink()
    refused = do("reprocess", tables[0], since="2020-01-01")
    assert not refused.well
    assert "b.json" in refused.does


def test_a_reprocessing_that_died_before_its_batch_does_not_double(drop, refreshed, do, rows_of, lake, spark):
    tables = shop_with()
    drop("shop/orders", "a.json", lines((1, 5), (2, 7)))
    refreshed(*tables)

    def dies():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        VERBS["reprocess"](tables[0], lake, dies, Asked(files=("a.json",)))
    refreshed(*tables)
    assert rows_of("shop/bronze/orders", "SELECT id FROM t ORDER BY id") == [{"id": 1}, {"id": 2}]


def test_validate_judges_what_landed_and_writes_nothing(drop, do, lake):
    shop = Pipeline("shop")

    @shop.bronze(expectations=[RULE])
    def orders(files=shop.landing("orders", format="json", schema="id INT, total INT")):  # noqa: B008
        """One row per order, as it landed."""
        return files

    drop("shop/orders", "a.json", lines((1, 5), (2, -1)) + "{broken\n")
    told = do("validate", orders)
    assert (told.found["good"], told.found["malformed"], told.found["rules"]) == (2, 1, {"above_zero": 1})
    assert not told.well
    assert not list(lake.root.rglob("*.parquet"))


def test_maintenance_puts_files_together_and_no_stream_notices(drop, refreshed, do, rows_of, lake):
    tables = shop_with()
    for number in range(4):
        drop("shop/orders", f"{number}.json", lines((number, 5), (number + 10, -1)))
        refreshed(*tables)
    files = [do("maintain", table).found for table in tables]
    assert [(f["files_before"], f["files_now"]) for f in files][:2] == [(4, 1), (8, 2)]
    assert [done.total("read") for done in refreshed(*tables)] == [0, 0, 0]
    drop("shop/orders", "z.json", lines((99, 1)))
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 21, "sales": 5}]


def test_maintenance_keeps_what_a_table_downstream_has_not_taken(drop, refreshed, do):
    orders, sales, totals = shop_with()
    drop("shop/orders", "a.json", lines((1, 5)))
    refreshed(orders, sales, totals)
    drop("shop/orders", "b.json", lines((2, 5)))
    refreshed(orders)
    assert "shop/silver/sales has not taken all of it" in do("maintain", orders, dry_run=True).does


def test_doctor_names_the_verb_for_each_illness(drop, refreshed, look, do, lake, spark):
    tables = shop_with()
    drop("shop/orders", "a.json", lines((1, 5)))
    refreshed(*tables)
    assert [look("doctor", t).does for t in tables] == ["well"] * 3
    do("reset_checkpoint", tables[1])
    assert "checkpoint is gone: run" in look("doctor", tables[1]).does
    spark.sql(f"DELETE FROM delta.`{lake.path(tables[0])}`")
    assert "run audit" in look("doctor", tables[0]).does


def test_audit_finds_what_the_log_alone_cannot(drop, refreshed, do, lake, spark):
    tables = shop_with()
    file = drop("shop/orders", "a.json", lines((1, 5), (2, -1)) + "{broken\n")
    refreshed(*tables)
    assert all(do("audit", t).well for t in tables)
    # One row for another: every sum still holds.
    path = lake.path(tables[0])
    spark.sql(f"UPDATE delta.`{path}` SET _source_file = 'elsewhere' WHERE id = 1")
    told = do("audit", tables[0])
    assert "a.json holds 3 records, table and quarantine 2" in told.does
    assert "elsewhere, which the ledger does not know" in told.does
    file.write_text(lines((7, 7)))
    assert "changed since it was taken" in do("audit", tables[0]).does


def test_a_reset_takes_everything_downstream_with_it_and_starts_again(drop, refreshed, look, rows_of, lake):
    tables = shop_with()
    drop("shop/orders", "a.json", lines((1, 5), (2, -1)))
    refreshed(*tables)
    assert "shop/gold/totals" in look("reset", tables[0], dry_run=True).does
    assert log.exists(lake.path(tables[0]))
    look("reset", tables[0])
    assert not list(lake.root.rglob("*.parquet"))
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
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT, total INT, tip INT", **told)):  # noqa: B008
        """One row per order, as it landed."""
        return files

    drop("shop/orders", "b.json", '{"id": 3, "tip": 4}\n')
    refreshed(orders)
    choice = Choice(reasons=("rescued",))
    assert do("replay", orders, choice=choice, dry_run=True).found == {"rows": 1}
    assert do("replay", orders, choice=choice).found == {"rows": 1}
    assert do("replay", orders, choice=choice).found == {"rows": 0}
    found = rows_of("shop/bronze/orders", "SELECT id, tip, _rescued_data AS r FROM t ORDER BY id")
    assert [(row["id"], row["tip"]) for row in found] == [(1, 2), (2, None), (3, 4)]
    assert set(json.loads(found[0]["r"])) == {"note", "_file_path"}
    assert json.loads(found[1]["r"])["tip"] == "n"
