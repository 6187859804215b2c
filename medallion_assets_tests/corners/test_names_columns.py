"""Fields of any name: in each format, and on through silver and gold."""

import io
import json
import re

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, keep_changes, stream
from medallion_assets.delta import working
from medallion_assets.delta.names import quoted
from medallion_assets.runs.run import run_tables
from medallion_assets.sources.evolution import is_column

WORKING = [value for name, value in vars(working).items() if name.isupper() and isinstance(value, str)]
ONCE = [f"_{name.removeprefix('__medallion_')}" for name in WORKING]
"""What the working columns would be called without their prefix: names like any other."""

READERS = [
    *("_row", "_odd", "_fields", "_exact", "_why", "_unknown", "_text", "_problem", "_key", "_m"),
    *("_hash", "_was", "_repaired", "texts", "value", "key", "c0", "t", "n", "e", "ended", "tracked"),
]
RESCUED = ["a`b", "`", "_raw", "_reason", "_metadata", "_check_x", "_source_file", "_batch_id", *WORKING]
ODD = ["a.b", ".", ".id", "[0]", "a b", "it's", "ü", "2nd", "SELECT", "a,b", "n;x", "Case"]
NAMES = list(dict.fromkeys([*ONCE, *READERS, *ODD, *RESCUED]))
RECORD = {"id": 1, **{name: f"v {name}" for name in NAMES}, "nested": {name: name for name in ONCE}}


def avro(record):
    plain = {k: v for k, v in record.items() if re.fullmatch("[A-Za-z_][A-Za-z_0-9]*", k) and k != "id"}
    fields = [{"name": name, "type": "string"} for name in plain]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, [plain])
    return out.getvalue(), plain


def parquet(record):
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([record]), out)
    return out.getvalue()


def orc(record):
    out = io.BytesIO()
    pyarrow.orc.write_table(pa.Table.from_pylist([record]), out)
    return out.getvalue()


def test_only_names_with_a_meaning_are_no_columns():
    assert [name for name in NAMES if not is_column(name)] == RESCUED
    assert all(name.startswith("__medallion_") for name in WORKING)


@pytest.mark.spark
def test_a_field_of_any_name_is_a_column_or_rescued_in_every_format(landed, autoload, spark):
    flat = {name: value for name, value in RECORD.items() if name != "nested"}
    cells = [",".join('"' + str(cell) + '"' for cell in line) for line in (flat, flat.values())]
    in_avro, of_avro = avro(flat)
    elements = "".join(f"<{name}>{value}</{name}>" for name, value in of_avro.items())
    files = {
        "json": (json.dumps(RECORD) + "\n", RECORD),
        "csv": ("\n".join(cells) + "\n", flat),
        "parquet": (parquet(RECORD), RECORD),
        "avro": (in_avro, of_avro),
        "xml": (f"<rows><row>{elements}</row></rows>", of_avro),
        "orc": (orc(flat), flat),
    }
    for kind, (contents, record) in files.items():
        options = {"infer_column_types": True} if kind == "json" else {}
        options |= {"rowTag": "row"} if kind == "xml" else {}
        path = landed(**{f"{kind}/f__{kind}": contents}) / kind
        result = autoload(path, kind, kind, **options)
        assert (result.rows_loaded, result.rows_unaccounted, result.rows_quarantined) == (1, 0, 0), kind
        (row,) = spark.read.format("delta").load(str(result.path)).collect()
        row = row.asDict(recursive=True)
        rescued = json.loads(row["_rescued_data"])
        for name, value in record.items():
            found = rescued[name] if name in RESCUED else row[name]
            assert str(found) == str(value), (kind, name)


@pytest.mark.spark
def test_columns_of_any_name_go_through_rules_duplicates_history_and_sums(refreshed, drop, lake, spark):
    shop = Pipeline("shop")
    names = list(dict.fromkeys([*ONCE, *READERS, "it's"]))

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", infer_column_types=True)):  # noqa: B008
        """One row per order."""
        return files

    @shop.silver(unique_by="id", expectations=[expect("positive", "id > 0")])
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "at", *map(quoted, names))

    @shop.silver(scd=keep_changes("at_home", "at", type=2))
    def states(orders=stream(orders)):
        """One row per state of a home."""
        return orders.select(F.lit("x").alias("at_home"), "at", *map(quoted, names))

    @shop.gold(output_mode="complete", row_count_column="sales_of_text")
    def sums(sales=stream(sales)):
        """One row per text."""
        highest = (F.max(quoted(name)).alias(name) for name in names if name != "_text")
        return sales.groupBy(F.col("_text")).agg(*highest, F.count("*").alias("sales_of_text"))

    for at, version in ((1, "a"), (2, "b")):
        records = [{"id": at, "at": at, **{name: f"{version} {name}" for name in names}}]
        records += [{**records[0], "id": -at, "at": at + 10}] if at == 2 else []
        drop("shop/orders", f"{at}.json", "".join(json.dumps(r) + "\n" for r in records + records[:1]))
        refreshed(orders, sales, states, sums)
    read = spark.read.format("delta")
    for table in (sales, states, sums):
        rows = read.load(str(lake.path(table))).collect()
        for name in names:
            assert {row[name] for row in rows} == {f"a {name}", f"b {name}"}, (table.name, name)


@pytest.mark.spark
def test_a_query_that_names_a_column_with_a_backtick_is_refused_before_a_correction_could_fail(lakehouse):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json")):  # noqa: B008
        """One row per order."""
        return files

    @shop.silver()
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", F.lit(1).alias("a`b"))

    lakehouse.land("shop/orders", "1.json", '{"id": 1, "a`b": 2}\n')
    (landed, made) = run_tables([orders, sales], lakehouse.lake, lakehouse._spark)
    assert not landed.error
    assert lakehouse.rows(orders, "SELECT _rescued_data AS r FROM t")[0]["r"].startswith('{"a`b": 2')
    assert "a`b" in made.error
    assert "rename it" in made.error
