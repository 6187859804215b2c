"""Copies of columnar files, and tables of widened columns, held against what was written."""

import datetime as dt
import io
import json
import zlib
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import given
from hypothesis import strategies as st

from medallion_assets.delta import log
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.avro import _without_logical_types
from medallion_assets.sources.formats.exact_copy import MISFITS, copy_exactly, exactly, footer, names_of
from medallion_assets_tests.corners.test_values_columnar import COLUMNS, EXPECTED, text_of
from medallion_assets_tests.examples import examples


def test_a_table_of_widened_columns_answers_sql(tmp_path):
    table = tmp_path / "wide"
    write_deltalake(
        str(table), pa.table({"id": pa.array([1, None], pa.int32()), "day": ["a", "a"]}), partition_by=["day"]
    )
    entry = table / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7} | features
        if "metaData" in action:
            action["metaData"]["schemaString"] = action["metaData"]["schemaString"].replace("integer", "long")
    entry.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(Exception, match="typeWidening"):
        DeltaTable(str(table)).to_pyarrow_dataset()
    assert log.rows(table, "SELECT day, sum(id) + 3000000000 AS n, count(*) AS rows FROM t GROUP BY day") == [
        {"day": "a", "n": 3_000_000_001, "rows": 2}
    ]
    assert log.rows(table, "SELECT count(*) AS n FROM t, o", o=table) == [{"n": 4}]


@pytest.mark.spark
def test_the_guide_says_who_cannot_read_a_table_of_widened_columns(landed, autoload, spark):
    # Where a release of deltalake reads such a table, the guide has to say so.
    options = {"schema_evolution_mode": "addNewColumnsWithTypeWidening"}
    first, second = (io.BytesIO(), io.BytesIO())
    pq.write_table(pa.table({"n": pa.array([1], pa.int32())}), first)
    pq.write_table(pa.table({"n": pa.array([2**40], pa.int64())}), second)
    autoload(landed(a=first.getvalue()), "parquet", **options)
    done = autoload(landed(b=second.getvalue()), "parquet", **options)
    assert spark.read.format("delta").load(str(done.path)).agg({"n": "sum"}).first()[0] == 2**40 + 1
    assert log.rows(done.path, "SELECT sum(n) AS n FROM t") == [{"n": 2**40 + 1}]
    with pytest.raises(DeltaError, match="typeWidening"):
        DeltaTable(str(done.path)).to_pyarrow_dataset()
    guide = " ".join((Path(__file__).parents[2] / "docs/evolution.md").read_text().split())
    release = ".".join(version("deltalake").split(".")[:2])
    assert (
        "A table of the mode `addNewColumnsWithTypeWidening` has Delta's feature `typeWidening`, which Spark "
        f"reads and `deltalake` {release} does not" in guide
    )


HOME = {"type": "record", "name": "Home", "fields": [{"name": "zip", "type": "string"}]}
ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "scale": 2}
AVRO = {
    "type": "record", "name": "r", "namespace": "a.b",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "time_millis", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "time_micros", "type": ["null", {"type": "long", "logicalType": "time-micros"}]},
        {"name": "nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "date", "type": {"type": "int", "logicalType": "date"}},
        {"name": "choice", "type": ["null", "int", "string", ENUM]},
        {"name": "whole", "type": ["int", "long"]},
        {"name": "home", "type": HOME},
        {"name": "work", "type": ["null", "Home"]},
        {"name": "homes", "type": {"type": "map", "values": "a.b.Home"}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "long_decimal", "type": DECIMAL | {"precision": 50}},
        {"name": "decimal", "type": DECIMAL | {"precision": 4}},
        {"name": "duration", "type": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}},
        {"name": "unknown", "type": {"type": "string", "logicalType": "ours"}},
    ],
}  # fmt: skip
PLAIN = {
    **{"n": 0, "uuid": "u", "time_millis": 1, "time_micros": None, "nanos": 1001, "micros": 2**55},
    **{"date": -719162, "choice": 7, "whole": 2**40, "home": {"zip": "1"}, "work": {"zip": "2"}},
    **{"homes": {"k": {"zip": "3"}}, "fixed": b"\xff\x00", "long_decimal": b"\x01", "decimal": b"\x7f"},
    **{"duration": b"d" * 12, "unknown": "x"},
}
"""Values without their logical types, which fastavro's Python types cannot all hold."""


def avro_file(path, schema, records):
    """Write values as they are under a schema with logical types."""
    blank = io.BytesIO()
    fastavro.writer(blank, schema, [])
    with path.open("wb") as file:
        file.write(blank.getvalue())
        body = io.BytesIO()
        for record in records:
            fastavro.schemaless_writer(body, _without_logical_types(schema), record)
        for number in (len(records), body.tell()):
            file.write(zigzag(number))
        file.write(body.getvalue() + blank.getvalue()[-16:])


def compressed(codec, block):
    """Return a block as Avro's specification asks for: of snappy with its checksum behind it."""
    data = pa.Codec("zstd" if codec == "zstandard" else codec).compress(block, asbytes=True)
    return data + zlib.crc32(block).to_bytes(4, "big") if codec == "snappy" else data


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_avro_is_read_in_the_compressions_that_spark_and_kafka_write_it_in(codec, tmp_path):
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    header = {"avro.schema": json.dumps(schema), "avro.codec": codec}
    pairs = b"".join(zigzag(len(text)) + text.encode() for pair in header.items() for text in pair)
    whole = b"Obj\x01" + zigzag(len(header)) + pairs + b"\x00" + b"s" * 16
    for first in range(0, 3000, 1000):
        block = compressed(codec, b"".join(map(zigzag, range(first, first + 1000))))
        whole += zigzag(1000) + zigzag(len(block)) + block + b"s" * 16
    (tmp_path / "a.avro").write_bytes(whole)
    assert footer(tmp_path / "a.avro", "avro")[0] == 3000
    assert [row["n"] for row in copied(tmp_path / "a.avro", "avro")[0]] == [*range(3000)]
    # Of the two only Snappy's blocks have a checksum; of the other the frame's mark is damaged.
    damaged = bytearray(whole)
    damaged[-30 if codec == "snappy" else -len(block) - 16] ^= 1
    (tmp_path / "b.avro").write_bytes(damaged)
    with pytest.raises(UnreadableFile, match=r"b\.avro cannot be read"):
        copied(tmp_path / "b.avro", "avro")


def zigzag(number):
    rest, out = number * 2, b""
    while rest > 127:
        out, rest = out + bytes([rest & 127 | 128]), rest >> 7
    return out + bytes([rest])


def copied(path, source_format):
    """The rows of a file's copy under the file's names, and what its columns could not hold."""
    copy = path.with_suffix(".copy")
    copy_exactly(path, source_format, copy)
    names = [name for name, _ in names_of(copy)]
    rows = pq.read_table(copy).to_pylist()
    return [dict(zip(names, row.values(), strict=False)) for row in rows], [dict(r[MISFITS]) for r in rows]


def test_every_avro_type_is_taken_and_every_value_is_kept(tmp_path):
    file = tmp_path / "a.avro"
    others = {
        "choice": ("a.b.E", "A"),
        "nanos": 1000,
        "decimal": b"\x7f\xff",
        "work": None,
        "time_micros": 86399999999,
    }
    avro_file(file, AVRO, [PLAIN, PLAIN | others])
    records, layout, _ = footer(file, "avro")
    assert (records, layout) == (2, "rows")
    (first, second), misfits = copied(file, "avro")
    assert misfits == [{"nanos": '"1970-01-01T00:00:00.000001001+00:00"'}, {"decimal": '"327.67"'}]
    assert first == {
        "n": 0, "uuid": "u", "time_millis": "00:00:00.001", "time_micros": None, "nanos": None,
        "micros": dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=2**55),
        "date": dt.date(1, 1, 1), "choice": {"member0": 7, "member1": None, "member2": None}, "whole": 2**40,
        "home": {"zip": "1"}, "work": {"zip": "2"}, "homes": [("k", {"zip": "3"})], "fixed": b"\xff\x00",
        "long_decimal": "0.01", "decimal": Decimal("1.27"), "duration": b"d" * 12, "unknown": "x",
    }  # fmt: skip
    assert second["choice"] == {"member0": None, "member1": None, "member2": "A"}
    assert (second["decimal"], second["time_micros"], second["work"]) == (None, "23:59:59.999999", None)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]},
            "holds itself",
        ),
        ("long", "is no record"),
    ],
)
def test_avro_no_table_can_have_is_refused_with_the_reason(schema, reason, tmp_path):
    out = tmp_path / "a.avro"
    with out.open("wb") as file:
        fastavro.writer(file, schema, [])
    with pytest.raises(UnreadableFile, match=reason):
        footer(out, "avro")


SCALARS = st.sampled_from([values for name, values in COLUMNS.items() if name not in EXPECTED])


@examples(20)
@given(kinds=st.lists(SCALARS, min_size=1, max_size=4), order=st.lists(st.integers(0, 1), max_size=6))
def test_a_copy_holds_every_value_or_says_which_it_cannot(kinds, order, tmp_path_factory):
    chosen = (pa.concat_arrays([values[:0], *(values[n : n + 1] for n in order)]) for values in kinds)
    table = pa.table({str(place): values for place, values in enumerate(chosen)})
    file = tmp_path_factory.mktemp("copy") / "f.parquet"
    pq.write_table(table, file)
    rows, misfits = copied(file, "parquet")
    assert not any(misfits)
    assert [[text_of(v) for v in row.values()] for row in rows] == [
        [text_of(v) for v in row.values()] for row in pq.read_table(file).to_pylist()
    ]


@examples(20)
@given(values=st.lists(st.none() | st.integers(-(2**62), 2**62), min_size=1, max_size=20))
def test_each_nanosecond_is_in_its_column_or_beside_it(values):
    whole = exactly(pa.array(values, pa.timestamp("ns")), pa.timestamp("us"))
    nested, lost = exactly(
        pa.array([[v] for v in values], pa.list_(pa.timestamp("ns"))), pa.list_(pa.timestamp("us"))
    )
    fits = [v is None or v % 1000 == 0 for v in values]
    kept = [v // 1000 if ok and v is not None else None for v, ok in zip(values, fits, strict=True)]
    assert whole[0].cast(pa.int64()).to_pylist() == kept
    assert whole[1] == lost == [place for place, ok in enumerate(fits) if not ok]
    assert [value is None for value in nested.to_pylist()] == [not ok for ok in fits]
