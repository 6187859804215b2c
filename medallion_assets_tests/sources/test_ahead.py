"""Lines looked at before their micro-batch came, and a ledger's stream that begins with its first commit."""

import shutil

import pytest
from deltalake import DeltaTable

from medallion_assets.sources import loaders as doors
from medallion_assets.sources.formats import text_files
from medallion_assets_tests.shop import json_lines
from medallion_assets_tests.sources.conftest import rescued

pytestmark = pytest.mark.spark
KNOWN = {"schema": "id INT, at STRING", "schema_evolution_mode": "rescue"}
ODD = '{"id":3,"new":true}\nbroken\n'


@pytest.fixture
def made_in_the_batch(monkeypatch):
    """Return the files, by name, whose lines were looked at once their micro-batch was there."""
    names, real = [], text_files.parse_text_files

    def parse_text_files(files, schema, *more):
        names.extend(file.path.rpartition("/")[2] for file in files)
        return real(files, schema, *more)

    monkeypatch.setattr(text_files, "parse_text_files", parse_text_files)
    return names


def test_lines_of_a_known_schema_were_looked_at_when_their_batch_comes(
    landed, autoload, rows, refused, made_in_the_batch, tmp_path
):
    folder = landed(a__json=json_lines({"id": 1}) + ODD)
    result = autoload(folder, "json", **KNOWN)
    assert sorted((row["id"], len(rescued(row))) for row in rows(result)) == [(1, 0), (3, 1)]
    assert [text for text, _ in refused(result)] == ["broken"]
    assert not made_in_the_batch
    assert not list(tmp_path.rglob("ahead"))


def test_lines_in_folders_are_looked_at_without_the_folders_columns(
    landed, autoload, rows, made_in_the_batch
):
    folder = landed(**{"day=1/a__json": json_lines({"id": 1}), "day=2/b__json": json_lines({"id": 2})})
    result = autoload(folder, "json", **KNOWN)
    assert sorted((row["id"], row["day"]) for row in rows(result)) == [(1, "1"), (2, "2")]
    assert not made_in_the_batch


def test_a_batch_that_is_not_what_was_looked_at_is_looked_at_anew(
    landed, autoload, rows, made_in_the_batch, monkeypatch
):
    folder, real = landed(a__json=json_lines({"id": 1}), b__json=json_lines({"id": 2})), doors.load_files

    def after_a_deletion(*asked):
        (folder / "a.json").unlink(missing_ok=True)
        return real(*asked)

    monkeypatch.setattr(doors, "load_files", after_a_deletion)
    result = autoload(folder, "json", **KNOWN)
    assert [row["id"] for row in rows(result)] == [2]
    assert (result.files_missing, made_in_the_batch) == (1, ["b.json"])


def test_a_schema_that_files_may_change_waits_for_them(landed, autoload, rows, made_in_the_batch):
    folder = landed(a__json=json_lines({"id": 1}))
    autoload(folder, "json", schema_hints="id INT")
    landed(b__json=json_lines({"id": 2, "new": "x"}))
    result = autoload(folder, "json", schema_hints="id INT")
    assert {row["id"]: row["new"] for row in rows(result)} == {1: None, 2: "x"}
    assert made_in_the_batch == ["a.json", "b.json"]


def test_a_new_stream_begins_with_its_ledgers_first_commit(landed, autoload, tmp_path):
    landed(a__json=json_lines({"id": 1}))
    autoload(landed(), "json")
    offset = (tmp_path / "checkpoints/t/stream/offsets/0").read_text()
    assert '"isStartingVersion":false' in offset


@pytest.mark.parametrize("days", [None, 0])
def test_a_stream_over_a_ledger_that_was_put_together_loads_each_file_once(
    landed, autoload, rows, tmp_path, days
):
    for number in range(3):
        folder = landed(**{f"{number}__json": json_lines({"id": number})})
        autoload(folder, "json", **KNOWN)
    ledger = DeltaTable(str(tmp_path / "checkpoints/t/ledger"))
    ledger.optimize.compact()
    if days is not None:
        ledger.vacuum(days, enforce_retention_duration=False, dry_run=False)
    shutil.rmtree(tmp_path / "checkpoints/t/stream")
    landed(last__json=json_lines({"id": 3}))
    result = autoload(folder, "json", **KNOWN)
    assert sorted(row["id"] for row in rows(result)) == [0, 1, 2, 3]
    assert result.rows_unaccounted == 0
