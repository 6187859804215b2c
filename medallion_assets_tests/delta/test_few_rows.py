"""Few rows that are committed without Spark: the same rows, once, where the table asks for no more."""

import json

import pytest

from medallion_assets.delta import log
from medallion_assets.delta.checksum import write_checksums
from medallion_assets.delta.commit import Transaction, append
from medallion_assets.session.frames import computed

pytestmark = pytest.mark.spark

ROWS = """
SELECT * FROM VALUES
  (1, 'a', X'00ff', true, 1Y, 1S, 9007199254740993L, float('nan'), -0.0D, 1.50BD, DATE'0001-01-01',
   TIMESTAMP'0001-01-01 00:00:00.000001Z', array('x', NULL), map('k', 1),
   named_struct('a', 1, 'b', array(1))),
  (2, '', X'', NULL, -128Y, -32768S, -9223372036854775808L, float('-inf'), 5e-324D, -9.99BD, DATE'9999-12-31',
   TIMESTAMP'9999-12-31 23:59:59.999999Z', array(), map(), named_struct('a', NULL, 'b', array())),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
AS t(id, text, bytes, yes, tiny, small, big, narrow, wide, exact, day, moment, list, pairs, nested)
"""


def signed(version):
    return Transaction("t/@0", version, {"run_id": "r"})


def engines(path):
    """By version, whose writer committed it."""
    infos = {info["version"]: info["engineInfo"] for info in log.newest_commits(path)}
    return ["Spark" if "Spark" in infos[version] else "deltalake" for version in sorted(infos)]


@pytest.fixture
def table(tmp_path, spark):
    """A table with one version, by Spark, and its rows as values."""
    values = computed(spark.sql(ROWS))
    append(values, tmp_path / "t", signed(0))
    return tmp_path / "t", values


def test_values_of_every_type_are_what_spark_writes(table, spark):
    path, values = table
    append(values, path, signed(1))
    assert engines(path) == ["Spark", "deltalake"]
    written = spark.read.format("delta").load(str(path))
    assert written.dtypes == values.dtypes
    texts = [row[0] for row in written.selectExpr("to_json(struct(*))").collect()]
    assert len(texts) == 6
    assert sorted(texts)[::2] == sorted(texts)[1::2]


def test_a_version_is_committed_once(table):
    path, values = table
    for version in (1, 1, 0):
        append(values, path, signed(version))
    assert log.version(path) == 1
    assert log.committed_version(path, "t/@0") == 1
    assert log.commit_metadata_of(next(log.newest_commits(path))) == {"run_id": "r"}


def test_all_rows_are_replaced_in_one_commit(table):
    path, values = table
    append(values.where("id = 1"), path, signed(1), mode="overwrite")
    assert engines(path) == ["Spark", "deltalake"]
    assert log.row_count(path) == 1


ASKS = (
    "ADD COLUMN more INT",
    "ADD CONSTRAINT c CHECK (id > 0)",
    "SET TBLPROPERTIES (delta.dataSkippingNumIndexedCols = 1)",
)


@pytest.mark.parametrize("asks", ASKS)
def test_a_table_that_asks_for_more_is_left_to_spark(table, spark, asks):
    path, values = table
    spark.sql(f"ALTER TABLE delta.`{path}` {asks}")
    append(values, path, signed(1))
    assert engines(path)[-1] == "Spark"
    assert log.row_count(path) == 6


def test_more_rows_than_few_are_no_values(spark):
    assert computed(spark.range(20_000)) is None


def test_a_checksum_says_what_sparks_own_says(table, spark):
    path, _ = table
    append(spark.sql(ROWS).repartition(1), path, signed(1))
    append(spark.sql(ROWS).repartition(1), path, signed(2), mode="overwrite")
    assert engines(path) == ["Spark"] * 3
    files = [log.entry_of(path, version).with_suffix(".crc") for version in (1, 2)]
    theirs = [json.loads(file.read_text()) for file in files]
    for file in files:
        file.unlink()
    write_checksums(path)
    for file, content in zip(files, theirs, strict=True):
        ours = json.loads(file.read_text())
        without = [{k: v for k, v in t.items() if k != "lastUpdated"} for t in content["setTransactions"]]
        mine = [{k: v for k, v in t.items() if k != "lastUpdated"} for t in ours["setTransactions"]]
        assert mine == without
        named = set(ours) - {"setTransactions"}
        assert {name: ours[name] for name in named} == {name: content[name] for name in named}
