"""COPY INTO and CTAS: idempotent, by their clauses, with their result columns."""

import os

import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException

from medallion_assets.sources import copy_into, create_table_as, sql
from medallion_assets.sources.errors import NewColumns, SourceError

FILES = {"day1__csv": "id,amount\n1,10\n2,x\n", "day2__csv": "id,amount\n3,30\n"}


def count(lake, table):
    return DeltaTable(str(lake.root / "web" / "bronze" / table)).to_pyarrow_dataset().count_rows()


@pytest.mark.spark
def test_a_repeated_call_appends_nothing_and_all_days_only_the_new_ones(landed, lake, spark):
    folder = landed(**{"day1/c__csv": FILES["day1__csv"].replace(",", "|")})

    def numbers(days):
        done = sql(
            f"COPY INTO web.bronze.c FROM '{folder}/{days}' FILEFORMAT = CSV "
            "FORMAT_OPTIONS ('header' = 'true', 'delimiter' = '|')",
            spark=spark,
        )
        return done.num_affected_rows, done.num_inserted_rows, done.num_skipped_corrupt_files

    assert [numbers("day1"), numbers("day1")] == [(2, 2, 0), (0, 0, 0)]
    os.utime(folder / "day1/c.csv", (1, 1))
    assert [numbers("day1"), numbers("*")] == [(0, 0, 0)] * 2, "touched, and by a pattern that is wider"
    landed(**{"day2/c__csv": FILES["day2__csv"].replace(",", "|"), "day3/c__csv": "id|amount\n4|a,b\n"})
    assert [numbers("*"), numbers("*"), numbers("day2")] == [(2, 2, 0), (0, 0, 0), (0, 0, 0)]
    rows = DeltaTable(str(lake.root / "web/bronze/c")).to_pyarrow_table(columns=["id", "amount"]).to_pylist()
    assert {row["id"]: row["amount"] for row in rows} == {"1": "10", "2": "x", "3": "30", "4": "a,b"}


@pytest.mark.spark
def test_files_and_pattern_choose_and_force_appends_again(landed, lake, spark):
    folder = landed(**FILES)
    assert copy_into("web.bronze.c", folder, "csv", files=["day2.csv"], spark=spark).num_inserted_rows == 1
    assert copy_into("web.bronze.c", folder, "csv", pattern="*2.csv", spark=spark).num_inserted_rows == 0
    again = copy_into("web.bronze.c", folder, "csv", pattern="*2.csv", force=True, spark=spark)
    assert (again.num_inserted_rows, count(lake, "c")) == (1, 2)


@pytest.mark.spark
def test_a_cast_that_fails_quarantines_its_record_and_not_the_load(landed, lake, spark, refused):
    done = copy_into(
        "web.bronze.c",
        landed(**FILES),
        "csv",
        select=["CAST(id AS INT) AS id", "amount::int AS amount"],
        spark=spark,
    )
    assert (done.num_inserted_rows, done.load.rows_quarantined, done.load.rows_unaccounted) == (2, 1, 0)
    assert refused(done.load) == [
        ('{"id":"2","amount":"x"}', "does not fit the schema: cannot evaluate amount::int AS amount")
    ]


@pytest.mark.spark
def test_new_columns_need_merge_schema(landed, lake, spark):
    folder = landed(day1__csv=FILES["day1__csv"])
    copy_into("web.bronze.c", folder, "csv", spark=spark)
    landed(day2__csv="id,amount,extra\n3,30,e\n")
    statement = f"COPY INTO web.bronze.c FROM '{folder}' FILEFORMAT = CSV"
    for words in ("", " FORMAT_OPTIONS ('mergeSchema' = 'true')", " COPY_OPTIONS ('mergeSchema' = 'false')"):
        with pytest.raises(NewColumns, match="extra"):
            sql(statement + words, spark=spark)
    with pytest.raises(NewColumns, match="extra"):
        copy_into("web.bronze.c", folder, "csv", spark=spark)
    done = sql(f"{statement} COPY_OPTIONS ('mergeSchema' = 'true')", spark=spark)
    assert done.num_inserted_rows == 1
    landed(day3__csv="id,more\n4,m\n")
    assert copy_into("web.bronze.c", folder, "csv", merge_schema=True, spark=spark).num_inserted_rows == 1
    rows = sql("SELECT id, extra, more FROM web.bronze.c ORDER BY id", spark=spark).collect()
    assert [tuple(row) for row in rows] == [
        (*"1", None, None),
        (*"2", None, None),
        (*"3e", None),
        ("4", None, "m"),
    ]
    history = sql("DESCRIBE HISTORY web.bronze.c", spark=spark).collect()
    assert [(row.version, row.operation) for row in history] == [(n, "WRITE") for n in (2, 1, 0)]


@pytest.mark.spark
def test_validate_judges_and_writes_nothing(landed, lake, spark):
    select = ["CAST(amount AS INT) AS amount"]
    found = copy_into(
        "web.bronze.c", landed(**FILES), "csv", validate="ALL", select=select, spark=spark
    ).validation
    assert (found.files, found.good, found.bad) == (2, 2, 1)
    assert found.reasons == {"does not fit the schema: cannot evaluate CAST(amount AS INT) AS amount": 1}
    assert {row["amount"] for row in found.preview} == {10, 30}
    assert not (lake.root / "web").exists()


@pytest.mark.spark
def test_create_table_as_makes_a_table_once(landed, lake, spark):
    copy_into("web.bronze.c", landed(**FILES), "csv", spark=spark)
    query = f"SELECT id FROM delta.`{lake.root / 'web/bronze/c'}`"
    assert create_table_as("web.bronze.copy", query, spark=spark) == 0
    with pytest.raises(SourceError, match="exists already"):
        create_table_as("web.bronze.copy", query, spark=spark)
    assert create_table_as("web.bronze.copy", query, replace=True, spark=spark) == 1
    assert count(lake, "copy") == 3


@pytest.mark.parametrize(
    ("clauses", "words"),
    [
        ({"files": ["a"], "pattern": "*"}, "FILES and PATTERN"),
        ({"force": True}, "doubling"),
        ({"files": ["../a.csv"]}, "below the source"),
        ({"files": ["a"] * 1001}, "at most 1000"),
        ({"colour": "red"}, "no option is called colour"),
    ],
)
def test_clauses_that_contradict_are_refused_before_anything_is_read(landed, lake, clauses, words):
    with pytest.raises(SourceError, match=words):
        copy_into("web.bronze.c", landed(**FILES), "csv", **clauses)


@pytest.mark.parametrize("name", ["a.b", "../x", "a.b.c;DROP", "a b", ""])
def test_a_table_name_that_could_climb_out_is_refused(landed, lake, name):
    with pytest.raises(SourceError, match="names no table"):
        copy_into(name, landed(**FILES), "csv")


@pytest.mark.spark
def test_a_name_is_of_the_lake_that_is_set_and_not_of_one_before(landed, lake, spark, tmp_path, monkeypatch):
    copy_into("web.bronze.named", landed(day1__csv="id\n1\n"), "csv", spark=spark)
    copy_into("web.bronze.mine", landed(day1__csv="id\n1\n"), "csv", spark=spark)
    assert sql("SELECT id FROM web.bronze.named", spark=spark).collect() == [("1",)]
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "other"))
    copy_into("web.bronze.named", landed(day1__csv="other\n2\n"), "csv", spark=spark)
    assert sql("SELECT other FROM web.bronze.named", spark=spark).collect() == [("2",)]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT id FROM web.bronze.mine", spark=spark)
    monkeypatch.setenv("MEDALLION_LAKE", str(lake.root))
    assert sql("SELECT id FROM web.bronze.named", spark=spark).collect() == [("1",)]
