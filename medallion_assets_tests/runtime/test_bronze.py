"""What a bronze table makes of odd files: seen in its rows and its quarantine."""

import pytest

from medallion_assets.declare import Pipeline
from medallion_assets.quality.conservation import balance
from medallion_assets.quality.verdicts import schema_unchanged
from medallion_assets.runs.run import refresh
from medallion_assets.sources.errors import NewColumns
from medallion_assets_tests.shop import orders_of, totals_file

pytestmark = pytest.mark.spark


def test_odd_file_names_load_once_each_with_their_own_name(drop, refreshed, rows_of, lake):
    orders = orders_of(Pipeline("shop"))
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
        drop("shop/orders", name, totals_file(1, start=i))
    refreshed(orders)
    found = rows_of("shop/bronze/orders", "SELECT _source_file AS f FROM t")
    assert sorted(r["f"].rpartition("/")[2] for r in found) == sorted(names)


def test_several_micro_batches_of_one_discovery_all_load(drop, lake, spark, rows_of):
    orders = orders_of(Pipeline("shop"), max_files_per_trigger=2)

    for i in range(5):
        drop("shop/orders", f"{i}.json", totals_file(1, start=i))
    assert [b.files for b in refresh(orders, lake, lambda: spark).batches] == [2, 2, 1]
    assert len(rows_of("shop/bronze/orders")) == 5


def test_csv_that_does_not_fit_is_quarantined_with_its_text(drop, lake, spark, rows_of):
    orders = orders_of(Pipeline("shop"), format="csv", schema="id INT, note STRING")

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
        "many,b": ["does not fit the schema: id"],
        "5,c,surplus": ["malformed CSV: not as many cells as the header"],
    }
    assert balance(orders, lake).holds


def test_a_declared_copy_into_stops_at_a_new_column_that_it_is_not_told_to_merge(drop, lake, spark, rows_of):
    def orders_with(**told):
        shop = Pipeline("shop")

        @shop.bronze()
        def orders(files=shop.copy_into("orders", format="csv", **told)):  # noqa: B008
            """One row per order, each day's file once."""
            return files

        return orders

    drop("shop/orders", "a.csv", "id\n1\n")
    refresh(orders_with(), lake, lambda: spark)
    drop("shop/orders", "b.csv", "id,city\n2,Quito\n")
    with pytest.raises(NewColumns, match="city"):
        refresh(orders_with(), lake, lambda: spark)
    refresh(orders_with(merge_schema=True), lake, lambda: spark)
    found = rows_of("shop/bronze/orders", "SELECT id, city FROM t ORDER BY id")
    assert [tuple(row.values()) for row in found] == [("1", None), ("2", "Quito")]


def test_a_source_without_a_schema_is_inferred_and_hints_win_and_a_missing_column_is_told(
    drop, lake, spark, rows_of
):
    told = {"infer_column_types": True, "schema_hints": "total STRING"}
    orders = orders_of(Pipeline("shop"), schema=None, **told)

    drop("shop/orders", "a.json", totals_file(7))
    refresh(orders, lake, lambda: spark)
    assert rows_of("shop/bronze/orders", "SELECT id, total FROM t") == [{"id": 0, "total": "7"}]
    drop("shop/orders", "b.json", '{"total":8}')
    refresh(orders, lake, lambda: spark)
    told = schema_unchanged(orders, lake)
    assert (told.passed, told.words, told.numbers["missing"]) == (False, "missing id", 1)
