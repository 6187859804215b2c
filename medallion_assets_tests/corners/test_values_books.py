"""Conservation of values: what a file holds in each field against what a commit took, without Spark."""

import csv
import io
import json
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from medallion_assets.declare import Pipeline, stream
from medallion_assets.runs.run import run_tables
from medallion_assets.sources.counting import contents
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats import csv_blocks
from medallion_assets.sources.formats.csv_blocks import Block
from medallion_assets.sources.formats.csv_rows import csv_cells
from medallion_assets.sources.formats.json_blocks import TypedReader
from medallion_assets.sources.ledger import ADMITTED, Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.refused_values import refused_values
from medallion_assets.sources.value_books import CommittedValues, FileColumns, QueryColumns, books_of
from medallion_assets.sources.value_counts import count_values
from medallion_assets_tests.examples import examples

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
KEYS = st.sampled_from(["a", "b", "A", "naïve key", "x.y", 'with "quote"', "`"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = SCALARS | st.text(max_size=6) | st.just({"a": None}) | st.just([None, 1])
CELLS = st.text(alphabet='ab ",\n1é', max_size=5)


def entry(path, source):
    inside = contents(path, source)
    facts = (inside.tag, inside.records, inside.layout, inside.header, ADMITTED, "")
    return Entry(str(path), path.stat().st_size, NOW, *facts, NOW)


def counted(path, source):
    return count_values(entry(path, source), source)


@given(records=st.lists(st.dictionaries(KEYS, VALUES, max_size=4), max_size=12), broken=st.booleans())
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_members_are_counted_as_python_reads_them(tmp_path, records, broken):
    lines = [json.dumps(record) for record in records] + (['{"a": 1, "b"', "[1, 2]", "7"] if broken else [])
    path = tmp_path / "a.json"
    path.write_text("".join(f"{line}\n" for line in lines))
    found = counted(path, Source("s", "json"))
    naive = Counter(key for record in records for key, value in record.items() if value is not None)
    assert +found.values == naive


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=12))
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_csv_cells_are_counted_as_pythons_reader_cuts_them(tmp_path, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("id", "name", "last"), *rows])
    path = tmp_path / "a.csv"
    path.write_text(text.getvalue())
    found = counted(path, Source("s", "csv"))
    # csv.writer quotes no empty cell, and so none of them is a value.
    naive = Counter(
        name for row in rows for name, cell in zip(("id", "name", "last"), row, strict=True) if cell
    )
    assert +found.values == naive


def test_cells_of_a_sound_csv_file_are_counted_without_those_the_load_is_cut_into(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text('id,"first\nname",last\n1,"a ""b""\nc",\n\n2,,"x,y"\n')
    cells = Block.cells
    monkeypatch.setattr(Block, "cells", lambda *_: pytest.fail("these are the load's own"))
    assert +counted(path, Source("s", "csv")).values == {"id": 2, "first\nname": 1, "last": 1}
    # Of a file with an odd record the careful reader says what its records are.
    monkeypatch.setattr(Block, "cells", cells)
    path.write_text('id,name\n1,a"b\n2,"x"y\n')
    assert +counted(path, Source("s", "csv")).values == {"id": 1, "name": 1}


@given(
    lines=st.lists(st.text(alphabet='ab ",;\n\r1é\t', max_size=12), min_size=1, max_size=6),
    sep=st.sampled_from([",", ";", "\t"]),
    header=st.sampled_from(["true", "false"]),
)
@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_csv_file_has_the_cells_that_the_load_is_cut_into(tmp_path, lines, sep, header):
    path, source = tmp_path / "a.csv", Source("s", "csv", reader_options={"sep": sep, "header": header})
    path.write_bytes("\n".join([f"id{sep}name", *lines]).encode())
    try:
        file = entry(path, source)
    except UnreadableFile:
        return
    cut: Counter[str] = Counter()
    for _, cells in csv_cells(file, source):
        cut.update({name: len(column) - column.null_count for name, column in cells.items()})
    assert +count_values(file, source).values == +cut


def test_quoted_empty_cells_and_null_texts_are_told_from_values(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,name\n1,""\n2,\n3,NA\n')
    found = counted(path, Source("s", "csv", reader_options={"nullValue": "NA"}))
    assert found.of_column("name", is_text=True) == 1
    assert found.of_column("name", is_text=False) == 0
    assert found.of_column("id", is_text=False) == 3


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columnar_files_are_counted_by_what_they_say_themselves(tmp_path, kind):
    table = pa.table({"id": [1, 2, None], "t": ["x", None, None], "n": [{"a": 1}, None, {"a": None}]})
    path = tmp_path / f"a.{kind}"
    pa.parquet.write_table(table, path) if kind == "parquet" else pa.orc.write_table(table, path)
    found = counted(path, Source("s", kind))
    assert (found.values["id"], found.values["t"]) == (2, 1)
    assert kind == "orc" or "n" not in found.values


def test_a_part_of_a_struct_is_not_counted_for_a_column_of_its_path(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [{"b": 1}, {"b": 2}], "a.b": [2, None]}), path)
    found = counted(path, Source("s", "parquet"))
    assert +found.values == {"a.b": 1}
    assert found.uncounted == {"a"}


def test_a_kind_of_file_that_says_nothing_is_named_with_the_reason(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")
    assert "one value" in counted(path, Source("s", "binaryFile")).reason


ROWS = [{"id": 1, "name": "Ann", "extra": 5}, {"id": 2, "name": None}, {"id": "x", "name": "Lee"}]


def in_quarantine(path, row, kind):
    entry = {"row": row, "source_file": str(path), "reason_class": kind, "rules": ["why"], "raw_base64": None}
    return pa.Table.from_pylist([entry])


@pytest.fixture
def landed(tmp_path):
    """A file of three records, and what an engine that loses nothing would have committed for it."""
    path = tmp_path / "a.json"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS) + '{"id": 9, "name": 1}\n')
    good = pa.table(
        {
            "id": pa.array([1, 2, None], pa.int64()),
            "name": ["Ann", None, "Lee"],
            "_source_file": [str(path)] * 3,
            "_rescued_data": [
                f'{{"extra":5,"_file_path":"{path}"}}',
                None,
                f'{{"id":"x","_file_path":"{path}"}}',
            ],
        }
    )
    return path, good, in_quarantine(path, '{"id": 9, "name": 1}', "schema")


def balanced(path, good, refused, query=None, dropped=0):
    source = Source("s", "json")
    folder = Path(path).parent
    pq.write_table(good, folder / "good.parquet")
    pq.write_table(refused, folder / "refused.parquet")
    there = CommittedValues({"id": False, "name": True, "_source_file": True, "_rescued_data": True})
    names = {name: name for name in good.column_names}
    there.add_rows([folder / "good.parquet"], names, FileColumns("_source_file", "_rescued_data"))
    file = entry(path, source)
    values = refused_values([file], source, there.columns)
    there.add_refused([folder / "refused.parquet"], "_rescued_data", values)
    query = query or QueryColumns(frozenset({"id", "name"}), None, "_rescued_data")
    return books_of(file, count_values(file, source), there, query, dropped)


def test_values_committed_rescued_and_quarantined_balance(landed):
    books = balanced(*landed)
    assert (books.unaccounted, books.uncounted, books.unkept) == ({}, {}, {})
    assert books.read == 8


def test_a_value_that_became_null_or_came_from_nowhere_is_named(landed):
    path, good, refused = landed
    lost = good.set_column(1, "name", pa.array([None, None, "Lee"]))
    assert balanced(path, lost, refused).unaccounted == {"name": 1}
    made = good.set_column(1, "name", pa.array(["Ann", "?", "Lee"]))
    assert balanced(path, made, refused).unaccounted == {"name": -1}
    unrescued = good.set_column(3, "_rescued_data", pa.array([None, None, None], pa.string()))
    assert balanced(path, unrescued, refused).unaccounted == {"extra": 1, "id": 1}


def test_two_files_in_one_data_file_have_books_of_their_own(landed, tmp_path):
    path, good, refused = landed
    other = good.set_column(2, "_source_file", pa.array(["other"] * 3))
    lost = other.set_column(1, "name", pa.array([None] * 3, pa.string()))
    assert balanced(path, pa.concat_tables([lost, good]), refused).unaccounted == {}


def test_what_the_query_computes_or_a_rule_drops_is_said_and_not_called_a_loss(landed):
    path, good, refused = landed
    computed = good.set_column(0, "id", pa.array([None, None, None], pa.int64()))
    query = QueryColumns(frozenset({"id", "name"}), frozenset({"name", "_rescued_data"}), "_rescued_data")
    assert list(balanced(path, computed, refused, query).uncounted) == ["id"]
    assert balanced(path, good.slice(1), refused, dropped=1).unaccounted == {}
    assert balanced(path, good.slice(2), refused, dropped=1).unaccounted == {"id": 2}


def test_columns_of_a_row_in_quarantine_that_are_not_of_its_record_count_for_no_field_of_their_name(landed):
    path, good, _ = landed
    own = {"id": 9, "name": "1", "extra": 7, "_source_file": str(path), "_batch_id": 0}
    path.write_text(path.read_text().replace('"name": 1}', '"name": 1, "_source_file": 3, "extra": 3}'))
    left = '{"_source_file": 3, "extra": 3, "_file_path": "a.json"}'
    refused = in_quarantine(path, json.dumps({**own, "_rescued_data": left}), "rule")
    assert balanced(path, good, refused).unaccounted == {}


def test_a_field_that_the_declaration_keeps_nowhere_is_counted_by_name(landed):
    path, good, refused = landed
    query = QueryColumns(frozenset({"id", "name"}), None, "")
    plain = good.set_column(0, "id", pa.array([1, 2, 3], pa.int64())).drop_columns(["_rescued_data"])
    assert balanced(path, plain, refused, query).unkept == {"extra": 1}


def lossy_json(self, block, rows_of=TypedReader.rows_of):
    rows = rows_of(self, block)
    return rows.set_column(1, "total", pa.nulls(len(rows), rows["total"].type))


def lossy_csv(text, width, dialect, parsed=csv_blocks._parsed):
    first, _, *others = parsed(text, width, dialect)
    return [first, pa.nulls(len(first), pa.string()), *others]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_value_that_a_reader_loses_fails_the_check_and_stops_the_tables_downstream(
    kind, lakehouse, monkeypatch
):
    shop = Pipeline("shop")

    @shop.bronze()
    def clicks(files=shop.landing("clicks", format=kind, schema="id INT, total INT, more ARRAY<INT>")):  # noqa: B008
        """One row per click."""
        return files

    @shop.silver()
    def clean(clicks=stream(clicks)):
        """One row per click."""
        return clicks.select("id", "total")

    files = {"json": '{"id": %d, "total": 5, "more": [1]}\n', "csv": 'id,total,more\n%d,5,"[1]"\n'}
    lakehouse.land("shop/clicks", f"1.{kind}", files[kind] % 1)
    well, _ = run_tables([clicks, clean], lakehouse.lake, lakehouse._spark)
    (check,) = [verdict for verdict in well.verdicts if verdict.name == "values_conserved"]
    assert check.passed
    assert "not counted: more (nested" in check.words
    monkeypatch.setattr(TypedReader, "rows_of", lossy_json)
    monkeypatch.setattr(csv_blocks, "_parsed", lossy_csv)
    lakehouse.land("shop/clicks", f"2.{kind}", files[kind] % 2)
    ill, after = run_tables([clicks, clean], lakehouse.lake, lakehouse._spark)
    (check,) = [verdict for verdict in ill.verdicts if not verdict.passed]
    assert (check.name, check.blocking, f"2.{kind}: total -1 values" in check.words) == (
        "values_conserved", True, True
    ), check  # fmt: skip
    assert after.error.startswith("not run")


@pytest.mark.spark
def test_a_column_of_variants_loads_again_and_again_and_says_that_it_is_not_counted(lakehouse):
    shop = Pipeline("shop")

    @shop.bronze()
    def clicks(files=shop.landing("clicks", format="json", schema="id INT, v VARIANT")):  # noqa: B008
        """One row per click."""
        return files

    for number in (1, 2):
        lakehouse.land("shop/clicks", f"{number}.json", f'{{"id": {number}, "v": {{"a": [1.10]}}}}\n')
        (done,) = run_tables([clicks], lakehouse.lake, lakehouse._spark)
        assert not done.error
        (check,) = [verdict for verdict in done.verdicts if verdict.name == "values_conserved"]
        assert (check.passed, "not counted: v (" in check.words) == (True, True), check
