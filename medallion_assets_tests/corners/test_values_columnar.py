"""Every cell of Parquet, ORC and Avro files, held against pyarrow's and fastavro's own reading of them."""

import base64
import datetime as dt
import io
import json
import math
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pyorc
import pytest
from pyorc.converters import ORCConverter

from medallion_assets.delta import log
from medallion_assets.quality.verdicts import refused_files

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
LONG = Decimal("12345678901234567890123456789012345678901234567.25")
COLUMNS = {
    "u8": pa.array([255, 0], pa.uint8()),
    "u32": pa.array([2**32 - 1, 0], pa.uint32()),
    "u64": pa.array([2**64 - 1, 0], pa.uint64()),
    "i8": pa.array([-128, 127], pa.int8()),
    "f16": pa.array([1.5, -0.25], pa.float16()),
    "f32": pa.array([1.1, float("inf")], pa.float32()),
    "nan": pa.array([float("nan"), float("-inf")]),
    "time_ms": pa.array([dt.time(1, 2, 3), dt.time(23, 59, 59, 999000)], pa.time32("ms")),
    "time_us": pa.array([dt.time(1, 2, 3, 4), dt.time(0)], pa.time64("us")),
    "time_ns": pa.array([1, 10**9], pa.time64("ns")),
    "long_decimal": pa.array([LONG, Decimal("0.01")], pa.decimal256(50, 2)),
    "decimal": pa.array([Decimal("1.25"), Decimal("-0.01")], pa.decimal128(38, 2)),
    "short_decimal": pa.array([Decimal("1.25"), Decimal("-0.01")], pa.decimal256(20, 2)),
    "ns": pa.array([1, 1_000], pa.timestamp("ns")),
    "ns_zoned": pa.array([10**18, 10**18 + 1], pa.timestamp("ns", "UTC")),
    "us": pa.array([MOMENT, dt.datetime(1, 1, 1)], pa.timestamp("us")),
    "us_zoned": pa.array([MOMENT, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us", "UTC")),
    "ms": pa.array([dt.datetime(1, 1, 1), dt.datetime(1581, 5, 5)], pa.timestamp("ms")),
    "date": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)], pa.date32()),
    "duration": pa.array([1, -5], pa.duration("us")),
    "untyped": pa.array([None, None], pa.null()),
    "bytes": pa.array([b"\xff\x00", b""]),
    "large_bytes": pa.array([b"\xff\x00", b""], pa.large_binary()),
    "fixed": pa.array([b"abc", b"\x00\xff\x00"], pa.binary(3)),
    "large_text": pa.array(["x", ""], pa.large_string()),
    "text_view": pa.array(["x", "🙂"], pa.string_view()),
    "dictionary": pa.array(["x", "y"]).dictionary_encode(),
    "list": pa.array([[1, None], []], pa.large_list(pa.int64())),
    "list_view": pa.array([[1], [2]], pa.list_view(pa.int64())),
    "fixed_list": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
    "list_ns": pa.array([[1_000], [1]], pa.list_(pa.timestamp("ns"))),
    "list_f16": pa.array([[1.5], [None]], pa.list_(pa.float16())),
    "list_untyped": pa.array([[None], []], pa.list_(pa.null())),
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "map_by_number": pa.array([[(3, 1)], []], pa.map_(pa.int64(), pa.int64())),
    "struct": pa.array([{"a": 1, "b": None}, None], pa.struct({"a": pa.int64(), "b": pa.string()})),
    "struct_time": pa.array([{"t": dt.time(1)}, None], pa.struct({"t": pa.time64("us")})),
    "struct_by_case": pa.array([{"a": 1, "A": 2}, None], pa.struct({"a": pa.int64(), "A": pa.int64()})),
    "uuid": pa.array([b"\x01" * 16, None], pa.uuid()),
    "json": pa.array(['{"a": 1}', None], pa.json_()),
    "back`tick": pa.array([1, 2]),
    "dotted.name": pa.array([1, 2]),
    "a b;c": pa.array([1, 2]),
}  # fmt: skip


def parquet(columns):
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def orc(columns):
    out = io.BytesIO()
    pyarrow.orc.write_table(pa.table(columns), out)
    return out.getvalue()


def text_of(value):
    """What a value is, in one notation whoever read it."""
    if isinstance(value, dict):
        return json.dumps({k: text_of(v) for k, v in value.items() if v is not None}, sort_keys=True)
    if isinstance(value, (list, tuple)):
        pairs = [v for v in value if isinstance(v, tuple)]
        return text_of({str(k): v for k, v in pairs}) if pairs else json.dumps([text_of(v) for v in value])
    if isinstance(value, bool):
        # As Spark and JSON write it: a column may be a string for another file's sake.
        return str(value).lower()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (dt.datetime, dt.time)):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")[:26]
    if isinstance(value, dt.timedelta):
        return str(value // dt.timedelta(microseconds=1))
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value)
    return value if isinstance(value, str) else str(value)


EXPECTED = {
    "time_ms": ["01:02:03.000", "23:59:59.999"],
    "time_us": ["01:02:03.000004", "00:00:00.000000"],
    "time_ns": ["00:00:00.000000001", "00:00:01.000000000"],
    "ns": ["1970-01-01T00:00:00.000000001", "1970-01-01T00:00:00.000001"],
    "ns_zoned": ["2001-09-09T01:46:40.000000", "2001-09-09T01:46:40.000000001"],
    "list_ns": ['["1970-01-01T00:00:00.000001"]', '["1970-01-01T00:00:00.000000001"]'],
    "struct_time": ['{"t": "01:00:00.000000"}', "None"],
    "struct_by_case": ['{"A": "2", "a": "1"}', "None"],
    "uuid": ["01010101-0101-0101-0101-010101010101", "None"],
    "map": ['{"a": "1"}', "[]"],
    "map_by_number": ['{"3": "1"}', "[]"],
}
"""What the file says, where pyarrow's Python values do not say all of it."""

RESCUED = {("ns", 0), ("ns_zoned", 1), ("list_ns", 1), ("back`tick", 0), ("back`tick", 1)}
"""Cells with nanoseconds, which no TIMESTAMP holds, and those of a name that no column may have."""


def expected(columns):
    return {
        (name, n): EXPECTED[name][n] if name in EXPECTED else text_of(value)
        for name, values in columns.items()
        for n, value in enumerate(values.to_pylist())
    }


def loaded_cells(spark, result, names):
    """Every cell of a load by column and row, and which of them were rescued."""
    frame = spark.read.format("delta").load(str(result.path))
    found, rescued = {}, set()
    for row in frame.toArrow().to_pylist():
        kept = json.loads(row["_rescued_data"] or "{}")
        for name in names:
            value = row.get(name)
            if name in kept:
                assert value is None, name
                # An instant of an ORC file is told with its zone.
                value = json.loads(json.dumps(kept[name]).replace("+00:00", ""))
                rescued.add((name, row["n"]))
            if row["_source_file"] == result_file(name):
                value = json.loads(value or "null") if name == "struct_by_case" else value
                found[name, row["n"]] = text_of(value)
    return found, rescued


def result_file(name):
    """Beside good files are those with what Spark refuses."""
    return "odd" if name in ODD else "good"


ODD = {
    *(
        "f16",
        "time_ms",
        "time_us",
        "time_ns",
        "long_decimal",
        "ns",
        "ns_zoned",
        "list_ns",
        "list_f16",
        "uuid",
    ),
    *("uuid", "struct_time", "struct_by_case", "untyped", "list_untyped", "back`tick"),
}


def orc_takes(name):
    try:
        return bool(orc({name: COLUMNS[name]}))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return False


@pytest.mark.spark
@pytest.mark.parametrize("write", [parquet, orc])
def test_every_cell_of_every_type_arrives_or_is_rescued(write, landed, autoload, spark):
    columns = {name: values for name, values in COLUMNS.items() if write is parquet or orc_takes(name)}
    files = {file: {"n": pa.array([0, 1], pa.int64())} for file in ("good", "odd")}
    for name, values in columns.items():
        files[result_file(name)][name] = values
    empty = pa.table(files["good"]).slice(0, 0)
    alone = autoload(landed(rowless=write(empty)), write.__name__)
    assert (alone.files, alone.rows_loaded, alone.rows_unaccounted) == (1, 0, 0)
    contents = {file: write(held) for file, held in files.items()}
    result = autoload(landed(**contents), write.__name__)
    assert (result.files, result.rows_loaded, result.rows_unaccounted) == (2, 4, 0)
    found, rescued = loaded_cells(spark, result, list(columns))
    assert found == expected(columns)
    assert rescued == {cell for cell in RESCUED if cell[0] in columns}
    if write is parquet:
        # deltalake reads INT96 as nanoseconds, which the years 1 and 9999 are not.
        years = (
            "SELECT date_part('year', us) AS a, date_part('year', us_zoned) AS b FROM t WHERE us IS NOT NULL"
        )
        assert {(row["a"], row["b"]) for row in log.rows(result.path, years)} == {(2026, 2026), (1, 9999)}


BYTES = [b"ok", b"caf\xe9", b"\xff"]
"""Texts as some writers leave them: two are no UTF-8."""


@pytest.mark.spark
@pytest.mark.parametrize("rescues", [True, False])
@pytest.mark.parametrize("write", [parquet, orc])
def test_texts_that_are_no_utf_8_are_kept_as_their_bytes_however_deep_they_lie(
    write, rescues, landed, autoload, spark
):
    texts = pa.Array.from_buffers(pa.string(), 3, pa.array(BYTES, pa.binary()).buffers())
    ends, n = pa.array([0, 1, 2, 3], pa.int32()), pa.array([0, 1, 2], pa.int64())
    deep = pa.StructArray.from_arrays([pa.ListArray.from_arrays(ends, texts), n], ["x", "y"])
    columns = {"text": texts, "list": pa.ListArray.from_arrays(ends, texts), "deep": deep}
    columns |= {"by": pa.MapArray.from_arrays(ends, texts, n), "to": pa.MapArray.from_arrays(ends, n, texts)}
    options = {} if rescues else {"rescued_data_column": ""}
    result = autoload(landed(a=write({"n": n, **columns})), write.__name__, **options)
    rows = log.rows(result.path, "SELECT * FROM t ORDER BY n")
    assert len(rows) == (3 if rescues else 1)
    assert (rows[0]["text"], rows[0]["list"], rows[0]["deep"]["x"]) == ("ok", ["ok"], ["ok"])
    kept = [json.loads(row["_rescued_data"]) for row in rows[1:]] if rescues else [
        json.loads(row["row"])
        for row in log.rows(result.quarantine, "SELECT row FROM t ORDER BY position")
    ]  # fmt: skip
    for number, left in enumerate(kept, 1):
        told = base64.b64encode(BYTES[number]).decode()
        assert {name: left[name] for name in columns} == {
            "text": told, "list": [told], "deep": {"x": [told], "y": number}, "by": {told: number},
            "to": {str(number): told},
        }  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("write", [parquet, orc])
def test_columns_that_differ_in_case_only_are_a_column_and_rescued_fields(write, landed, autoload, spark):
    by_case = {"n": pa.array([0, 1], pa.int64()), "v": pa.array([7, None], pa.int64()),
               "V": pa.array(["x", "y"]), "_v": pa.array([1.5, None])}  # fmt: skip
    other = {"n": pa.array([2], pa.int64()), "V": pa.array(["z"])}
    for name, columns, records in (("a", by_case, 2), ("b", other, 1)):
        result = autoload(landed(**{name: write(columns)}), write.__name__)
        assert (result.files, result.rows_loaded, result.rows_unaccounted) == (1, records, 0)
    found = spark.read.format("delta").load(str(result.path)).orderBy("n").toArrow().to_pylist()
    kept = [{k: v for k, v in json.loads(row["_rescued_data"] or "{}").items() if k != "_file_path"}
            for row in found]  # fmt: skip
    assert [(row["v"], row["_v"], left) for row, left in zip(found, kept, strict=True)] == [
        (7, 1.5, {"V": "x"}), (None, None, {"V": "y"}), (None, None, {"V": "z"})
    ]  # fmt: skip


@pytest.mark.spark
def test_parquet_that_spark_cannot_decode_is_read_all_the_same_or_refused_in_plain_words(
    landed, autoload, rows
):
    columns = {"n": [1, 2, 3], "f": [0.1, None, -2.5], "s": ["x", None, "é"]}
    odd = {"split": {"use_dictionary": False, "column_encoding": {"f": "BYTE_STREAM_SPLIT"}},
           "brotli": {"compression": "brotli"}, "plain": {}}  # fmt: skip
    files = {}
    for name, options in odd.items():
        out = io.BytesIO()
        pq.write_table(pa.table(columns), out, **options)
        files[name] = out.getvalue()
    # No TIMESTAMP is as far from 1970 as this one of milliseconds.
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("ms"))
    result = autoload(landed(**files, far=parquet({"n": [4], "t": far})), "parquet")
    assert (result.files, result.rows_loaded, result.files_refused) == (3, 9, 1)
    expected = [*zip(*columns.values(), strict=True)] * 3
    found = [(row["n"], row["f"], row["s"]) for row in rows(result, "n", "f", "s")]
    assert sorted(found, key=str) == sorted(expected, key=str)
    (refused,) = refused_files(result.ledger)
    assert Path(refused["path"]).name == "far"
    assert not re.search(r"An error occurred|\bo\d+\.", refused["reason"])
    assert "overflow" in refused["reason"]


# Spark writes the last second before 1970 as the first after it, where it has a fraction: no reader can tell.
ANCIENT = """
    SELECT 1 AS n, TIMESTAMP'0001-01-01 00:00:00' AS t, DATE'0001-01-01' AS d
    UNION ALL SELECT 2, TIMESTAMP'1969-12-31 23:59:58.999999', DATE'1582-10-15'
    UNION ALL SELECT 3, TIMESTAMP'9999-12-31 23:59:59.999999', DATE'9999-12-31'
"""


class Moments(ORCConverter):
    """Writes times given as seconds and nanoseconds."""

    @staticmethod
    def from_orc(seconds, nanoseconds, timezone):
        return seconds, nanoseconds

    @staticmethod
    def to_orc(moment, timezone):
        return moment


def written_by_spark(spark, folder, query):
    spark.sql(query).coalesce(1).write.orc(str(folder))
    return next(folder.glob("*.orc")).read_bytes()


@pytest.mark.spark
def test_the_first_and_the_last_years_of_an_orc_file_arrive_whoever_wrote_it(
    landed, autoload, spark, tmp_path
):
    rows = spark.sql(ANCIENT).orderBy("n").toArrow().to_pylist()
    columns = {name: [row[name] for row in rows] for name in ("n", "d")}
    times = pa.array([row["t"].replace(tzinfo=None) for row in rows], pa.timestamp("us"))
    by_spark = written_by_spark(spark, tmp_path / "spark", ANCIENT)
    result = autoload(landed(spark=by_spark, arrow=orc({**columns, "t": times})), "orc")
    assert (result.files, result.rows_loaded, result.values_unaccounted) == (2, 6, {})
    found = spark.read.format("delta").load(str(result.path)).orderBy("n").toArrow().to_pylist()
    assert [(row["n"], row["t"], row["d"]) for row in found] == [
        (row["n"], row["t"], row["d"]) for row in rows for _ in range(2)
    ]


@pytest.mark.spark
def test_an_orc_file_whose_calendar_only_spark_knows_is_refused_where_spark_cannot_read_it(
    landed, autoload, spark, tmp_path
):
    odd = written_by_spark(spark, tmp_path / "spark", "SELECT DATE'1581-01-01' AS `a day`, 1 AS n")
    sound = orc({"n": [2], "a day": [dt.date(1581, 1, 1)]})
    result = autoload(landed(odd=odd, sound=sound), "orc")
    assert (result.files, result.rows_loaded, result.files_refused) == (1, 1, 1)
    (refused,) = refused_files(result.ledger)
    assert Path(refused["path"]).name == "odd"
    assert "write it as Parquet" in refused["reason"]


@pytest.mark.spark
def test_nanoseconds_of_an_orc_file_are_rescued_or_its_file_is_refused_and_never_cut(landed, autoload, spark):
    far, fine = 253_370_764_800, [1_000_000_001, -1]
    alone = orc({"n": [1, 2], "t": pa.array(fine, pa.timestamp("ns"))})
    result = autoload(landed(alone=alone), "orc")
    rows = spark.read.format("delta").load(str(result.path)).orderBy("n").collect()
    assert [(row.t, json.loads(row._rescued_data)["t"][:29]) for row in rows] == [
        (None, "1970-01-01T00:00:01.000000001"),
        (None, "1969-12-31T23:59:59.999999999"),
    ]
    schema = pyorc.Struct(n=pyorc.BigInt(), t=pyorc.Timestamp())
    out = io.BytesIO()
    with pyorc.Writer(out, schema, converters={pyorc.TypeKind.TIMESTAMP: Moments}) as writer:
        writer.writerows([(3, (far, 0)), (4, (0, 1))])
    result = autoload(landed(beside=out.getvalue()), "orc")
    assert (result.rows_loaded, result.files_refused) == (0, 1)
