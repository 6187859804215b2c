"""Only lines that hold nothing beyond the schema are taken typed; any other goes to the careful reader."""

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from medallion_assets.sources.formats import json_typed
from medallion_assets.sources.formats.json_typed import TypedReader
from medallion_assets_tests.shop import json_lines


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
    monkeypatch.setattr(json_typed, "FEW", 1)


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
        b'{"a":1} x', b'{"a":1,"a":2}', b'{"c":"\xff"}', b'{"c":"\t"}', b'{"c":NaN}', b'{"d":1e400}', b"",
        b" ", b"[1]", b'{"a":1}\r{"a":2}', b'{"a":\r1}', b"{'a':1}", b'{"c":5,"c":6}',
        b'{"a":\n1}', b'{"a":1},{"a":2}',
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
     b'{"k" : "\\u00e9"}', "{\"k\":\"é\"}".encode(), b"123456789012345678901234567890"],
)  # fmt: skip
@pytest.mark.parametrize("beside", [b'{"c":"x"}', b'{"z":1}', b'{"c":false}'])
def test_a_column_of_strings_takes_the_text_of_any_other_value(text, beside):
    rows, _ = typed(b'{"a":7,"d":1.10,"s":{"x":2},"c": ' + text + b"}\n" + beside + b"\n")
    assert rows[0] == {"a": 7, "d": 1.1, "s": {"x": 2}, "c": text.decode(), "l": None, "b": None}


def test_two_values_on_a_line_are_not_made_good_by_one_over_two_lines():
    rows, _ = typed(b'{"a":1}{"a":2}\n{"a":\n3}\n')
    assert not rows


whole = st.integers(-(2**63), 2**63 - 1)
objects = st.fixed_dictionaries({"a": whole, "c": st.text(max_size=5)})


@given(st.lists(objects, min_size=1))
def test_any_records_of_the_schema_fit(records):
    rows, others = typed(json_lines(*records).encode())
    lone = [any("\ud800" <= c <= "\udfff" for c in record["c"]) for record in records]
    whole = [record for record, odd in zip(records, lone, strict=True) if not odd]
    assert [{"a": row["a"], "c": row["c"]} for row in rows] == whole
    assert len(others) == sum(lone)


JUNK = [*'"{}[],:\\\0\t\r\u2028+-.eE0 ', "null", "1e999", "NaN", "Infinity", "'", "//x", "{}", "01", "1.",
        "\\u", "\\ud800", "0x1", '"a":1,', "/**/", "\ufeff", '"s":{},', '"l":[1],']  # fmt: skip
VALUES = {
    "a": [1, -5, 2**63 - 1, None],
    "c": ["x", "é\u2028", 'q"\\', "", None, 5, 1.1, True, {"k": [1, "é"]}],
    "d": [1.5, 1e300, 3, 5e-324, None],
    "s": [{"x": 1}, {}, None],
    "l": [["a", None], [], None],
    "b": [True, False, None],
}


def spoilt_line(chance):
    made = {name: chance.choice(values) for name, values in VALUES.items() if chance.random() < 0.7}
    line = json.dumps(made, ensure_ascii=chance.random() < 0.5)
    for _ in range(chance.choice([0, 0, 1, 1, 2])):
        at, kind = chance.randrange(len(line) + 1), chance.random()
        junk = chance.choice(JUNK) if kind < 0.6 else ""
        line = line[:at] + junk + line[at + (kind >= 0.6) :]
    return line.encode("utf-8", "surrogatepass")


def strictly(line):
    """Return what Python reads of a line, each key once and no number that JSON has not."""

    def once(pairs):
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    found = json.loads(line.decode(), parse_constant=lambda word: pytest.fail(word), object_pairs_hook=once)
    assert set(found) <= set(VALUES)
    text = json.loads(line, parse_float=str, parse_int=str).get("c")
    if isinstance(text, bool | dict | list):
        found["c"] = json.dumps(text)
    elif text is not None:
        found["c"] = text
    inner = {"s": {"x": found["s"].get("x")}} if found.get("s") is not None else {}
    return dict.fromkeys(VALUES) | found | inner


def compact(row):
    """Return a row with an array or object in its column of strings without the white space in it."""
    try:
        held = json.loads(row["c"] or "", parse_float=str, parse_int=str)
    except ValueError:
        return row
    return row | {"c": json.dumps(held)} if isinstance(held, dict | list) else row


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_taken_typed_is_what_python_reads_of_it(seed):
    chance, taken = Random(seed), 0
    for _ in range(1000):
        data = b"\n".join(spoilt_line(chance) for _ in range(chance.randrange(1, 8)))
        lines = [line.rstrip(b"\r") for line in data.split(b"\n") if line.strip(b" \t\r\n")]
        rows, others = typed(data)
        left = Counter(others)
        good = [line for line in lines if not left[line] or left.subtract([line])] if rows else []
        assert list(map(compact, rows)) == [compact(strictly(line)) for line in good]
        taken += len(rows)
    assert taken > 1000
