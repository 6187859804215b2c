"""What Spark shows of landed text files: values, rescued data, and the quarantine's texts and places."""

import base64
import io
import json
import re
from datetime import date, datetime, timezone
from datetime import time as dt_time
from decimal import Decimal
from random import Random

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from medallion_assets.session.frames import frame_of
from medallion_assets.sources.formats.exact_values import NotExact
from medallion_assets.sources.formats.json_scan import scan
from medallion_assets.sources.formats.json_values import stored_type, typed_value
from medallion_assets_tests.sources.conftest import rescued

pytestmark = pytest.mark.spark

DAYS = [
    "2026-01-01",
    "2020-02-30",
    "2020-02-29",
    "2021-02-29",
    "2026-1-2",
    "2026",
    "2026-03",
    "0001-01-01",
    "9999-12-31",
    "+2026-01-01",
    "-0044-03-15",
    "12026-01-01",
    "1582-10-10",
    "2026-13-01",
    "20260101",
    "26-01-01",
    "0000-01-01",
]
CLOCKS = [
    "",
    "T10:20:30",
    " 10:20:30.5",
    "T1:2:3",
    "T10:20",
    "T10",
    "T24:00:00",
    "T23:59:60",
    "T10:20:30.123456",
    "T10:20:30.1234567",
    "T10:20:30.120000000",
    "T10:20:30.",
    " 10:20:30",
    "x",
]
ZONES = [
    "",
    "Z",
    "+02:00",
    "-18:00",
    "+18:01",
    "+02",
    "+0230",
    " Z",
    "UTC",
    "UTC+01:00",
    "Europe/Berlin",
    "Nowhere/At",
    "America/New_York",
    "+2",
    "+2:30",
    "+230",
    "UTC+1",
    "z",
]
NUMBERS = [
    "1",
    "1.10",
    "1.239",
    "-0",
    "1e2",
    "1E-2",
    "123456789.12",
    "99999999.99",
    "0.001",
    "1e-9",
    '"1.5"',
    '"+1.5"',
    '"x"',
    '""',
    "true",
    '".5"',
    '"5."',
    "0.10",
    '" 1"',
    '"1e2"',
    "12345678901234567890",
    "1.0",
    "2147483648",
]
LOSES = {
    "TIMESTAMP": re.compile(r"\.\d{6}0*[1-9]|^\d\d?:"),
    "TIMESTAMP_NTZ": re.compile(r"\.\d{6}0*[1-9]|^\d\d?:"),
    # Digits alone are days since 1970 to Spark's JSON reader, of whatever the file meant by 20260101.
    "DATE": re.compile(r"^[+-]?\d+-\d+-\d+[ T]|^\d{5,}$"),
    "DECIMAL(9,2)": re.compile(r"\.\d\d\d|e-9"),
    "INT": re.compile("$^"),
}
"""Texts that Spark takes and shortens or changes, and this project does not take."""


def texts(chance, kind):
    if kind in ("DECIMAL(9,2)", "INT"):
        return NUMBERS
    made = {chance.choice(DAYS) + chance.choice(CLOCKS) + chance.choice(ZONES) for _ in range(700)}
    return [
        json.dumps(text) for text in sorted(made | set(DAYS) | {"08:30", "epoch", "now", " 2026-01-01 "})
    ] + ["5"]


def test_what_is_taken_is_what_spark_reads_and_the_rest_is_what_spark_would_change(spark):
    seed = 20261122
    chance = Random(seed)
    wrong = []
    for kind, loses in LOSES.items():
        values = texts(chance, kind)
        lines = frame_of(spark, [(f'{{"v":{text}}}',) for text in values], "line STRING")
        column = F.from_json("line", f"v {kind}")["v"]
        if kind in ("TIMESTAMP", "TIMESTAMP_NTZ"):
            column = F.unix_micros(column.cast("timestamp"))
        found = lines.select("line", (F.unix_date(column) if kind == "DATE" else column).alias("v")).collect()
        by_line = {row["line"]: row["v"] for row in found}
        for text in values:
            read, value = by_line[f'{{"v":{text}}}'], taken(text, kind)
            unlike = (
                value != read if value is not None else read is not None and not loses.search(text.strip('"'))
            )
            wrong += [f"{kind} {text}: Spark {read}, here {value}"] if unlike else []
    assert not wrong, f"seed {seed}: {wrong[:40]}"


def taken(text, kind):
    try:
        return typed_value(text, scan(text), DataType.fromDDL(kind))[0]
    except NotExact:
        return None


def test_each_type_has_a_column_in_arrow():
    assert stored_type(DataType.fromDDL("s STRUCT<a: ARRAY<DECIMAL(9,2)>, m: MAP<STRING, DATE>>"))


LINES = [
    '{"id":1,"m":1.10,"at":"2026-01-01T10:00:00Z","day":"2026-01-01","d":0.1,"s":{"t":1.10}}',
    '{"id":2,"m":1.239,"at":"2026-01-01T10:00:00.123456789Z","day":"2020-02-30","d":0.12345678901234567891}',
    '{"id":3,"c":"\\ud800","\\udc00":1}',
    '{"id":4,"new":' + "[" * 1500 + "]" * 1500 + "}",
    '{"id":5,"c":' + "1" * 1500 + "}",
    "",
    "broken",
    '{"id":6,"' + "k" * 60_000 + '":1}',
]
SCHEMA = "id BIGINT, m DECIMAL(9,2), at TIMESTAMP, day DATE, d DOUBLE, c STRING, s STRUCT<t: STRING>"


def held(result):
    rows = DeltaTable(str(result.quarantine)).to_pyarrow_dataset().to_table().to_pylist()
    return {
        row["position"]: (row["row"], row["raw_base64"], row["rules"][0], row["reason_class"]) for row in rows
    }


def test_a_load_changes_no_value_and_tells_where_each_refused_record_is(landed, autoload, rows):
    folder = landed(a__json="\n".join(LINES).encode() + b'\n{"c":"\xff"}\n')
    result = autoload(folder, "json", schema=SCHEMA, schema_evolution_mode="rescue")
    found = {row["id"]: row for row in rows(result)}
    noon = datetime(2026, 1, 1, 10, tzinfo=timezone.utc)
    first = found[1]
    assert (first["m"], first["day"], first["d"], first["s"]) == (
        Decimal("1.10"),
        date(2026, 1, 1),
        0.1,
        {"t": "1.10"},
    )
    assert first["at"].astimezone(timezone.utc) == noon
    assert json.loads(found[2]["_rescued_data"], parse_float=str)["d"] == "0.12345678901234567891"
    assert {"m", "at", "day", "d"} == rescued(found[2]).keys()
    assert rescued(found[3]) == {"c": "\ud800", "\udc00": 1}
    assert (found[5]["c"], len(rescued(found[4])), rescued(found[6])) == ("1" * 1500, 1, {"k" * 60_000: 1})
    assert held(result) == {
        "line 7": ("broken", None, "malformed JSON", "parse"),
        "line 9": ('{"c":"\ufffd"}', base64.b64encode(b'{"c":"\xff"}').decode(), "not valid UTF-8", "parse"),
    }
    assert (result.rows_unaccounted, len(found)) == (0, 6)


def test_each_refused_record_of_each_text_format_has_its_place_and_its_text(landed, autoload, rows):
    folder = landed(**{
        "t/a__text": b"one\n\xff\xfe\nthree\n", "j/a__json": b'[{"id":1},\n{"id":"x"},\n{"id":2}]',
        "x/a__xml": b"<p><r><id>1</id>tail</r><r><id>x</id></r><r><id>2</r></p>",
        "y/a__xml": b"<p><r><v>good</v></r><r><v>\xff</v></r></p>",
    })  # fmt: skip
    text = autoload(folder / "t", "text", "t")
    assert sorted(row["value"] for row in rows(text)) == ["one", "three"]
    assert held(text) == {
        "line 2": ("\ufffd\ufffd", base64.b64encode(b"\xff\xfe").decode(), "not valid UTF-8", "parse")
    }
    documents = autoload(folder / "j", "json", "j", schema="id INT")
    assert held(documents) == {"record 2": ('{"id":"x"}', None, "does not fit the schema", "schema")}
    xml = autoload(folder / "x", "xml", "x", schema="id INT, _VALUE STRING", rowTag="r")
    assert [(row["id"], row["_VALUE"]) for row in rows(xml)] == [(1, "tail")]
    refused = held(xml)
    assert refused["record 2"] == ("<r><id>x</id></r>", None, "does not fit the schema", "schema")
    assert refused["record 3"][0] == "<r><id>2</r></p>"
    assert refused["record 3"][2].startswith("malformed XML: mismatched tag: line 1")
    bytes_of = autoload(folder / "y", "xml", "y", rowTag="r")
    assert [row["v"] for row in rows(bytes_of)] == ["good"]
    ((_, encoded, reason, _),) = held(bytes_of).values()
    # No reader of XML goes on behind such a byte: the rest of the file is one record.
    assert (base64.b64decode(encoded), reason[:13]) == (b"<r><v>\xff</v></r></p>", "malformed XML")


def test_times_in_a_format_of_their_own_are_read_by_spark_or_rescued(landed, autoload, rows):
    lines = ['{"id":1,"at":"03/02/2026"}', '{"id":2,"at":"2026-02-03"}', '{"id":3,"at":null,"x":1.10}']
    options = {"schema": "id INT, at DATE", "schema_evolution_mode": "rescue", "dateFormat": "dd/MM/yyyy"}
    found = {row["id"]: row for row in rows(autoload(landed(a__json="\n".join(lines)), "json", **options))}
    assert (found[1]["at"], found[1]["_rescued_data"]) == (date(2026, 2, 3), None)
    assert (found[2]["at"], rescued(found[2])) == (None, {"at": "2026-02-03"})
    assert found[3]["_rescued_data"].startswith('{"x":1.10,')


@pytest.mark.parametrize("kind", ["csv", "parquet", "orc", "avro"])
def test_a_file_called_like_a_stand_in_keeps_its_own_name(kind, landed, autoload, rows):
    # A TIME or a map with other keys than texts is read from a copy, whose name is the engine's own.
    time = [pa.array([dt_time(1)], pa.time64("us"))]
    names = ("file-000000", "x?y", "part-0")
    contents = {
        "csv": lambda n: f"id\n{n}\n",
        "parquet": lambda n: written(pq.write_table, pa.table([[n], *time], ["id", "at"])),
        "orc": lambda n: written(pyarrow.orc.write_table, pa.table({"id": [n], "a b": [n]})),
        "avro": avro_file,
    }
    folder = landed(**{f"{name}__{kind}": contents[kind](n) for n, name in enumerate(names)})
    found = rows(autoload(folder, kind), "id", "_source_file")
    assert {int(row["id"]): row["_source_file"].rpartition("/")[2] for row in found} == {
        n: f"{name}.{kind}" for n, name in enumerate(names)
    }


def written(write, table):
    out = io.BytesIO()
    write(table, out)
    return out.getvalue()


def avro_file(number):
    out = io.BytesIO()
    fields = [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
    ]
    fastavro.writer(
        out, {"type": "record", "name": "r", "fields": fields}, [{"id": number, "at": dt_time(1)}]
    )
    return out.getvalue()


def test_a_refused_row_of_a_file_with_columns_says_which_it_was(landed, autoload):
    text = written(pq.write_table, pa.table({"id": [1, 2, 3], "n": ["x", None, "y"]}))
    done = autoload(landed(a__parquet=text), "parquet", schema="id BIGINT, n INT")
    assert sorted(held(done)) == ["record 1", "record 3"]


def test_a_part_of_a_value_that_does_not_fit_a_date_format_is_rescued_with_its_value(landed, autoload, rows):
    lines = [
        {"id": 1, "at": "2026-01-01 08:30", "of": {"on": "31/12/2025", "n": 1}, "days": ["01/02/2026"]},
        {"id": 2, "of": {"on": "2025-12-31", "n": 2}},
        {"id": 3, "days": ["01/02/2026", "2026-02-01"]},
        {"id": 4, "at": "08:30"},
    ]
    schema = "id INT, at TIMESTAMP, of STRUCT<on: DATE, n: INT>, days ARRAY<DATE>"
    options = {"schema": schema, "schema_evolution_mode": "rescue", "dateFormat": "dd/MM/yyyy"}
    text = "\n".join(map(json.dumps, lines))
    found = {row["id"]: row for row in rows(autoload(landed(a__json=text), "json", **options))}
    assert (found[1]["of"]["on"], found[1]["days"]) == (date(2025, 12, 31), [date(2026, 2, 1)])
    assert rescued(found[1]) == {}
    for number, name in ((2, "of"), (3, "days"), (4, "at")):
        assert found[number][name] is None
        assert rescued(found[number]) == {name: lines[number - 1][name]}


@pytest.mark.parametrize("infers", [True, False])
def test_a_hint_of_a_decimal_rounds_no_number(landed, autoload, rows, infers):
    numbers = {1: "1.239", 2: "1e-9", 3: "1.2", 4: "12e-1", 5: '"1.239"', 6: '"1.20"', 7: "12345678.9"}
    lines = "".join(f'{{"id": {n}, "d": {number}}}\n' for n, number in numbers.items())
    result = autoload(
        landed(a__json=lines), "json", schema_hints="id INT, d DECIMAL(9,2)", infer_column_types=infers
    )
    found = {row["id"]: (row["d"], row["_rescued_data"] or "") for row in rows(result)}
    fits = {3: Decimal("1.20"), 4: Decimal("1.20"), 6: Decimal("1.20")}
    assert {n: d for n, (d, _) in found.items() if d is not None} == fits
    assert {n: re.search(r'"d": ?("[^"]*"|[^,}]*)', left)[1] for n, (_, left) in found.items() if left} == {
        n: number for n, number in numbers.items() if n not in fits
    }
