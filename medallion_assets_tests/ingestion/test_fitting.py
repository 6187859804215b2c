"""Only a file that the fast reader reads without loss is left to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from medallion_assets.ingestion.fitting import arrow_schema, fits
from medallion_assets_tests.shop import json_lines


def columns(**kinds):
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


LINES = ArrayType(StringType())
SCHEMA = arrow_schema(
    columns(
        a=LongType(), c=StringType(), d=DoubleType(), s=columns(x=IntegerType()), l=LINES, b=BooleanType()
    )
)
GOOD = b'{"a":1,"c":"x","s":{"x":2},"l":["y"],"b":true}'


def taken(folder, data, records):
    file = folder / "a.json"
    file.write_bytes(data)
    return fits(file, SCHEMA, records)


@pytest.mark.parametrize(("end", "last"), [(b"\n", b""), (b"\n", b"\n"), (b"\r\n", b"\r\n")])
def test_whole_lines_that_fit_are_taken_however_they_end(tmp_path, end, last):
    assert taken(tmp_path, GOOD + end + b'{"a":null}' + end + b"{}" + last, 3)


@pytest.mark.parametrize(
    "line",
    [
        b'{"z":1}', b'{"A":1}', b'{"s":{"x":1,"y":2}}', b'{"a":"1"}', b'{"a":1.0}', b'{"a":1}{"a":2}',
        b'{"a":1} x', b'{"a":1,"a":2}', b'{"c":"\xff"}', b'{"c":"\t"}', b'{"c":NaN}', b'{"d":1e400}', b"",
        b" ", b"[1]", b'{"a":1}\r{"a":2}', b'{"a":\r1}', b"{'a':1}", b'{"c":5}',
        b'{"a":\n1}', b'{"a":1},{"a":2}',
    ],
)  # fmt: skip
def test_one_odd_line_leaves_the_file_to_the_careful_reader(tmp_path, line):
    assert not taken(tmp_path, b"\n".join([GOOD, line, GOOD]) + b"\n", 3)


def test_two_values_on_a_line_are_not_made_good_by_one_over_two_lines(tmp_path):
    assert not taken(tmp_path, b'{"a":1}{"a":2}\n{"a":\n3}\n', 3)


def test_types_the_two_readers_write_apart_are_not_looked_at():
    assert arrow_schema(columns(a=DateType())) is None
    assert arrow_schema(columns(a=columns(t=DateType()))) is None


whole = st.integers(-(2**63), 2**63 - 1)
objects = st.fixed_dictionaries({"a": whole, "c": st.text(max_size=5)})


@given(st.lists(objects, min_size=1))
def test_any_records_of_the_schema_fit(tmp_path_factory, records):
    lines = json_lines(*records)
    surrogates = any("\ud800" <= c <= "\udfff" for record in records for c in record["c"])
    folder = tmp_path_factory.mktemp("fit")
    assert taken(folder, lines.encode(), len(records)) or surrogates
