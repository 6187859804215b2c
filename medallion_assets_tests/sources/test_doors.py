"""The notebook's door through trouble: odd names, lost checkpoints, files that vanish or come late."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.loaders import HEAD, compare
from medallion_assets.declare import Pipeline, expect, stream
from medallion_assets.declare.errors import CheckpointMismatch
from medallion_assets.delta.errors import DamagedCheckpoint
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.run import refresh
from medallion_assets.sources import autoload_to_table, copy_into, create_table_as
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources.errors import SourceError, TableLost
from medallion_assets.sources.ledger import rows as ledger_rows
from medallion_assets_tests.shop import orders_of

pytestmark = pytest.mark.spark
ODD = [
    "a b", "a'b", 'a"b', "a%20b", "a%zz", "a?b", "a*b", "[1]", "{x}", "a\\b", "c:d", "a\nb", "a\tb", "é",
    "😀", "#a", "a+b", "a=b", "~a", "-a", "$(a)", ";DROP TABLE t", "a&b", " a", "a.json.gz", "x" * 240,
]  # fmt: skip


def test_every_odd_name_loads_exactly_once_or_says_why(landed, autoload, rows):
    folder = landed(**{f"{name}.json": json.dumps({"n": name}) for name in ODD if name != "a.json.gz"})
    (folder / "a.json.gz").write_bytes(b'{"n":"gz"}')
    (folder / os.fsdecode(b"bad\xff.json")).write_bytes(b'{"n":"x"}')
    result = autoload(folder, "json")
    names = sorted(row["n"] for row in rows(result, "n"))
    assert names == sorted(name for name in ODD if name != "a.json.gz")
    why = {
        row["reason"] for row in ledger_rows(result.ledger, "SELECT * FROM ledger WHERE status <> 'admitted'")
    }
    assert why == {"its name is not UTF-8", "its name says gzip, its bytes do not"}
    files = {row["_source_file"].rpartition("/")[2] for row in rows(result, "_source_file")}
    assert files == {f"{name}.json" for name in ODD if name != "a.json.gz"}


def test_a_lost_checkpoint_neither_doubles_nor_loses(landed, autoload, rows, tmp_path, refused):
    folder = landed(a__json='{"id":1}\nbroken\n', b__json="broken too\n")
    autoload(folder, "json")
    (tmp_path / "checkpoints" / "t").rename(tmp_path / "gone")
    landed(c__json='{"id":2}\n')
    result = autoload(folder, "json")
    assert sorted(row["id"] for row in rows(result)) == ["1", "2"]
    assert [text for text, _ in refused(result)] == ["broken", "broken too"]


def test_a_damaged_checkpoint_is_refused_and_nothing_is_lost_once_it_is_removed(
    landed, autoload, rows, tmp_path
):
    folder = landed(a__json='{"id":1}\n')
    autoload(folder, "json")
    landed(b__json='{"id":2}\n')
    stream = tmp_path / "checkpoints" / "t" / "stream"
    (stream / "offsets" / "0").write_text("")
    with pytest.raises(DamagedCheckpoint, match=f"remove {stream} and load again"):
        autoload(folder, "json")
    shutil.rmtree(stream)
    assert sorted(row["id"] for row in rows(autoload(folder, "json"))) == ["1", "2"]


def test_a_table_that_went_is_refused_and_loaded_anew_once_what_is_remembered_goes_too(
    landed, autoload, rows, refused
):
    folder = landed(a__json='{"id":1}\nbroken\n')
    first = autoload(folder, "json")
    shutil.rmtree(first.path)
    landed(b__json='{"id":2}\n')
    with pytest.raises(TableLost, match="put the table back") as said:
        autoload(folder, "json")
    for named in re.findall(r"(?:remove|and) (/\S+)", str(said.value)):
        shutil.rmtree(named)
    result = autoload(folder, "json")
    assert sorted(row["id"] for row in rows(result)) == ["1", "2"]
    assert [text for text, _ in refused(result)] == ["broken"]


def test_a_table_has_its_name_in_the_session_that_just_loaded_it(landed, lake, spark, tmp_path):
    folder = landed(a__json='{"id":1}\n')
    autoload_to_table(folder, "json", "web.bronze.just_now", tmp_path / "checkpoint")
    assert spark.table("web.bronze.just_now").count() == 1
    create_table_as("web.bronze.copied", "SELECT id FROM web.bronze.just_now")
    with pytest.raises(SourceError, match="filled by runs or loads"):
        create_table_as("web.bronze.just_now", "SELECT 1 AS id", replace=True)
    assert spark.table("web.bronze.copied").count() == 1


def test_a_file_deleted_before_it_was_read_is_missing_and_taken_when_it_is_back(
    landed, autoload, monkeypatch
):
    folder = landed(a__json='{"id":1}\n', b__json='{"id":2}\n')
    from medallion_assets.sources import loaders as doors

    real = doors.load_files

    def after_a_deletion(spark, files, place, transaction, write):
        (folder / "a.json").unlink(missing_ok=True)
        return real(spark, files, place, transaction, write)

    monkeypatch.setattr(doors, "load_files", after_a_deletion)
    first = autoload(folder, "json")
    assert (first.rows_loaded, first.files_missing, first.rows_unaccounted) == (1, 1, 0)
    monkeypatch.setattr(doors, "load_files", real)
    landed(a__json='{"id":1}\n')
    assert autoload(folder, "json").rows_loaded == 1


def test_an_overwritten_file_is_reported_or_appended_as_asked(landed, autoload, rows):
    folder = landed(a__json='{"id":1}\n')
    autoload(folder, "json")
    autoload(folder, "json", "both", allow_overwrites="append")
    landed(a__json='{"id":1}\n{"id":2}\n')
    kept = autoload(folder, "json")
    assert (kept.rows_loaded, kept.files_refused) == (0, 1)
    assert autoload(folder, "json", "both", allow_overwrites="append").rows_loaded == 2


def test_an_empty_file_that_is_filled_later_loads(landed, autoload):
    folder = landed(a__json="")
    autoload(folder, "json")
    landed(a__json='{"id":1}\n')
    assert autoload(folder, "json").rows_loaded == 1


def test_late_and_future_files_load_like_any_other(landed, autoload):
    folder = landed(a__json='{"id":1}\n')
    autoload(folder, "json")
    landed(old__json='{"id":2}\n', future__json='{"id":3}\n')
    os.utime(folder / "old.json", (1, 1))
    os.utime(folder / "future.json", (4_000_000_000, 4_000_000_000))
    assert autoload(folder, "json").rows_loaded == 2


def test_the_keys_of_folders_become_columns(landed, autoload, rows):
    folder = landed(
        **{"day=2024-01-01/a.json": '{"id":1}', "day=x%20y/b.json": '{"id":2}', "c.json": '{"id":3}'}
    )
    assert {row["id"]: row["day"] for row in rows(autoload(folder, "json"))} == {
        "1": "2024-01-01",
        "2": "x y",
        "3": None,
    }


def test_a_glob_a_window_and_existing_files_choose_what_is_taken(landed, autoload):
    folder = landed(**{"x1/a.json": '{"id":1}', "y1/a.json": '{"id":2}', "x2/deep/a.json": '{"id":3}'})
    assert autoload(folder / "x*", "json", "glob").rows_loaded == 2
    assert autoload(folder, "json", "later", include_existing_files=False).rows_loaded == 0
    os.utime(folder / "x1" / "a.json", (1, 1))
    assert autoload(folder, "json", "window", modified_before="1990-01-01").rows_loaded == 1


def test_files_and_bytes_of_a_batch_are_limited_together(landed, autoload):
    folder = landed(**{f"{i}.json": '{"id":1}' for i in range(5)})
    result = autoload(folder, "json", max_files_per_trigger=2)
    assert len({row["batch_id"] for row in outcomes.rows(result.ledger)}) == 3


def test_a_second_landing_place_is_refused_where_its_files_could_be_taken_for_those_of_the_first(
    landed, lake, spark, tmp_path
):
    name = "2026-11-01.json"
    folders = [landed(**{f"{place}/{name}": f'{{"id":{n}}}'}) / place for n, place in enumerate("eua")]
    eu, us, asia = folders
    table, options = "web.bronze.t", {"spark": spark, "allow_overwrites": "replace"}

    def loaded(folder, checkpoint):
        return autoload_to_table(folder, "json", table, tmp_path / checkpoint, **options).rows_loaded

    def copied(folder, **told):
        return copy_into(table, folder, "json", merge_schema=True, **options, **told).num_inserted_rows

    def ids():
        frame = spark.read.format("delta").load(str(lake.root / "web/bronze/t"))
        return sorted((row["id"], row["_source_file"]) for row in frame.collect())

    assert loaded(eu, "cp/eu") == 1
    for load in (
        lambda: loaded(us, "cp/us"),
        lambda: loaded(us, "cp/eu"),
        lambda: loaded(us.parent, "cp/all"),
        lambda: copied(asia),
        lambda: copied(asia, validate="ALL"),
    ):
        with pytest.raises(SourceError, match=f"is filled from {eu}, and this call reads .* a table of its"):
            load()
    assert not (tmp_path / "cp/us").exists()
    assert (loaded(eu, "cp/lost"), copied(eu), copied(asia)) == (0, 0, 1)
    (eu / name).write_text('{"id":10}\n')
    assert loaded(eu, "cp/eu") == 1
    assert ids() == [("10", name), ("2", f"../a/{name}")]
    shutil.rmtree(lake.root / "web/_state/bronze/t/copy_into")
    with pytest.raises(SourceError, match=f"COPY INTO names .* call it for {eu} first"):
        copied(asia)
    assert (copied(eu), copied(asia), len(ids())) == (0, 0, 2)


def test_a_place_that_gave_only_quarantined_records_has_its_table_too(landed, autoload, refused, tmp_path):
    eu, us = (landed(**{f"{place}/a.json": "broken " + place}) / place for place in ("eu", "us"))
    first = autoload(eu, "json", allow_overwrites="replace")
    assert [text for text, _ in refused(first)] == ["broken eu"]
    shutil.rmtree(tmp_path / "checkpoints")
    for _ in range(2):
        with pytest.raises(SourceError, match="is filled from"):
            autoload(us, "json", allow_overwrites="replace")
        shutil.rmtree(eu, ignore_errors=True)
    assert [text for text, _ in refused(first)] == ["broken eu"]


def test_the_three_loaders_called_again_and_after_one_file_more_read_what_the_page_says(
    lake, spark, tmp_path
):
    assert [row[:-1] for row in compare(tmp_path, spark, 3, 10)] == figures(3, 10)
    page = Path("docs/doors.md").read_text().partition(f"| {' | '.join(HEAD)} |\n")[2].partition("\n\n")[0]
    cells = [line.strip("| ").split(" | ")[:-1] for line in page.splitlines()[1:]]
    assert cells == [[f"{v:,}" if isinstance(v, int) else v for v in row] for row in figures(20, 1000)]


def figures(files, rows):
    """What each loader reads, writes and holds back of files whose last record is one cell short."""
    good, whole = files * (rows - 1), files * rows
    only_new = [("first", files, good, files, good), ("again", 0, 0, 0, good),
                ("one file more", 1, rows - 1, 1, good + rows - 1)]  # fmt: skip
    everything = [("first", files, whole, 0, whole), ("again", files, whole, 0, whole),
                  ("one file more", files + 1, whole + rows, 0, whole + rows)]  # fmt: skip
    loaders = {"Auto Loader": only_new, "COPY INTO": only_new, "CTAS": everything}
    return [(loader, *call) for loader, calls in loaders.items() for call in calls]


def test_two_tables_never_share_a_quarantine(landed, autoload, refused, lake, spark):
    web = Pipeline("web")
    orders = orders_of(web, path=str(landed(**{"o/a.json": '{"id": 1, "total": 2}'}) / "o"))

    @web.silver(expectations=[expect("large", "id > 5")])
    def t(orders=stream(orders)):
        """Large orders."""
        return orders.select("id")

    first = autoload(landed(**{"n/a.json": "broken"}) / "n", "json")
    refresh(orders, lake, lambda: spark)
    with pytest.raises(CheckpointMismatch, match=r"holds records of web/bronze/t, .* another name"):
        refresh(t, lake, lambda: spark)
    assert [text for text, _ in refused(first)] == ["broken"]
    shutil.rmtree(first.quarantine)
    assert refresh(t, lake, lambda: spark).total("quarantined") == 1
    with pytest.raises(SourceError, match=r"holds records of web/silver/t, .* another name"):
        autoload(landed(**{"n/b.json": "broken too"}) / "n", "json")
    former = lake.quarantine(t)
    assert former.name == "t"
    assert lake.quarantine(orders_of(web, name="t")).name == "t"
    assert lake.quarantine(t).name == "silver_t"
    with pytest.raises(CheckpointMismatch, match=r"its quarantined rows are in .*/t, and .*/silver_t now"):
        refresh(t, lake, lambda: spark)
    former.rename(lake.quarantine(t))
    assert refresh(t, lake, lambda: spark).skipped
    assert balance(t, lake).holds
