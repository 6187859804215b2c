"""Runs that died and checkpoints that were lost: what changed meanwhile in landing zones stops no table."""

import gzip
import io
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from medallion_assets.declare import Pipeline
from medallion_assets.delta import log
from medallion_assets.lake.arrivals import last_pass
from medallion_assets.pytest_plugin import Crashed
from medallion_assets.quality.conservation import balance
from medallion_assets.quality.verdicts import values_conserved
from medallion_assets.sources import copy_into, file_status, loaders
from medallion_assets_tests.shop import json_lines, orders_file, orders_of

pytestmark = pytest.mark.spark


def parquet_of(*numbers):
    """Return the bytes of a Parquet file."""
    target = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(numbers, pa.int32())}), target)
    return target.getvalue()


def zipped(*numbers):
    return gzip.compress(json_lines(*({"id": n} for n in numbers)).encode())


CHANGED_SINCE = {
    "json": {
        "other.json": (json_lines({"id": 1}), json_lines({"id": 1, "new": 2}, {"id": None})),
        "cut.json.gz": (zipped(2, 3), zipped(2, 3)[:-12]),
        "gone.json": (json_lines({"id": 4}), None),
        "same.json": (json_lines({"id": 5}), json_lines({"id": 5})),
    },
    "parquet": {
        "cut.parquet": (parquet_of(1, 2), parquet_of(1, 2)[:-20]),
        "junk.parquet": (parquet_of(3), b"nothing of the kind"),
        "same.parquet": (parquet_of(4, 5), parquet_of(4, 5)),
    },
    "csv": {
        "other.csv": (b"id\n1\n2\n", b'name,id\n"a'),
        "wide.csv": (b"id\n3\n4\n", "id\n5\n".encode("utf-16")),
        "same.csv": (b"id\n5\n", b"id\n5\n"),
    },
}
"""By format and file: what a batch that died had loaded, and what lies there when the next run looks."""


@pytest.mark.parametrize("kind", CHANGED_SINCE)
def test_files_that_changed_after_a_batch_died_are_told_as_not_counted_and_stop_no_run(lakehouse, kind):
    orders = orders_of(Pipeline("shop"), format=kind, schema="id INT")
    files = CHANGED_SINCE[kind]
    for name, (landed, _) in files.items():
        lakehouse.land("shop/orders", name, landed)
    with lakehouse.crash_at(1):
        lakehouse.run(orders)
    for name, (landed, now) in files.items():
        path = lakehouse.lake.settings.landing / "shop/orders" / name
        if now is None:
            path.unlink()
        elif now != landed:
            path.write_bytes(now if isinstance(now, bytes) else now.encode())
            os.utime(path, (1, 1))
    lakehouse.run(orders)
    told = values_conserved(orders, lakehouse.lake)
    assert told.passed, told
    assert "not counted: * (the file changed since it was loaded)" in told.words
    assert balance(orders, lakehouse.lake).holds
    rows = {row["path"]: row for row in file_status.rows(lakehouse.lake.ledger(orders))}
    uncounted = {path for path, row in rows.items() if row["values_uncounted"]}
    assert uncounted == {name for name in files if not name.startswith("same")}
    assert sum(row["rows_loaded"] for row in rows.values()) == 5
    lakehouse.land("shop/orders", f"later.{kind}", files[f"same.{kind}"][0])
    assert lakehouse.run(orders)["shop/bronze/orders"].total("written") in (1, 2)


def test_data_files_that_went_before_they_were_counted_stop_no_run(lakehouse, spark):
    orders = orders_of(Pipeline("shop"))
    lakehouse.land("shop/orders", "a.json", json_lines({"id": 1}, {"id": 2}))
    with lakehouse.crash_at(1):
        lakehouse.run(orders)
    path = lakehouse.lake.path(orders)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    DeltaTable(str(path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    lakehouse.land("shop/orders", "b.json", json_lines({"id": 3}))
    assert lakehouse.run(orders)["shop/bronze/orders"].total("written") == 1
    rows = {row["path"]: row for row in file_status.rows(lakehouse.lake.ledger(orders))}
    assert "data files were removed" in rows["a.json"]["values_uncounted"]
    assert (rows["a.json"]["rows_loaded"], rows["b.json"]["values_uncounted"]) == (2, None)


def ids(done):
    return sorted(row["id"] for row in log.rows(done.path, "SELECT id FROM t"))


def test_a_lost_checkpoint_withholds_no_later_file_and_doubles_none_of_before(landed, autoload, tmp_path):
    read = {"schema": "id INT", "allow_overwrites": "append", "change_detection": "content"}
    folder = landed(a__json=json_lines({"id": 1}), bad__json='{"id":\n')
    autoload(folder, "json", **read)
    shutil.rmtree(tmp_path / "checkpoints/t")
    again = autoload(folder, "json", **read)
    assert (again.files, ids(again)) == (0, [1])
    assert log.row_count(again.quarantine) == 1
    statuses = [row["status"] for row in file_status.rows(again.ledger)]
    assert statuses == [file_status.LOADED] * 2
    facts = (folder / "a.json").stat()
    landed(a__json=json_lines({"id": 7}), bad__json=json_lines({"id": 2}), new__json=json_lines({"id": 3}))
    # The same size and time: found by its content alone.
    os.utime(folder / "a.json", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    done = autoload(folder, "json", **read)
    assert (done.files, done.rows_loaded, ids(done)) == (3, 3, [1, 2, 3, 7])


@pytest.mark.parametrize("now", ["older", "newer"])
def test_after_a_lost_checkpoint_a_file_that_only_the_quarantine_knows_is_told_by_its_records(
    landed, autoload, tmp_path, now
):
    read = {"schema": "id INT", "allow_overwrites": "append"}
    names = ("same", "mended", "half")
    folder = landed(**{f"{name}__json": '{"id":"x"}\n{bad\n' for name in names})
    assert autoload(folder, "json", rescued_data_column="", **read).rows_quarantined == 6
    shutil.rmtree(tmp_path / "checkpoints/t")
    landed(mended__json=json_lines({"id": 1}, {"id": 2}), half__json='{"id":"y"}\n{bad\n')
    for name in names:
        # As cp -p leaves it, or as a later touch does.
        os.utime(folder / f"{name}.json", (1, 1) if now == "older" else None)
    done = autoload(folder, "json", rescued_data_column="", **read)
    assert (done.files, ids(done), done.rows_quarantined) == (2, [1, 2], 2)
    held = [row["row"] for row in log.rows(done.quarantine, "SELECT row FROM t")]
    assert sorted(held) == sorted(['{"id":"x"}', "{bad"] * 3 + ['{"id":"y"}', "{bad"])


@pytest.mark.parametrize("lost", ["ledger", "ledger_files"])
def test_ledger_and_status_table_may_be_lost_one_without_the_other(landed, autoload, tmp_path, lost):
    folder = landed(a__json=json_lines({"id": 1}))
    autoload(folder, "json", schema="id INT")
    landed(b__json=json_lines({"id": 2}))
    autoload(folder, "json", schema="id INT")
    shutil.rmtree(tmp_path / "checkpoints/t" / lost)
    # One of the new ledger's entries has the sequence of an old one.
    landed(aa__json=json_lines({"id": 3}))
    os.utime(folder / "aa.json", (1, 1))
    autoload(folder, "json", schema="id INT")
    landed(c__json=json_lines({"id": 4}))
    assert ids(autoload(folder, "json", schema="id INT")) == [1, 2, 3, 4]


def test_an_older_copy_of_a_checkpoint_withholds_and_doubles_nothing(landed, autoload, tmp_path):
    checkpoint, read = tmp_path / "checkpoints/t", {"schema": "id INT", "allow_overwrites": "append"}
    for number, name in enumerate(("a", "b", "b", "c", "d", "e"), 1):
        if number == 3:
            shutil.copytree(checkpoint, tmp_path / "older")
        if number == 5:
            shutil.rmtree(checkpoint)
            (tmp_path / "older").rename(checkpoint)
        folder = landed(**{f"{name}__json": json_lines({"id": number})})
        os.utime(folder / f"{name}.json", (number, number))
        done = autoload(folder, "json", **read)
        assert ids(done) == list(range(1, number + 1))


def test_after_a_lost_checkpoint_the_mode_says_what_becomes_of_a_file_that_changed_meanwhile(
    landed, autoload, tmp_path
):
    for mode, first, second in (("ignore", [1], [1]), ("append", [1, 2], [1, 2, 3]), ("replace", [2], [3])):
        folder = landed(**{f"{mode}/a__json": json_lines({"id": 1}) + "{bad\n"}) / mode
        read = {"table": mode, "schema": "id INT", "allow_overwrites": mode}
        autoload(folder, "json", **read)
        shutil.rmtree(tmp_path / f"checkpoints/{mode}")
        landed(**{f"{mode}/a__json": json_lines({"id": 2})})
        assert ids(autoload(folder, "json", **read)) == first, mode
        landed(**{f"{mode}/a__json": json_lines({"id": 3}, {"id": 3})[: 9 if mode == "ignore" else None]})
        done = autoload(folder, "json", **read)
        assert sorted({*ids(done)}) == second, mode
        assert log.row_count(done.quarantine) == (0 if mode == "replace" else 1), mode


def test_copy_into_takes_what_is_forced_and_each_other_file_once_after_its_ledger_was_lost(
    landed, lake, spark
):
    folder = landed(a__json=json_lines({"id": 1}), b__json=json_lines({"id": 2}))

    def copy(**told):
        return copy_into("web.bronze.t", folder, "json", spark=spark, schema="id INT", **told).load

    copy()
    shutil.rmtree(lake.root / "web/_state/bronze/t/copy_into")
    assert ids(copy(files=["a.json"], force=True)) == [1, 1, 2]
    assert ids(copy()) == [1, 1, 2]
    landed(c__json=json_lines({"id": 3}))
    assert ids(copy()) == [1, 1, 2, 3]


def test_a_file_that_a_call_put_off_is_loaded_once_wherever_that_call_died(landed, lake, spark, monkeypatch):
    folder = landed(a__json='{"id": 1}\n{bad\n', b__json=json_lines({"id": 2}))

    def copy(**told):
        return copy_into("web.bronze.t", folder, "json", spark=spark, schema="id INT", **told).load

    def dies(*args, **told):
        raise Crashed

    with pytest.raises(Exception, match="bad"):
        copy(files=["a.json"], mode="FAILFAST")
    with monkeypatch.context() as patch:
        patch.setattr(loaders, "append", dies)
        with pytest.raises(Crashed):
            copy(files=["b.json"])
    assert ids(copy()) == [1, 2]
    assert ids(copy()) == [1, 2]


def test_a_file_that_a_call_put_off_stays_unknown_where_that_call_died_after_its_commit(
    landed, lake, spark, lakehouse_here
):
    folder = landed(a__json='{"id": 1}\n{bad\n', b__json=json_lines({"id": 2}))

    def copy(**told):
        return copy_into("web.bronze.t", folder, "json", spark=spark, schema="id INT", **told).load

    with pytest.raises(Exception, match="bad"):
        copy(mode="FAILFAST", pattern="a*")
    with lakehouse_here.crash_at(1):
        copy(files=["b.json"])
    assert ids(copy()) == [1, 2]


def test_notes_that_a_power_cut_emptied_are_written_anew_and_no_file_is_cleaned_before(
    drop, refreshed, lake, spark, rows_of, tmp_path
):
    away = {"clean_source": "MOVE", "clean_source_retention_days": 0}
    away["clean_source_move_destination"] = str(tmp_path / "old")
    orders = orders_of(Pipeline("shop"), schema="", backfill_interval="1 hour", **away)

    def landed(number):
        drop("shop/orders", f"{number}.json", orders_file((number, 5)))
        zone = drop("web", f"{number}.json", orders_file((number, 5))).parent
        return refreshed(orders), copy_into("copied", zone, "json", spark=spark)

    def moved():
        return len(list((tmp_path / "old").glob("*.json")))

    landed(1)
    assert moved() == 1
    notes = [*lake.root.rglob("_state/**/*.json"), *lake.root.rglob("_ledger/**/holder.json")]
    notes += lake.root.rglob("_ledger/**/listed.json")
    notes = [note for note in notes if not {"_delta_log", "stream", "checkpoint"} & {*note.parts}]
    assert {"readers", "schemas"} <= {note.parent.name for note in notes}
    for note in notes:
        note.write_bytes(b"")
    assert last_pass(orders, lake) == 0
    landed(2)
    assert moved() == 1
    landed(3)
    assert moved() == 3
    assert [len(rows_of(key)) for key in (orders.key, "default/bronze/copied")] == [3, 3]
