"""Only lines that hold nothing beyond the schema are taken typed; any other goes to the careful reader."""

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from medallion_assets.sources.formats import json_blocks
from medallion_assets.sources.formats.json_blocks import TypedReader
from medallion_assets_tests.examples import examples


def columns(**kinds):
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


LINES = ArrayType(StringType())
SCHEMA = columns(
    a=LongType(), c=StringType(), d=DoubleType(), s=columns(x=IntegerType()), l=LINES, b=BooleanType()
)
GOOD = b'{"a":1,"c":"x","s":{"x":2},"l":["y"],"b":true}'


@pytest.fixture(autouse=True)
def each_line_for_itself(monkeypatch):
    """Let one line that does not fit take no other with it to the careful reader."""
    monkeypatch.setattr(json_blocks, "FEW", 1)


def typed(data):
    """Return the rows taken typed, and the other lines."""
    found = TypedReader(SCHEMA).read(data)
    return [row for table in found.rows for row in table.to_pylist()], [line for _, line in found.others]


@pytest.mark.parametrize(("end", "last"), [(b"\n", b""), (b"\n", b"\n"), (b"\r\n", b"\r\n")])
def test_whole_lines_that_fit_are_taken_however_they_end(end, last):
    rows, others = typed(GOOD + end + b'{"a":null}' + end + b"{}" + last)
    none = dict.fromkeys("acdslb")
    assert rows == [none | {"a": 1, "c": "x", "s": {"x": 2}, "l": ["y"], "b": True}, none, none]
    assert not others


@pytest.mark.parametrize(
    "line",
    [
        b'{"z":1}', b'{"A":1}', b'{"s":{"x":1,"y":2}}', b'{"a":"1"}', b'{"a":1.0}', b'{"a":1}{"a":2}',
        b'{"a":1} x', b'{"a":1,"a":2}', b'{"c":"\xff"}', b'{"c":"\t"}', b'{"c":NaN}', b'{"d":1e400}',
        b"[1]", b"{'a':1}", b'{"c":5,"c":6}', b'{"a":1},{"a":2}',
    ],
)  # fmt: skip
def test_one_odd_line_is_left_to_the_careful_reader(line):
    rows, others = typed(b"\n".join([GOOD, line, GOOD]) + b"\n")
    assert [row["a"] for row in rows] in ([1, 1], [])
    assert line in others or not rows


@pytest.mark.parametrize("line", [b'{"z":1}', b'{"a":"1"}', b'{"a":1}{"a":2}', b'{"c":"\xff"}', b"[1]", b"{"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_beside_an_odd_one_are_taken(line, end):
    rows, others = typed(end.join([GOOD, line, b"  ", GOOD]) + end)
    assert [row["a"] for row in rows] == [1, 1]
    assert others == [line]


@pytest.mark.parametrize(
    "text",
    [b"5", b"-0", b"1.10", b"1e5", b"0.1000000000000000055511151231257827", b"1e400", b"true", b"[ 1, 2.50]",
     b'{"k" : "\\u00e9"}', "{\"k\":\"é\"}".encode()],
)  # fmt: skip
@pytest.mark.parametrize("beside", [b'{"c":"x"}', b'{"z":1}', b'{"c":false}'])
def test_a_column_of_strings_takes_the_text_of_any_other_value(text, beside):
    rows, _ = typed(b'{"a":7,"d":1.10,"s":{"x":2},"c": ' + text + b"}\n" + beside + b"\n")
    assert rows[0] == {"a": 7, "d": 1.1, "s": {"x": 2}, "c": text.decode(), "l": None, "b": None}


def test_two_values_on_a_line_are_not_made_good_by_one_over_two_lines():
    rows, _ = typed(b'{"a":1}{"a":2}\n{"a":\n3}\n')
    assert not rows


DIGITS = st.text("0123456789", min_size=1, max_size=45)
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))


@st.composite
def numbers(draw):
    whole = draw(DIGITS).lstrip("0") or "0"
    fraction = draw(st.just("") | DIGITS.map(".{}".format))
    power = draw(
        st.just("") | st.integers(-99, 99).map("e{}".format) | st.sampled_from(["E+5", "e-999999999"])
    )
    return draw(st.sampled_from(["", "-"])) + whole + fraction + power


@given(kind=DECIMALS, number=numbers())
@example(kind=(38, 38), number="9000000")
@example(kind=(38, 18), number="123456789012345678901234")
@example(kind=(9, 2), number="1e-77")
@example(kind=(9, 2), number="1e-999999999")
@examples(400, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_number_in_a_decimal_column_is_taken_as_it_stands_or_not_at_all(kind, number):
    schema = StructType(
        [StructField("v", DecimalType(*kind)), StructField("a", ArrayType(DecimalType(*kind)))]
    )
    lines = [f'{{"v":{number}}}', f'{{"a":[0, {number}]}}', '{"v":0}']
    found = TypedReader(schema).read("".join(f"{line}\n" for line in lines).encode())
    rows = [row for table in found.rows for row in table.to_pylist()]
    taken = [value for row in rows for value in (row["v"], *(row["a"] or ())) if value]
    assert all(value == Decimal(number) for value in taken)
    assert len(rows) + len(found.others) == len(lines)
