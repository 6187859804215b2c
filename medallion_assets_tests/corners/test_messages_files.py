"""What stops a load names the landing files it is about, and no others."""

import io
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medallion_assets.declare import Pipeline
from medallion_assets.runs.run import refresh
from medallion_assets.sources import copy_into
from medallion_assets.sources.errors import (
    BatchRefused,
    MalformedRecord,
    NewColumns,
    TypesDiffer,
    UnreadableFile,
    some_of,
)
from medallion_assets.sources.formats import exact_copy
from medallion_assets_tests.shop import json_lines, orders_of

OTHERS = [f"a{number}" for number in range(7)]
"""Files that come in the same batch: more than a message names."""


def parquet_of(**values):
    target = io.BytesIO()
    pq.write_table(pa.table({name: [value] for name, value in values.items()}), target)
    return target.getvalue()


def xml_of(**values):
    return f"<rows><r>{''.join(f'<{n}>{v}</{n}>' for n, v in values.items())}</r></rows>"


def csv_of(**values):
    return f"{','.join(values)}\n{','.join(values.values())}\n"


def json_of(**values):
    return json_lines(values)


WRITTEN = {"json": json_of, "csv": csv_of, "xml": xml_of, "parquet": parquet_of}


def batch(landed, kind, **at_fault):
    """Land a batch of good files and one at fault, the newest; return the folder."""
    write = WRITTEN[kind]
    landed(**{f"{name}__{kind}": write(id="1") for name in OTHERS})
    return landed(**{f"z__{kind}": write(**{"id": "2", **at_fault})})


def about(error, *names):
    """Return true where a message names these files of the landing folder and no others."""
    return sorted(set(re.findall(r"\b\w+\.(?:json|csv|xml|parquet)\b", str(error.value)))) == sorted(names)


@pytest.mark.spark
@pytest.mark.parametrize("kind", WRITTEN)
def test_a_new_column_that_stops_a_batch_is_told_with_the_file_that_brought_it(landed, autoload, kind):
    read = {"schema": "id STRING", "schema_evolution_mode": "failOnNewColumns"}
    read |= {"rowTag": "r"} if kind == "xml" else {}
    with pytest.raises(NewColumns, match="new columns extra string in z") as error:
        autoload(batch(landed, kind, extra="x"), kind, **read)
    assert about(error, f"z.{kind}")


@pytest.mark.spark
def test_a_new_column_of_a_select_list_is_told_with_the_files_that_have_a_value_for_it(landed, lake, spark):
    copy_into("web.bronze.c", landed(a__json=json_lines({"id": "1"})), "json", select=["id"], spark=spark)
    folder = batch(landed, "json", id="200")
    select = ["id", "nullif(CAST(id AS INT), 1) AS number"]
    with pytest.raises(NewColumns, match="new columns number int in z") as error:
        copy_into("web.bronze.c", folder, "json", select=select, spark=spark)
    assert about(error, "z.json")


@pytest.mark.spark
def test_a_column_of_another_type_than_the_tables_is_told_with_the_files_that_have_a_value_of_it(
    landed, lake, spark
):
    first = landed(a__json=json_lines({"id": "1"}))
    copy_into("web.bronze.c", first, "json", select=["id", "CAST(1 AS INT) AS n"], spark=spark)
    folder = batch(landed, "json", id="200")
    select = ["id", "CASE WHEN id > 1 THEN array(id) END AS n"]
    with pytest.raises(
        BatchRefused, match=r"n is array<string> \(the SELECT\), and int in the table; in z"
    ) as error:
        copy_into("web.bronze.c", folder, "json", select=select, spark=spark)
    assert about(error, "z.json")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("before", "now"),
    [("INT", "STRING"), ("STRING", "INT"), ("DATE", "TIMESTAMP"), ("STRUCT<a: INT>", "STRUCT<a: STRING>")],
)
def test_a_hint_that_contradicts_the_table_is_told_in_plain_words_and_its_files_load_once_it_is_mended(
    landed, autoload, rows, before, now
):
    value = {"INT": 1, "STRING": "1", "DATE": "2024-01-01"}.get(before, {"a": 1})
    autoload(landed(a__json=json_lines({"n": value})), "json", schema_hints=f"n {before}")
    folder = landed(b__json=json_lines({"n": value}, {"n": None}))
    for _ in range(2):
        with pytest.raises(TypesDiffer) as error:
            autoload(folder, "json", schema_hints=f"n {now}")
        told = str(error.value)
        old, new = (kind.lower().replace(": ", ":") for kind in (before, now))
        assert f"web/bronze/t: n is {new} (schema_hints), and {old} in the table; in b.json" in told
        assert "nothing of the batch was written, and nothing is lost. The files wait" in told
        assert f"declare the types of the table (n {old})" in told
        assert not re.search(r"DELTA|Exception|merge|\n", told)
    done = autoload(folder, "json", schema_hints=f"n {before}")
    assert (done.rows_loaded, done.rows_unaccounted) == (2, 0)
    assert [row["n"] is None for row in rows(done, "n")].count(False) == 2


@pytest.mark.spark
def test_a_run_tells_of_a_schema_that_contradicts_its_bronze_table(drop, lake, spark, refreshed):
    def orders(kind):
        return orders_of(Pipeline("shop"), schema=f"id INT, total {kind}")

    drop("shop/orders", "a.json", json_lines({"id": 1, "total": 5}))
    refreshed(orders("INT"))
    drop("shop/orders", "b.json", json_lines({"id": 2, "total": 6}))
    with pytest.raises(
        TypesDiffer, match=r"orders: total is string \(schema\), and int in the table"
    ) as error:
        refresh(orders("STRING"), lake, lambda: spark)
    assert about(error, "b.json")
    assert "medallion reset shop/bronze/orders" in str(error.value)
    assert refreshed(orders("INT"))[0].total("written") == 1


@pytest.mark.spark
def test_a_malformed_record_that_stops_a_batch_is_told_with_its_file(landed, autoload):
    batch(landed, "json")
    with pytest.raises(MalformedRecord) as error:
        autoload(landed(bad__json="{bad\n"), "json", malformed="FAILFAST")
    assert about(error, "bad.json")


def test_a_file_whose_bytes_end_the_reading_process_is_named_when_its_rows_are_read(tmp_path, monkeypatch):
    def dies(*_):
        raise UnreadableFile("its bytes end the process that reads them")

    monkeypatch.setattr(exact_copy, "try_reading", dies)
    with pytest.raises(UnreadableFile, match=r"a\.parquet cannot be read: its bytes end the process"):
        exact_copy.copy_exactly(tmp_path / "a.parquet", "parquet", tmp_path / "copy")


def test_of_many_files_a_message_names_some_and_says_how_many_there_are_more():
    assert some_of(["b", "a"]) == "a, b"
    assert some_of([str(number) for number in range(9)]) == "0, 1, 2, 3, 4 and 4 more"
