"""A landing zone in an object store, with the lake on a local disk: discovered, loaded and cleaned alike."""

import gzip
import io
import sys
import uuid
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medallion_assets.declare import Pipeline
from medallion_assets.delta import log
from medallion_assets.sources import Source, autoload_to_table, discover, sql, unseen_files
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.errors import SourceError, SourceMissing
from medallion_assets.sources.fetched import at_hand
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.listing import listing
from medallion_assets.sources.walking import location_of
from medallion_assets.storage import StorageUnreachable, storage_of
from medallion_assets.storage.objects import ObjectStorage
from medallion_assets_tests.shop import orders_of

boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
JSON = Source("things", "json", recursive_file_lookup=True)


@pytest.fixture(params=["memory", "s3"])
def zone(request):
    """A landing zone, and a prefix that begins as it does."""
    bucket = request.getfixturevalue("s3") if request.param == "s3" else f"memory://{uuid.uuid4().hex}"
    return f"{bucket}/{uuid.uuid4().hex}/zone"


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger"


def put(zone, name, content):
    storage_of(zone).put(f"{zone}/{name}", content)


def entries(ledger, zone):
    rows = ledgers.rows(ledger, "SELECT * FROM ledger ORDER BY sequence")
    return {row["path"]: Entry(**row, root=zone) for row in rows}


def test_objects_are_admitted_once_with_their_counts_and_names(zone, ledger):
    put(zone, "a.json", b'{"a":1}\n{"a":2}\n')
    put(zone, "2026/1 é%20[x].json", b'{"a":3}\n')
    put(zone, "2026/b.json.gz", gzip.compress(b'{"a":4}\n'))
    put(zone, "_hidden.json", b"{}")
    put(f"{zone}2", "other.json", b"{}")
    first = discover(zone, ledger, JSON)
    assert (first.admitted, first.records, first.refused) == (3, 4, 0)
    assert discover(zone, ledger, JSON).admitted == 0
    assert {*entries(ledger, zone)} == {"a.json", "2026/1 é%20[x].json", "2026/b.json.gz"}
    put(zone, "a.json", b'{"a":1}\n{"a":2}\n{"a":5}\n')
    assert [file.path for file in unseen_files(zone, ledger, JSON)] == ["a.json"]
    assert [file.path for file in listing(f"{zone}/*/*.json", zone, JSON, {}).new] == ["2026/1 é%20[x].json"]


def test_a_prefix_without_objects_is_an_empty_zone_before_and_after_it_had_some(zone, ledger):
    assert discover(zone, ledger, JSON).matched == 0
    put(zone, "a.json", b"{}\n")
    assert discover(zone, ledger, JSON).admitted == 1
    storage_of(zone).delete(f"{zone}/a.json")
    assert discover(zone, ledger, JSON).matched == 0


def test_objects_at_hand_are_those_that_were_counted(zone, ledger, tmp_path):
    for name in ("a.json", "b/c.json", "gone.json"):
        put(zone, name, b'{"a":1}\n')
    discover(zone, ledger, JSON)
    put(zone, "b/c.json", b'{"a":2}\n')
    storage_of(zone).delete(f"{zone}/gone.json")
    files = at_hand([*entries(ledger, zone).values()], tmp_path / "fetched")
    there = {file.path: file.location.read_bytes() for file in files if file.location.exists()}
    assert there == {"a.json": b'{"a":1}\n'}
    (copied,) = [file for file in files if file.path == "a.json"]
    assert copied.location.stat().st_mtime_ns // 1000 == round(copied.modified_at.timestamp() * 1e6)


def test_an_address_of_an_unknown_kind_is_an_error_by_name():
    for address in ("ftp://host/folder", "hdfs://node/folder", "s3n://bucket/prefix"):
        with pytest.raises(SourceError, match=f"{address.partition('://')[0]}: address"):
            location_of(address)
        with pytest.raises(SourceError, match="address"):
            Source("things", "json", path=address)
    assert Source("things", "json", path="s3://bucket/prefix").path == "s3://bucket/prefix"


def test_a_store_that_does_not_answer_fails_the_look_and_refuses_no_file(ledger, monkeypatch):
    zone = f"memory://{uuid.uuid4().hex}/zone"
    put(zone, "a.json", b'{"a":1}\n')

    def silent(*_):
        raise StorageUnreachable(zone)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStorage, "open", silent)
        with pytest.raises(StorageUnreachable):
            discover(zone, ledger, JSON)
    assert discover(zone, ledger, JSON).admitted == 1


@pytest.mark.parametrize("odd", ["b\x1bc.json", "b\x7fc.json", "d//b.json"])
@pytest.mark.parametrize("way", ["listed", "after a cursor"])
def test_an_object_whose_name_no_reader_can_ask_for_is_refused_by_name_and_others_load(s3, ledger, odd, way):
    zone, source = f"{s3}/{uuid.uuid4().hex}", replace(JSON, use_incremental_listing=way == "after a cursor")
    put(zone, "a.json", b'{"a":1}\n')
    if way == "after a cursor":
        assert discover(zone, ledger, source).admitted == 1
    boto3.client("s3").put_object(Bucket=s3[5:], Key=f"{zone[len(s3) + 1 :]}/{odd}", Body=b'{"a":2}\n')
    put(zone, "z.json", b'{"a":3}\n')
    assert discover(zone, ledger, source).refused == 1
    assert discover(zone, ledger, source).refused == 0
    found = entries(ledger, zone)
    assert {name for name, entry in found.items() if entry.status == "admitted"} == {"a.json", "z.json"}
    (refused,) = (entry for entry in found.values() if entry.status == "refused")
    assert refused.path.startswith(odd.encode("unicode_escape").decode()[: -len("b.json")])
    assert "no reader can ask for its name" in refused.reason


def test_without_boto3_such_an_object_is_named_and_nothing_is_taken(s3, ledger, monkeypatch):
    zone = f"{s3}/{uuid.uuid4().hex}"
    put(zone, "a.json", b'{"a":1}\n')
    boto3.client("s3").put_object(Bucket=s3[5:], Key=f"{zone[len(s3) + 1 :]}/b\x01.json", Body=b"{}")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(
        StorageUnreachable, match=r"/b\\x01\.json.*rename or delete.*medallion-assets\[events\]"
    ):
        discover(zone, ledger, JSON)


@pytest.mark.spark
def test_objects_are_loaded_replaced_and_moved_away_as_files_are(zone, tmp_path, lake, spark):
    def load(**options):
        checkpoint = tmp_path / "checkpoint"
        return autoload_to_table(zone, "json", "web.bronze.t", checkpoint, spark=spark, **options)

    with pytest.raises(SourceMissing):
        load()
    put(zone, "a.json", b'{"a":1}\n{broken\n')
    put(zone, "b é.json", b'{"a":2}\n')
    first = load()
    assert (first.files, first.rows_loaded, first.rows_quarantined, first.rows_unaccounted) == (2, 2, 1, 0)
    assert first.values_unaccounted == {}
    put(zone, "a.json", b'{"a":7}\n')
    away = {"clean_source": "MOVE", "clean_source_move_destination": str(tmp_path / "old")}
    second = load(allow_overwrites="replace", clean_source_retention_days=0, **away)
    assert second.files == 1
    loaded = log.rows(second.path, "SELECT a, _source_file AS file FROM t ORDER BY a")
    assert loaded == [{"a": "2", "file": "b é.json"}, {"a": "7", "file": "a.json"}]
    assert {path.name for path in (tmp_path / "old").iterdir()} == {"a.json", "b é.json"}
    assert [*storage_of(zone).list(zone)] == []
    assert load().files == 0


@pytest.mark.spark
def test_parquet_objects_are_loaded_by_their_own_footers_through_each_door(tmp_path, lake, spark, refreshed):
    zone, bytes_of = f"memory://{uuid.uuid4().hex}/zone", io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3]}), bytes_of)
    put(zone, "a.parquet", bytes_of.getvalue())
    done = autoload_to_table(zone, "parquet", "web.bronze.t", tmp_path / "checkpoint", spark=spark)
    assert (done.rows_loaded, done.rows_unaccounted) == (3, 0)
    copied = sql(f"COPY INTO web.bronze.c FROM '{zone}/*.parquet' FILEFORMAT = PARQUET", spark=spark)
    assert (copied.num_inserted_rows, copied.load.rows_unaccounted) == (3, 0)
    (declared,) = refreshed(orders_of(Pipeline("shop"), format="parquet", path=zone, schema="a BIGINT"))
    assert declared.total("written") == 3
