"""Fields of any name: in each format, and on through silver and gold."""

import io
import json
import re

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, keep_changes, stream
from medallion_assets.delta import log, working
from medallion_assets.delta.names import quoted
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.runs.run import run_tables
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.evolution import is_column
from medallion_assets.sources.options import Source, split_columns
from medallion_assets.sources.schemas import hint_of
from medallion_assets_tests.examples import examples

WORKING = [value for name, value in vars(working).items() if name.isupper() and isinstance(value, str)]
ONCE = [f"_{name.removeprefix('__medallion_')}" for name in WORKING]
"""What the working columns would be called without their prefix: names like any other."""

READERS = [
    *("_row", "_odd", "_fields", "_exact", "_why", "_unknown", "_text", "_problem", "_key", "_m"),
    *("_hash", "_was", "_repaired", "texts", "value", "key", "c0", "t", "n", "e", "ended", "tracked"),
    *("_file_path", "row", "position", "repaired", "corrupt", "v"),
]
RESCUED = ["a`b", "`", "_raw", "_reason", "_metadata", "_check_x", "_source_file", "_batch_id", *WORKING]
RESCUED += ["_rescued_data", "_corrupt_record", "_source_modified_at", "_check_position", "_check_bytes"]
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


TYPES = ["INT", "DECIMAL(9,2)", "MAP<STRING, INT>", "STRUCT<a: INT, b: STRING>"]
HINTS = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), st.sampled_from(TYPES)),
    min_size=1, max_size=4, unique_by=lambda hint: hint[0],
)  # fmt: skip


@given(hints=HINTS)
@examples(200)
def test_a_hint_for_a_column_of_any_name_is_taken_and_so_are_those_after_it(hints):
    text = ", ".join(f"{quoted(name)} {kind}" for name, kind in hints)
    assert [hint_of(hint) for hint in split_columns(text)] == [((name,), kind) for name, kind in hints]
    nested = ".".join(quoted(name) for name, _ in hints)
    assert hint_of(f"{nested}: INT") == (tuple(name for name, _ in hints), "INT")


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
            # Spark orders the fields of a struct by their names.
            assert found == value if isinstance(found, dict) else str(found) == str(value), (kind, name)


FLAT = {name: f"v {name}" for name in NAMES}


def files_of(record):
    """Return one record in each format, as text or bytes."""
    cells = [",".join('"' + str(cell) + '"' for cell in line) for line in (record, record.values())]
    in_avro, of_avro = avro({**record, "ID": str(record["id"])})
    elements = "".join(f"<{name}>{value}</{name}>" for name, value in of_avro.items())
    return {
        "json": json.dumps(record, ensure_ascii=False) + "\n",
        "csv": "\n".join(cells) + "\n",
        "parquet": parquet(record),
        "avro": in_avro,
        "xml": f"<rows><row>{elements}<id>{record['id']}</id></row></rows>",
        "orc": orc(record),
    }


@pytest.mark.spark
@pytest.mark.thorough
def test_fields_of_any_name_that_a_declared_schema_has_not_are_counted_in_rows_and_in_quarantine(
    landed, autoload, spark
):
    good, bad = files_of({"id": 1, **FLAT}), files_of({"id": "x", **FLAT})
    for kind in good:
        path = landed(**{f"{kind}/good__{kind}": good[kind], f"{kind}/bad__{kind}": bad[kind]}) / kind
        options = {"rowTag": "row"} if kind == "xml" else {}
        done = autoload(path, kind, kind, schema="id BIGINT, b STRING", mistyped="QUARANTINE", **options)
        counts = (done.rows_loaded, done.rows_quarantined, done.rows_unaccounted, done.values_unaccounted)
        assert counts == ((2, 0, 0, {}) if kind == "avro" else (1, 1, 0, {})), kind
        names = [n for n in FLAT if kind not in ("avro", "xml") or re.fullmatch("[A-Za-z_][A-Za-z_0-9]*", n)]
        for row in spark.read.format("delta").load(str(done.path)).collect():
            left = json.loads(row["_rescued_data"], object_pairs_hook=list)
            assert left[-1][0] == "_file_path", kind
            found = dict(left[:-1])
            assert {name: found[name] for name in names} == {name: FLAT[name] for name in names}, kind
        for entry in log.rows(done.quarantine, "SELECT row FROM t") if kind != "avro" else ():
            assert [name for name in names if FLAT[name] not in entry["row"].replace('\\"', '"')] == [], kind


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_field_called_like_the_files_path_is_counted_named_and_taken_up_again(kind, lakehouse):
    def clicks_of(schema):
        shop = Pipeline("shop")

        @shop.bronze(expectations=[expect("positive", "id > 0")])
        def clicks(
            files=shop.landing("clicks", format=kind, schema=schema, rescued_data_column="_rescued_data"),  # noqa: B008
        ):
            """One row per click."""
            return files

        return clicks

    lines = {
        "json": '{"id":1,"_file_path":"mine","_source_file":"forged"}\n{"id":2,"b":"x"}\n'
        '{"id":-3,"_file_path":"mine","_source_file":"forged","_batch_id":7}\n',
        "csv": "id,_file_path,_source_file,b,_batch_id\n1,mine,forged,,\n2,,,x,\n-3,mine,forged,,7\n",
    }[kind]
    lakehouse.land("shop/clicks", f"a.{kind}", lines)
    first = clicks_of("id INT")
    (done,) = run_tables([first], lakehouse.lake, lakehouse._spark)
    told = {verdict.name: verdict for verdict in done.verdicts}
    assert told["values_conserved"].passed, told["values_conserved"]
    assert "_file_path" in told["nothing_rescued"].words
    later = clicks_of("id INT, _file_path STRING")
    lakehouse.land("shop/clicks", f"b.{kind}", lines.replace("1", "4").replace("2", "5"))
    lakehouse.run(later)
    asked = VerbRequest(choice=QuarantineFilter(reasons=("rescued",)))
    assert VERBS["replay"](later, lakehouse.lake, lakehouse._spark, asked).found == {"rows": 1}
    rows = lakehouse.rows(later, "SELECT id, _file_path AS p, _rescued_data AS r FROM t ORDER BY id")
    assert [(row["id"], row["p"]) for row in rows] == [(1, "mine"), (2, None), (4, "mine"), (5, None)]
    assert json.loads(rows[0]["r"]) == {"_source_file": "forged", "_file_path": f"a.{kind}"}


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


@pytest.mark.parametrize("name", sorted({*RESCUED} - {"_rescued_data", "_corrupt_record"}))
def test_a_schema_cannot_declare_a_column_of_a_name_that_the_engine_keeps(name):
    with pytest.raises(SourceError, match="its schema cannot have a column"):
        Source("s", "json", schema=f"id INT, {quoted(name)} STRING")
    assert Source("s", "json", schema="id INT, bad STRING", corrupt_column="bad").corrupt_column == "bad"


ALIKE = {"s": 1, "\u017f": 2, "\u00b5": 3, "\u03bc": 4, "i": 5, "\u0131": 6, "\u0130": 7, "k": 8, "\u212a": 9}
"""Names of which Java takes several for one, and of these Python's ``lower`` only some."""


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_fields_that_only_java_takes_for_one_are_a_column_or_rescued_and_stop_no_table(
    landed, autoload, spark, kind
):
    write = {"json": lambda record: json.dumps(record).encode() + b"\n", "parquet": parquet}[kind]
    options = {"infer_column_types": True} if kind == "json" else {}
    for number in range(2):
        record = {"id": number, **ALIKE, "nested": ALIKE, "list": [ALIKE]}
        done = autoload(landed(**{f"{number}__{kind}": write(record)}), kind, **options)
        assert (done.rows_loaded, done.rows_unaccounted) == (1, 0)
    for row in spark.read.format("delta").load(str(done.path)).toArrow().to_pylist():
        left = json.loads(row["_rescued_data"] or "{}")
        assert {name: row.get(name) or left.get(name) for name in ALIKE} == ALIKE
        nested, (item,) = (json.loads(v) if isinstance(v, str) else v for v in (row["nested"], row["list"]))
        rest, (other,) = left.get("nested", {}), left.get("list", [{}])
        assert {name: (nested or {}).get(name) or rest.get(name) for name in ALIKE} == ALIKE
        item = json.loads(item) if isinstance(item, str) else item
        assert {name: (item or {}).get(name) or other.get(name) for name in ALIKE} == ALIKE
    # What Spark changes row by row resolves each name.
    spark.sql(f"DELETE FROM delta.`{done.path}` WHERE id = 0")
    spark.sql(f"UPDATE delta.`{done.path}` SET id = 2")
