"""Landing files go only when every table that reads them has them, and the ledger says where to."""

import json
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from medallion_assets.declare import Pipeline
from medallion_assets.reports import files_of
from medallion_assets.runs.run import refresh
from medallion_assets.sources import Source, cleaning
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources.cleaning import Reader
from medallion_assets.sources.errors import SourceError
from medallion_assets.storage import local


@pytest.mark.spark
def test_files_are_moved_after_every_reader_has_them_and_never_read_again(drop, lake, spark, tmp_path):
    shop = Pipeline("shop")
    kept = {"clean_source": "MOVE", "clean_source_move_destination": str(tmp_path / "old")}
    moving = shop.landing("orders", format="json", clean_source_retention_days=0, **kept)
    staying = shop.landing("orders", format="json")

    @shop.bronze()
    def first(files=moving):
        """One row per order."""
        return files

    @shop.bronze()
    def second(files=staying):
        """One row per order."""
        return files

    file = drop("shop/orders", "a.json", json.dumps({"id": 1}))
    refresh(first, lake, lambda: spark)
    assert file.exists()
    refresh(second, lake, lambda: spark)
    refresh(first, lake, lambda: spark)
    assert not file.exists()
    assert (tmp_path / "old" / "a.json").exists()
    (row,) = files_of(first, lake)
    assert (row["archive_mode"], row["move_location"]) == ("MOVE", str(tmp_path / "old" / "a.json"))
    assert refresh(first, lake, lambda: spark).skipped == "nothing new"


@pytest.mark.spark
def test_a_file_within_its_retention_or_changed_since_stays(landed, autoload, tmp_path):
    options = {"clean_source": "MOVE", "clean_source_move_destination": str(tmp_path / "old")}
    folder = landed(a__json='{"id":1}')
    autoload(folder, "json", clean_source_retention_days=1, **options)
    assert (folder / "a.json").exists()
    landed(a__json='{"id":1}\n{"id":2}')
    result = autoload(folder, "json", clean_source_retention_days=0, **options)
    assert (folder / "a.json").exists()
    assert not any(row["archive_time"] for row in outcomes.rows(result.ledger))


class Later(datetime):
    """A clock nine days ahead."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(days=9)


@pytest.mark.spark
def test_a_file_is_deleted_once_it_is_loaded_and_its_retention_is_over(landed, autoload, rows, monkeypatch):
    options = {"clean_source": "DELETE", "clean_source_retention_days": 8}
    folder = landed(a__json='{"id":1}')
    autoload(folder, "json", **options)
    assert (folder / "a.json").exists()
    monkeypatch.setattr(cleaning, "datetime", Later)
    result = autoload(folder, "json", **options)
    assert not (folder / "a.json").exists()
    assert [row["archive_mode"] for row in outcomes.rows(result.ledger) if row["archive_time"]] == ["DELETE"]
    assert rows(result, "id") == [{"id": "1"}]


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["DELETE", "MOVE"])
def test_a_file_that_is_overwritten_while_its_other_readers_are_asked_stays(
    landed, autoload, rows, tmp_path, monkeypatch, mode
):
    folder = landed(a__json='{"id":1}', b__json='{"id":2}')
    autoload(folder, "json", "other")
    asks = Reader.has_taken

    def overwritten(self, paths):
        taken = asks(self, paths)
        landed(a__json='{"id":1}\n{"id":3}')
        return taken

    cleaned = {"clean_source": mode, "clean_source_retention_days": 8, "allow_overwrites": "append"}
    cleaned |= {"clean_source_move_destination": str(tmp_path / "old")} if mode == "MOVE" else {}
    monkeypatch.setattr(cleaning, "datetime", Later)
    monkeypatch.setattr(Reader, "has_taken", overwritten)
    autoload(folder, "json", **cleaned)
    monkeypatch.setattr(Reader, "has_taken", asks)
    assert [file.name for file in sorted(folder.iterdir())] == ["a.json"]
    done = autoload(folder, "json", **cleaned)
    assert sorted(row["id"] for row in rows(done, "id")) == ["1", "1", "2", "3"]


def write_over(file):
    """Write a file as a program does that never shows a part of it."""
    draft = file.with_name(".draft")
    draft.write_text('{"id":1}\n{"id":3}')
    draft.replace(file)


def write_in_place(file):
    file.write_text('{"id":1}\n{"id":3}')


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["DELETE", "MOVE"])
def test_a_file_that_is_written_right_as_it_is_cleaned_stays_and_one_that_a_dead_cleaning_left_comes_back(
    landed, autoload, rows, tmp_path, monkeypatch, mode
):
    folder = landed(**{f"{name}__json": json.dumps({"id": n}) for n, name in enumerate("abcd", 1)})
    cleaned = {"clean_source": mode, "clean_source_retention_days": 8, "allow_overwrites": "append"}
    cleaned |= {"clean_source_move_destination": str(tmp_path / "old")} if mode == "MOVE" else {}
    autoload(folder, "json", **cleaned)
    aside, rename, writers = local.aside_of(str(folder / "d.json")), Path.rename, []
    (folder / "d.json").rename(aside)

    def raced(path, target):
        if path.name == "a.json":
            write_over(path)
        if path.name == "b.json":
            write_in_place(path)
        if path.name == "c.json":
            # Its size and time are those of the file that was read, and there is more to come.
            writers.append(path.open("a"))
        return rename(path, target)

    monkeypatch.setattr(cleaning, "datetime", Later)
    monkeypatch.setattr(Path, "rename", raced)
    done = autoload(folder, "json", **cleaned)
    monkeypatch.setattr(Path, "rename", rename)
    archived = [row["path"] for row in outcomes.rows(done.ledger) if row["archive_time"]]
    assert [Path(path).name for path in archived] == ["d.json"]
    assert sorted(file.name for file in folder.iterdir()) == ["a.json", "b.json", "c.json"]
    with writers.pop() as writer:
        writer.write('\n{"id":4}')
    done = autoload(folder, "json", **cleaned)
    assert Counter(row["id"] for row in rows(done, "id")) == {"1": 3, "2": 1, "3": 4, "4": 2}


def test_a_reader_of_another_place_is_not_asked_for_files(tmp_path, monkeypatch):
    def listed(*asked):
        raise AssertionError(f"{asked} was listed")

    monkeypatch.setattr(cleaning, "entries", listed)
    for place in ("s3://bucket/orders", tmp_path / "other", tmp_path / "other/*/x[1].json"):
        reader = Reader(tmp_path / "ledger", place, "*", True)
        assert reader.has_taken({f"{tmp_path}/orders/a.json"}) == {f"{tmp_path}/orders/a.json"}
    with pytest.raises(AssertionError, match="was listed"):
        Reader(tmp_path / "ledger", tmp_path / "o*/a.json", "*", True).has_taken(
            {f"{tmp_path}/orders/a.json"}
        )


@pytest.mark.parametrize(
    "options",
    [
        {"clean_source": "BURN"},
        {"clean_source": "MOVE"},
        {"clean_source": "DELETE", "clean_source_retention_days": 7},
        {"clean_source_move_destination": "x"},
    ],
)
def test_cleaning_that_cannot_be_meant_is_refused(options):
    with pytest.raises(SourceError, match="things"):
        Source("things", "json", **options)
