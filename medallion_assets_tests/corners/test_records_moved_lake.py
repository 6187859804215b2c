"""What becomes of records when files are replaced, cleaned up or moved with the whole lake."""

import os
import shutil

import pytest

from medallion_assets.declare import Pipeline
from medallion_assets.declare.errors import CheckpointMismatch
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.reports import files_of
from medallion_assets.runs.run import refresh
from medallion_assets.settings import Settings
from medallion_assets.sources import autoload_to_table, copy_into
from medallion_assets.sources.errors import SourceError, SourceMissing
from medallion_assets_tests.shop import chain, json_lines, order, orders_of

pytestmark = pytest.mark.spark


def bronze(**options):
    """Return a pipeline's table of the shop's orders, and the pipeline."""
    shop = Pipeline("shop")

    landing = shop.landing("orders", format="json", infer_column_types=True, **options)

    @shop.bronze()
    def orders(files=landing):
        """One row per order."""
        return files

    return orders


def test_a_lake_and_its_landing_zone_go_on_where_they_are_copied_to(drop, lake, spark, tmp_path, monkeypatch):
    orders = bronze()
    drop("shop/orders", "day=1/a b.json", '{"id": 1}\n{"id": "x", "odd": 1}\n{"id":')
    drop("shop/orders", "b.json", json_lines({"id": 2}))
    refresh(orders, lake, lambda: spark)
    for name in ("lake", "landing"):
        # Without the files' times, as a copy to another machine may have them.
        shutil.copytree(tmp_path / name, tmp_path / "env=new" / name, copy_function=shutil.copyfile)
        monkeypatch.setenv(f"MEDALLION_{name.upper()}", str(tmp_path / "env=new" / name))
        shutil.rmtree(tmp_path / name)
    there = Lake(Settings().resolved())
    assert refresh(orders, there, lambda: spark).total("written") == 0
    (there.settings.landing / "shop/orders/c.json").write_text(json_lines({"id": 3}))
    assert refresh(orders, there, lambda: spark).total("written") == 1
    rows = log.rows(there.path(orders), "SELECT _source_file AS file, count(*) AS n FROM t GROUP BY 1")
    assert {row["file"]: row["n"] for row in rows} == {"day=1/a b.json": 2, "b.json": 1, "c.json": 1}
    assert "env" not in dict(log.schema(there.path(orders)))
    result = VERBS["audit"](orders, there, lambda: spark, VerbRequest())
    assert result.well, result
    tables = [there.path(orders), there.quarantine(orders), there.ledger(orders)]
    tables += [there.ledger(orders).with_name("orders_files")]
    for table in tables:
        held = log.rows(table, "SELECT * FROM t")
        assert held
        assert str(tmp_path) not in str(held)


def test_a_replacement_dated_before_the_file_it_replaces_is_applied(drop, lake, spark):
    orders = bronze(allow_overwrites="replace")
    file = drop("shop/orders", "a.json", json_lines({"id": 1}, {"id": 2}))
    refresh(orders, lake, lambda: spark)
    for number, day in ((3, 1), (4, 2), (5, 0)):
        drop("shop/orders", "a.json", json_lines(*({"id": number} for _ in range(number))))
        os.utime(file, (day * 86400, day * 86400))
        refresh(orders, lake, lambda: spark)
    assert [row["id"] for row in log.rows(lake.path(orders), "SELECT id FROM t")] == [5] * 5
    audit = VERBS["audit"](orders, lake, lambda: spark, VerbRequest())
    assert audit.well, audit
    statuses = [row["status"] for row in files_of(orders, lake)]
    assert statuses == ["committed"] * 4
    # The same size and time: discovery does not see it, audit does and its verb loads it.
    facts = file.stat()
    file.write_text(json_lines(*({"id": 6} for _ in range(5))))
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert refresh(orders, lake, lambda: spark).skipped == "nothing new"
    audit = VERBS["audit"](orders, lake, lambda: spark, VerbRequest())
    assert not audit.well
    assert "medallion reprocess shop/bronze/orders --file a.json" in str(audit)
    VERBS["reprocess"](orders, lake, lambda: spark, VerbRequest(files=("a.json",)))
    assert {row["id"] for row in log.rows(lake.path(orders), "SELECT id FROM t")} == {6}


def test_a_file_appended_twice_is_audited_by_both_of_its_contents(drop, lake, spark):
    orders = bronze(allow_overwrites="append")
    drop("shop/orders", "a.json", json_lines({"id": 1}, {"id": 2}))
    refresh(orders, lake, lambda: spark)
    drop("shop/orders", "a.json", json_lines({"id": 3}))
    refresh(orders, lake, lambda: spark)
    audit = VERBS["audit"](orders, lake, lambda: spark, VerbRequest())
    assert audit.well, audit


def test_files_are_cleaned_up_after_every_reader_of_the_lake_and_overwrite_nothing(
    drop, lake, spark, tmp_path
):
    orders = bronze(
        allow_overwrites="append",
        clean_source="MOVE",
        clean_source_move_destination=str(tmp_path / "old"),
        clean_source_retention_days=0,
    )
    folder = lake.settings.landing / "shop" / "orders"
    folder.mkdir(parents=True)

    def notebook():
        return autoload_to_table(folder, "json", "web.bronze.orders", tmp_path / "notes", spark=spark)

    notebook()
    for number in (1, 2):
        file = drop("shop/orders", "a.json", json_lines({"id": number}))
        refresh(orders, lake, lambda: spark)
        assert file.exists(), "the notebook's table has not read it"
        assert notebook().rows_loaded == (1 if number == 1 else 0)
        refresh(orders, lake, lambda: spark)
        assert not file.exists()
    kept = {path.name: path.read_text() for path in (tmp_path / "old").iterdir()}
    assert kept == {"a.json": json_lines({"id": 1}), "a-1.json": json_lines({"id": 2})}


def test_a_file_waits_for_every_declared_reader_also_one_that_never_ran(drop, lake, spark, tmp_path):
    orders = bronze(
        allow_overwrites="append",
        clean_source="MOVE",
        clean_source_move_destination=str(tmp_path / "old"),
        clean_source_retention_days=0,
    )
    zone = str(lake.settings.landing / "shop" / "orders")
    other = orders_of(Pipeline("other_shop"), path=zone)
    same = orders_of(Pipeline("shop", tables=orders.registry), name="copies", path=zone)
    file = drop("shop/orders", "a.json", json_lines({"id": 1}))
    for reader in (same, other):
        refresh(orders, lake, lambda: spark)
        assert file.exists(), f"{reader.key} has not read it"
        assert refresh(reader, lake, lambda: spark).total("written") == 1
    refresh(orders, lake, lambda: spark)
    assert not file.exists()


def test_silver_gold_and_the_tables_of_notebooks_go_on_where_a_lake_is_copied_to(
    drop, lake, spark, tmp_path, monkeypatch
):
    tables, here = chain(gold="complete"), tmp_path
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -7)) + "{broken\n")

    def go():
        folder, place = here / "landing/shop/orders", Lake(Settings().resolved())
        written = [refresh(table, place, lambda: spark).total("written") for table in tables]
        notebook = autoload_to_table(folder, "json", "web.bronze.seen", here / "notes", spark=spark)
        copied = copy_into("web.bronze.copied", folder, "json", spark=spark)
        return place, written, notebook.rows_loaded, copied.num_inserted_rows

    assert go()[1:] == ([2, 1, 1], 2, 2)
    here = tmp_path / "env=new place"
    for name in ("lake", "landing", "notes"):
        shutil.copytree(tmp_path / name, here / name, copy_function=shutil.copyfile)
        monkeypatch.setenv(f"MEDALLION_{name.upper()}", str(here / name))
        shutil.rmtree(tmp_path / name)
    monkeypatch.delenv("MEDALLION_NOTES")
    assert go()[1:] == ([0, 0, 0], 0, 0)
    (here / "landing/shop/orders/b.json").write_text(json_lines(order(3, 6), order(4, -8)))
    place, *moved = go()
    assert moved == [[2, 1, 1], 2, 2]
    assert log.rows(place.path(tables[2]), "SELECT total, sales FROM t") == [{"total": 11, "sales": 2}]
    for table in tables:
        assert VERBS["audit"](table, place, lambda: spark, VerbRequest()).well
        assert VERBS["doctor"](table, place, lambda: spark, VerbRequest()).well


def test_audit_names_what_loads_new_bytes_of_the_same_size_and_time_in_append_mode(drop, lake, spark, do):
    orders = bronze(allow_overwrites="append")
    file = drop("shop/orders", "a.json", json_lines({"id": 1}))
    refresh(orders, lake, lambda: spark)
    facts = file.stat()
    file.write_text(json_lines({"id": 2}))
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert refresh(orders, lake, lambda: spark).skipped == "nothing new"
    told = do("audit", orders)
    assert not told.well
    assert "`touch` it to have it loaded" in told.does
    assert "reprocess" not in told.does
    file.touch()
    assert refresh(orders, lake, lambda: spark).total("written") == 1
    assert sorted(row["id"] for row in log.rows(lake.path(orders), "SELECT id FROM t")) == [1, 2]
    told = do("audit", orders)
    assert told.well, told


def test_a_source_that_is_not_there_is_an_error_with_its_name(drop, lake, spark, no_spark, tmp_path):
    with pytest.raises(SourceMissing, match="is not there, and there is no folder"):
        autoload_to_table(tmp_path / "nowhere", "json", "web.bronze.t", tmp_path / "notes")
    for address in ("dbfs:/x", "ftp://host/orders", "hdfs://node/orders"):
        with pytest.raises(SourceError, match=r"address\. Nothing was read"):
            autoload_to_table(address, "json", "web.bronze.t", tmp_path / "notes")
        with pytest.raises(SourceError, match=r"address\. Nothing was read"):
            bronze(path=address)
    orders = bronze()
    assert refresh(orders, lake, no_spark).skipped == "nothing has landed yet"
    drop("shop/orders", "a.json", json_lines({"id": 1}))
    refresh(orders, lake, lambda: spark)
    shutil.rmtree(lake.settings.landing / "shop")
    with pytest.raises(SourceMissing, match="files were taken from it before"):
        refresh(orders, lake, no_spark)


def test_a_table_is_filled_by_its_declaration_or_by_notebooks_and_the_other_is_refused_by_name(
    drop, lake, spark, no_spark, tmp_path
):
    bronze_table, silver, _ = chain(gold="complete")
    drop("shop/orders", "a.json", json_lines(order(1, 5)))
    for table in (bronze_table, silver):
        refresh(table, lake, lambda: spark)
    folder = drop("other", "n.json", json_lines(order(2, 6))).parent
    versions = [log.version(lake.path(table)) for table in (bronze_table, silver)]
    for name in ("shop.bronze.orders", "shop.silver." + silver.name):
        for load in (
            lambda name=name: copy_into(name, folder, "json"),
            lambda name=name: copy_into(name, folder, "json", validate="ALL"),
            lambda name=name: autoload_to_table(folder, "json", name, tmp_path / "cp"),
        ):
            with pytest.raises(SourceError, match="is filled by its declaration in the pipeline shop"):
                load()
    assert [log.version(lake.path(table)) for table in (bronze_table, silver)] == versions
    drop("shop/orders", "b.json", json_lines(order(3, 7)))
    assert [refresh(t, lake, lambda: spark).total("written") for t in (bronze_table, silver)] == [1, 1]

    later = orders_of(Pipeline("shop", tables=bronze_table.registry), name="later")
    assert copy_into("shop.bronze.later", folder, "json", spark=spark).num_inserted_rows == 1
    drop("shop/orders", "c.json", json_lines(order(4, 8)))
    with pytest.raises(CheckpointMismatch, match=r"filled by copy_into or autoload_to_table.*reset"):
        refresh(later, lake, no_spark)
    drop("other", "m.json", json_lines(order(5, 6)))
    assert copy_into("shop.bronze.later", folder, "json", spark=spark).num_inserted_rows == 1
