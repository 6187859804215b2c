"""COPY INTO takes the files its clauses name, these alone, and says so where there are none."""

import os
import time

import pytest
from deltalake import DeltaTable

from medallion_assets.sources import copy_into
from medallion_assets.sources.errors import BatchRefused, NewColumns, SourceError
from medallion_assets_tests.corners.test_messages_files import parquet_of


@pytest.fixture
def count(lake):
    """Return a function that counts a table's rows."""

    def rows(table):
        return DeltaTable(str(lake.root / "web" / "bronze" / table)).to_pyarrow_dataset().count_rows()

    return rows


@pytest.mark.spark
def test_a_failed_batch_is_not_taken_or_met_by_a_call_that_names_other_files(landed, lake, spark, count):
    folder = landed(a__csv="id\n1\n")
    copy_into("web.bronze.c", folder, "csv", spark=spark)
    landed(bad__csv="id,new\n2,x\n3,y\n", good__csv="id\n4\n", late__csv="id\n5\n")
    for clauses in ({"files": ["bad.csv"]}, {"pattern": "b*"}):
        with pytest.raises(NewColumns):
            copy_into("web.bronze.c", folder, "csv", **clauses, spark=spark)
    judged = copy_into(
        "web.bronze.c", folder, "csv", pattern="b*", merge_schema=True, validate="ALL", spark=spark
    )
    assert (judged.validation.files, judged.validation.good) == (1, 2)
    named = copy_into("web.bronze.c", folder, "csv", files=["good.csv"], spark=spark)
    assert (named.num_inserted_rows, named.load.rows_unaccounted) == (1, 0)
    matched = copy_into("web.bronze.c", folder, "csv", pattern="late*", spark=spark)
    assert (matched.num_inserted_rows, count("c")) == (1, 3)
    whole = copy_into("web.bronze.c", folder, "csv", merge_schema=True, spark=spark)
    assert (whole.num_inserted_rows, count("c")) == (2, 5)
    again = copy_into("web.bronze.c", folder, "csv", merge_schema=True, spark=spark)
    assert again.num_inserted_rows == 0
    assert again.message == f"every file below {folder} that is meant for loading was loaded before"


@pytest.mark.spark
def test_a_failed_batch_of_one_folder_does_not_hinder_the_load_of_another(landed, lake, spark, count):
    landed(**{"one/a__csv": "id\n1\n", "two/a__csv": "id,new\n2,x\n", "three/a__csv": "id\n3\n"})
    root = landed()
    copy_into("web.bronze.c", root / "one", "csv", spark=spark)
    with pytest.raises(NewColumns):
        copy_into("web.bronze.c", root / "two", "csv", spark=spark)
    three = copy_into("web.bronze.c", root / "three", "csv", files=["a.csv"], spark=spark)
    assert three.num_inserted_rows == 1
    done = copy_into("web.bronze.c", root / "two", "csv", merge_schema=True, spark=spark)
    assert (done.num_inserted_rows, count("c")) == (1, 3)


@pytest.mark.spark
def test_a_new_select_column_joins_with_merge_schema_only(landed, lake, spark, count):
    folder = landed(a__csv="id\n1\n")
    copy_into("web.bronze.c", folder, "csv", select=["id"], spark=spark)
    landed(b__csv="id\n2\n")
    select = ["id", "CAST(id AS INT) AS number"]
    for validate in ("ALL", 0):
        with pytest.raises(NewColumns, match="new columns number int"):
            copy_into("web.bronze.c", folder, "csv", select=select, validate=validate, spark=spark)
    assert count("c") == 1
    assert (
        copy_into(
            "web.bronze.c", folder, "csv", select=select, merge_schema=True, spark=spark
        ).load.rows_loaded
        == 1
    )
    fields = {field.name for field in DeltaTable(str(lake.root / "web/bronze/c")).schema().fields}
    assert {"id", "number"} <= fields


@pytest.mark.spark
def test_an_expression_that_cannot_be_resolved_stops_the_load_by_its_name_and_a_corrected_call_goes_on(
    landed, lake, spark, count
):
    folder = landed(a__csv="id\n1\n")
    with pytest.raises(
        SourceError, match=r"select column 'n', nosuch \+ 1 AS n, cannot be resolved"
    ) as error:
        copy_into("web.bronze.c", folder, "csv", select=["id", "nosuch + 1 AS n"], spark=spark)
    assert "\n" not in str(error.value)
    copy_into("web.bronze.c", folder, "csv", select=["id", "id + 1 AS n"], spark=spark)
    assert count("c") == 1


@pytest.mark.spark
@pytest.mark.parametrize("way", [{"schema_hints": "v STRING", "merge_schema": True}, {"files": ["new.json"]}])
def test_a_pending_file_that_lacks_a_named_column_is_told_with_ways_that_load_all(
    landed, lake, spark, count, way
):
    def load(*select, **options):
        return copy_into("web.bronze.c", folder, "json", select=select, spark=spark, **options)

    folder = landed(a__json='{"id":1}\n')
    load("id")
    landed(old__json='{"id":2}\n')
    with pytest.raises(NewColumns, match=r"new columns n int in old\.json"):
        load("id", "CAST(id AS INT) AS n")
    landed(new__json='{"id":3,"v":"x"}\n')
    with pytest.raises(SourceError, match=r"The files of this batch, old\.json, have the columns") as error:
        load("id", "v", merge_schema=True)
    assert all(way in str(error.value) for way in ("take the column out", "FILES", "schema_hints"))
    assert "_reason" not in str(error.value)
    load("id", "v", **{"merge_schema": True, **way})
    load("id")
    assert count("c") == 3


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_what_a_failed_call_declared_is_not_asked_of_the_calls_after_it(landed, lake, spark, count, kind):
    texts = {"json": '{"id":1,"v":1}\n', "csv": "id,v\n1,1\n", "parquet": parquet_of(id=1, v=1)}
    folder = landed(**{f"a__{kind}": texts[kind]})
    copy_into("web.bronze.c", folder, kind, spark=spark)
    landed(**{f"b__{kind}": texts[kind]})
    with pytest.raises(BatchRefused):
        copy_into("web.bronze.c", folder, kind, schema="id DATE, v STRING, w INT", spark=spark)
    assert copy_into("web.bronze.c", folder, kind, spark=spark).num_inserted_rows == 1
    landed(**{f"c__{kind}": texts[kind]})
    assert copy_into("web.bronze.c", folder, kind, select=["id", "v"], spark=spark).num_inserted_rows == 1
    assert count("c") == 3


def test_a_clause_that_matches_nothing_is_an_error_or_told(landed, lake, monkeypatch):
    folder = landed(a__csv="id\n1\n", _b__csv="id\n1\n")
    for name, words in (("c.csv", "no such file below"), ("_b.csv", "hidden: its name starts with _")):
        with pytest.raises(SourceError, match=words):
            copy_into("web.bronze.c", folder, "csv", files=["a.csv", name])
    with pytest.raises(SourceError, match="FILES names files below a folder"):
        copy_into("web.bronze.c", folder / "a.csv", "csv", files=["a.csv"])
    nothing = copy_into("web.bronze.c", folder, "csv", pattern="*.json")
    assert nothing.message == f"no file below {folder} matches PATTERN '*.json'"
    assert (
        copy_into("web.bronze.c", folder, "csv", pattern="*.json", validate="ALL").message == nothing.message
    )
    monkeypatch.setenv("MEDALLION_SETTLE_SECONDS", "60")
    os.utime(folder / "a.csv", (time.time(), time.time()))
    assert "wait for a later call" in copy_into("web.bronze.c", folder, "csv").message
