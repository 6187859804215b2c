"""Files and records that stop a bronze batch: they alone are held, what landed beside them is loaded."""

import io
import json

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline
from medallion_assets.quality.conservation import balance
from medallion_assets.quality.verdicts import every_file_taken
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.replay.replay import replay
from medallion_assets.reports.state import files_of
from medallion_assets.runs.run import refresh
from medallion_assets.sources import autoload_to_table
from medallion_assets_tests.shop import json_lines

pytestmark = pytest.mark.spark
HEADER_OF_A_PAGE = slice(4, 40)
SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": "int"}, {"name": "of", "type": "string"}],
}


def parquet(*numbers):
    whole = io.BytesIO()
    pq.write_table(pa.table({"id": list(numbers), "of": [str(n) for n in numbers]}), whole)
    return whole.getvalue()


def avro(*numbers):
    whole = io.BytesIO()
    fastavro.writer(whole, SCHEMA, ({"id": n, "of": str(n)} for n in numbers))
    return whole.getvalue()


def damaged_parquet(*numbers):
    bytes_ = bytearray(parquet(*numbers))
    bytes_[HEADER_OF_A_PAGE] = b"\xff" * 36
    return bytes(bytes_)


def damaged_avro(*numbers):
    whole = avro(*numbers)
    # A text said to be longer than its block is: the blocks can be counted, and not read.
    at = whole.index(bytes([2 * numbers[0], 2]) + str(numbers[0]).encode())
    return whole[: at + 1] + b"\x7e" + whole[at + 2 :]


KINDS = {"parquet": (parquet, damaged_parquet), "avro": (avro, damaged_avro)}


def orders_as(kind, query=lambda files: files, **landing):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format=kind, **landing)):  # noqa: B008
        """One row per order."""
        return query(files)

    return orders


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_no_reader_can_take_is_told_and_read_once_it_is_mended(drop, refreshed, rows_of, lake, kind):
    (whole, damaged), orders = KINDS[kind], orders_as(kind)
    drop("shop/orders", f"a.{kind}", whole(1, 2))
    drop("shop/orders", f"b.{kind}", damaged(3, 4, 5))
    drop("shop/orders", f"c.{kind}", whole(6))
    (done,) = refreshed(orders)
    assert (done.total("written"), done.total("missing")) == (3, 3)
    assert rows_of(orders.key, "SELECT id FROM t ORDER BY id") == [{"id": 1}, {"id": 2}, {"id": 6}]
    told = every_file_taken(orders, lake)
    assert not told.passed
    assert f"b.{kind}" in told.words
    assert {r["path"][-9:].split("/")[-1]: r["status"] for r in files_of(orders, lake)}[
        f"b.{kind}"
    ] == "corrupt"
    assert not refreshed(orders)[0].batches
    drop("shop/orders", f"b.{kind}", whole(3, 4, 5, 7))
    refreshed(orders)
    assert len(rows_of(orders.key)) == 7
    assert every_file_taken(orders, lake).passed


def test_the_door_counts_a_file_no_reader_can_take_among_those_it_refused(tmp_path, spark, monkeypatch):
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "lake"))
    zone = tmp_path / "in"
    zone.mkdir()
    (zone / "a.parquet").write_bytes(damaged_parquet(1))
    (zone / "b.parquet").write_bytes(parquet(2, 3))
    result = autoload_to_table(str(zone), "parquet", "orders", str(tmp_path / "check"), spark=spark)
    assert (result.files, result.rows_loaded, result.files_refused, result.files_missing) == (1, 2, 1, 0)


def test_a_death_after_a_file_was_found_damaged_doubles_nothing(drop, lake, spark, lakehouse_here, rows_of):
    orders = orders_as("parquet")
    drop("shop/orders", "a.parquet", parquet(1, 2))
    drop("shop/orders", "b.parquet", damaged_parquet(3))
    with lakehouse_here.crash_at(1):
        refresh(orders, lake, lambda: spark)
    refresh(orders, lake, lambda: spark)
    assert rows_of(orders.key, "SELECT id FROM t ORDER BY id") == [{"id": 1}, {"id": 2}]
    assert balance(orders, lake).holds


def test_a_record_the_query_cannot_take_is_held_and_comes_through_mended(
    drop, refreshed, rows_of, lake, spark
):
    as_number = F.col("total").cast("int")
    orders = orders_as(
        "json", lambda files: files.withColumn("total", as_number), schema="id INT, total STRING"
    )
    rows = [{"id": 1, "total": "5"}, {"id": 2, "total": "many"}, {"id": 3, "total": "7"}]
    drop("shop/orders", "a.json", json_lines(*rows) + '{"id": \n')
    (done,) = refreshed(orders)
    assert (done.total("written"), done.total("quarantined")) == (2, 2)
    held = rows_of("shop/quarantine/orders", "SELECT row, source_file FROM t WHERE reason_class = 'query'")
    assert [json.loads(h["row"])["total"] for h in held] == ["many"]
    assert held[0]["source_file"].endswith("a.json")
    assert replay(orders, lake, spark, QuarantineFilter(reasons=("query",)), "total = '6'").written == 1
    assert rows_of(orders.key, "SELECT id, total FROM t ORDER BY id")[1] == {"id": 2, "total": 6}
    assert balance(orders, lake).holds
