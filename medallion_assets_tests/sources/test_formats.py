"""Every format loads whole, however its files are wrapped: held against readers that are not Spark."""

import bz2
import datetime
import gzip
import io
import json
import lzma

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources.errors import SourceMissing

pytestmark = pytest.mark.spark
PEOPLE = [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Björn"}]
LINES = "".join(json.dumps(p, ensure_ascii=False) + "\n" for p in PEOPLE)
AVRO = {
    "type": "record",
    "name": "p",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}


def written(writer, table):
    out = io.BytesIO()
    writer(table, out)
    return out.getvalue()


def avro():
    out = io.BytesIO()
    fastavro.writer(out, AVRO, PEOPLE)
    return out.getvalue()


TABLE = pa.Table.from_pylist(PEOPLE)
WHOLE = {
    "json": {
        "lines__json": LINES,
        "array__json": json.dumps(PEOPLE),
        "pretty__json": "\n".join(json.dumps(p, indent=2) for p in PEOPLE),
        "zipped__json__gz": gzip.compress(LINES.encode()),
        "gzip_under_another_name__json": gzip.compress(LINES.encode()),
        "bz2__json__bz2": bz2.compress(LINES.encode()),
        "xz__json__xz": lzma.compress(LINES.encode()),
        "lz4__json__lz4": pa.compress(LINES.encode(), "lz4", asbytes=True),
        "zstd__json__zst": pa.compress(LINES.encode(), "zstd", asbytes=True),
        "bom__json": "\ufeff" + LINES,
        "utf16__json": LINES.encode("utf-16"),
        "returns__json": LINES.replace("\n", "\r"),
    },
    "csv": {
        "plain__csv": "id,name\n1,Ann\n2,Björn\n",
        "turned__csv": "name,id\nAnn,1\nBjörn,2",
        "quoted__csv": '"id","name"\r\n"1","Ann"\r\n"2","Björn"\r\n',
        "utf16__csv": "id,name\n1,Ann\n2,Björn\n".encode("utf-16"),
    },
    "parquet": {"a__parquet": written(pyarrow.parquet.write_table, TABLE)},
    "orc": {"a__orc": written(pyarrow.orc.write_table, TABLE)},
    "avro": {"a__avro": avro()},
    "xml": {"a__xml": '<p><r id="1"><name>Ann</name></r><r id="2"><name>Björn</name></r></p>'},
}


@pytest.mark.parametrize("source_format", WHOLE)
def test_each_file_gives_the_same_people_however_it_is_written(source_format, landed, autoload, rows):
    options = {"rowTag": "r"} if source_format == "xml" else {}
    key = "_id" if source_format == "xml" else "id"
    result = autoload(landed(**WHOLE[source_format]), source_format, **options)
    assert (result.files, result.rows_unaccounted, result.rows_quarantined) == (
        len(WHOLE[source_format]),
        0,
        0,
    )
    by_file = {}
    for row in rows(result, "_source_file", key, "name"):
        by_file.setdefault(row["_source_file"], []).append((str(row[key]), row["name"]))
    assert {tuple(sorted(people)) for people in by_file.values()} == {(("1", "Ann"), ("2", "Björn"))}
    assert len(by_file) == result.files


def test_text_gives_a_row_a_line_blank_ones_too(landed, autoload, rows):
    result = autoload(landed(a__txt="x\n\ny\r\nz"), "text")
    assert sorted(r["value"] for r in rows(result)) == ["", "x", "y", "z"]


def test_a_binary_file_is_one_row_with_its_bytes(landed, autoload, rows):
    result = autoload(landed(a__bin=b"\x00\xff"), "binaryFile")
    assert [(r["length"], bytes(r["content"])) for r in rows(result, "length", "content")] == [
        (2, b"\x00\xff")
    ]


def test_avro_keeps_dates_nested_records_and_nulls(landed, autoload, rows):
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": ["null", "int"]}]}
    day = {"type": "int", "logicalType": "date"}
    fields = [
        {"name": "d", "type": day},
        {"name": "i", "type": inner},
        {"name": "l", "type": {"type": "array", "items": "string"}},
    ]
    out = io.BytesIO()
    record = {"d": datetime.date(2020, 2, 29), "i": {"x": None}, "l": ["a"]}
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, [record])
    assert rows(autoload(landed(a__avro=out.getvalue()), "avro"), "d", "i", "l") == [record]


def test_damaged_files_stand_in_the_ledger_and_the_others_load(landed, autoload):
    whole = WHOLE["parquet"]["a__parquet"]
    folder = landed(a__parquet=whole, cut__parquet=whole[:-9], b__parquet=b"", c__parquet=b"no parquet")
    result = autoload(folder, "parquet")
    assert (result.files, result.rows_loaded, result.files_refused) == (1, 2, 3)
    landed(cut__parquet=whole)
    assert autoload(folder, "parquet").rows_loaded == 2


def test_nothing_new_changes_nothing_and_what_lands_later_is_added(landed, autoload):
    folder = landed(a__json=LINES)
    first = autoload(folder, "json")
    assert autoload(folder, "json").version == first.version
    landed(b__json=LINES)
    later = autoload(folder, "json")
    assert (later.files, later.rows_loaded) == (1, 2)


def test_an_empty_folder_is_a_load_of_nothing_and_a_missing_one_an_error(tmp_path, landed, autoload):
    with pytest.raises(SourceMissing, match="nowhere"):
        autoload(tmp_path / "nowhere", "json")
    assert autoload(landed(a__json="", b__json="\n\n"), "json").rows_read == 0


def test_the_status_table_counts_each_file_by_the_names_databricks_has(landed, autoload):
    result = autoload(landed(a__json=LINES + "broken\n", b__json=LINES), "json")
    found = {r["path"].rpartition("/")[2]: r for r in outcomes.rows(result.ledger)}
    told = ("rows_read", "rows_loaded", "rows_quarantined")
    assert [found["a.json"][name] for name in told] == [3, 2, 1]
    assert [found["b.json"][name] for name in told] == [2, 2, 0]
    assert {"path", "size", "create_time", "discovery_time", "processed_time", "commit_time", "archive_time",
            "archive_mode", "move_location"} <= set(found["a.json"])  # fmt: skip
