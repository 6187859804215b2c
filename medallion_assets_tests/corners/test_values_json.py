"""Every value of a JSON line is in its column, or in the rescued data, or its line is quarantined: unchanged.

The readers under test are held against Python's own ``json``, which keeps numbers as text here.
"""

import json
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from medallion_assets.sources.formats import json_blocks
from medallion_assets.sources.formats.json_blocks import TypedReader
from medallion_assets.sources.formats.json_rows import CarefulReader
from medallion_assets_tests.examples import examples


def columns(**kinds):
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


INNER = columns(x=IntegerType(), t=StringType(), m=DecimalType(5, 1))
SCHEMA = columns(
    id=LongType(),
    i=IntegerType(),
    d=DoubleType(),
    f=FloatType(),
    m=DecimalType(9, 2),
    c=StringType(),
    b=BooleanType(),
    day=DateType(),
    at=TimestampType(),
    s=INNER,
    l=ArrayType(StringType()),
    n=ArrayType(LongType()),
    o=ArrayType(INNER),
)
MAPPED = StructType([*SCHEMA.fields, StructField("k", MapType(StringType(), LongType()))])


def read(data, schema=SCHEMA):
    """Return for each line its values, its rescued fields by name, and why it is no row."""
    lines, careful = TypedReader(schema).read(data), CarefulReader(schema, True, True)
    judged = [careful.judge(line, "/f") for _, line in lines.others]
    # As Parquet has them: what Arrow refuses to store would be found out late.
    table = careful.table(judged, [None] * len(judged))
    rows = [(row, {}, None) for part in lines.rows for row in listed(part)]
    others = [
        ({name: row[name] for name in schema.names}, pairs(row["_check_rescued"]), row["_reason"])
        for row in listed(table)
    ]
    return rows, dict(zip((number for number, _ in lines.others), others, strict=True))


def listed(table):
    """Return a table's rows; times that Python's years 1 to 9999 do not hold as microseconds."""
    try:
        return table.to_pylist()
    except (OverflowError, ValueError):
        place = table.schema.get_field_index("at")
        return table.set_column(place, "at", table["at"].cast(pa.int64())).to_pylist()


class Number(str):
    """A number's text."""


def loads(text, **hooks):
    return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=refuse, **hooks)


def refuse(word):
    raise ValueError(word)


def pairs(text):
    if text is None:
        return []
    found = loads(text, object_pairs_hook=list)
    assert found[-1] == ("_file_path", "/f")
    return found[:-1]


def fields_of(line):
    """Return the fields of a line that is one sound object, None for any other line."""
    try:
        found = loads(line.decode(), object_pairs_hook=lambda pairs: pairs)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and line.lstrip(b" \t\r\n").startswith(b"{") else None


def is_same(value, kind, taken):
    """Return true where what a column took is the value that the file has."""
    if value is None or taken is None:
        return value is None and taken is None
    if isinstance(kind, StringType):
        return taken == value if isinstance(value, str) else as_pairs(taken) == value
    if isinstance(kind, BooleanType):
        return value is taken
    if isinstance(kind, (LongType, IntegerType)):
        return isinstance(value, Number) and int(value) == taken
    if isinstance(kind, (DoubleType, FloatType)):
        digits = len(value.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0")) or 1
        return isinstance(value, Number) and float(f"%.{digits - 1}e" % taken) == float(value)
    if isinstance(kind, DecimalType):
        return isinstance(value, str) and Decimal(value) == taken
    if isinstance(kind, DateType):
        return date.fromisoformat(value) == taken
    if isinstance(kind, TimestampType) and isinstance(taken, int):
        return isinstance(value, Number) and int(value) * 1_000_000 == taken
    if isinstance(kind, TimestampType):
        return moment(value) == taken
    if isinstance(kind, ArrayType):
        alike = (is_same(v, kind.elementType, t) for v, t in zip(value, taken, strict=True))
        return isinstance(value, list) and all(alike)
    kinds = {field.name: field.dataType for field in kind.fields}
    return all(is_same(v, kinds[k], taken[k]) for k, v in value)


def moment(value):
    if isinstance(value, Number):
        return datetime.fromtimestamp(int(value), timezone.utc)
    found = datetime.fromisoformat(value)
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def as_pairs(text):
    found = loads(text, object_pairs_hook=list)
    return {"true": True, "false": False}.get(text, found)


def assert_kept(line, answer, schema=SCHEMA):
    """Hold a line's answer against what Python reads of it: each field once, in a column or rescued."""
    values, rescued, reason = answer
    fields = fields_of(line)
    if fields is None:
        assert reason, line
        return
    assert reason is None, (line, reason)
    kinds = {field.name: field.dataType for field in schema.fields}
    names = [name for name, _ in fields]
    left = list(rescued)
    for name, value in fields:
        if (name, value) in left:
            left.remove((name, value))
            assert name not in kinds or names.count(name) > 1 or values[name] is None or has_unknown(value)
            continue
        inner = [pair for pair in left if pair[0] == name and isinstance(value, list)]
        if inner and isinstance(kinds[name], StructType):
            left.remove(inner[0])
            value = [pair for pair in value if pair not in inner[0][1] or pair[0] not in kinds[name].names]
            value = [pair for pair in value if pair[0] in kinds[name].names]
        assert is_same(value, kinds[name], values[name]), (line, name, values[name], rescued)
    assert not left, (line, left)
    assert all(values[name] is None for name in kinds if name not in names)


def has_unknown(value):
    return isinstance(value, list)


TEXTS = st.sampled_from(
    [
        "x",
        "",
        "é\u2028",
        "\x00",
        'q"\\/',
        "1.10",
        "2026-02-28",
        "2026-02-30",
        "2026-01-01T10:00:00Z",
        "\udc00",
        "2026-01-01 10:00:00.1234567",
        "2026-01-01T10:00:00.123456+02:00",
        "\ud800x",
        "12.5",
        "1e3",
    ]
)
NUMBERS = st.sampled_from(
    [
        "0",
        "-0",
        "1",
        "1.0",
        "1.10",
        "1E2",
        "1e400",
        "1e-400",
        "0.1",
        "1.239",
        "-1e-9",
        "2147483648",
        "16777217",
        "9223372036854775808",
        "-9223372036854775808",
        "0.12345678901234567891",
        "9007199254740993",
        "99999999.99",
        "0.30000000000000004",
        "1234567.8",
        "9" * 400,
        "0." + "0" * 330 + "1",
        "5e-324",
        "100000000000000000000",
    ]
)
NAMES = st.sampled_from([*SCHEMA.names, "k", "ID", "other", "x", "", "\ud800", "a`b", "_raw", "é", "e\u0301"])


def written(value, escape):
    return json.dumps(value, ensure_ascii=escape)


SCALARS = st.one_of(
    NUMBERS,
    st.builds(written, TEXTS, st.booleans()),
    st.sampled_from(["true", "false", "null"]),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-999, 999, places=3).map(str),
)
BLANKS = st.sampled_from(["", " ", "\t"])


def objects(values):
    member = st.builds("{0}{1}:{0}{2}".format, BLANKS, st.builds(written, NAMES, st.booleans()), values)
    return st.lists(member, max_size=5).map(lambda members: "{" + ",".join(members) + "}")


VALUES = st.recursive(
    SCALARS,
    lambda inner: objects(inner) | st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
    max_leaves=6,
)
SOUND = objects(VALUES).map(lambda text: text.encode("utf-8", "surrogatepass"))
BROKEN = st.builds(
    lambda line, at, junk: line[: at % (len(line) + 1)] + junk + line[at % (len(line) + 1) :],
    SOUND,
    st.integers(0, 200),
    st.sampled_from(
        [b"", b'"', b"{", b"}", b",", b"\xff", b"\x00", b"1", b"NaN", b"'", b"\\", b" x", b'{"a":1}']
    ),
)


@pytest.fixture(scope="module", autouse=True)
def each_line_for_itself():
    """Let one line that does not fit take no other with it to the careful reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_blocks, "FEW", 1)
        yield


@given(st.lists(SOUND | BROKEN, min_size=1, max_size=8))
@example([b'{"at": -62135596801}', b'{"at": -62135596801, "x": 1}'])
@examples(80)
def test_each_value_is_in_its_column_or_rescued_as_it_is(lines):
    rows, others = read(b"\n".join(lines))
    good = iter(rows)
    for number, line in enumerate(lines):
        if line.strip(b" \t\r\n"):
            assert_kept(line, others[number] if number in others else next(good))
    assert next(good, None) is None


@given(st.lists(SOUND, min_size=1, max_size=4))
@examples(40)
def test_the_fast_reader_takes_nothing_that_the_careful_one_would_not(lines):
    careful, typed = CarefulReader(SCHEMA, True, True), TypedReader(SCHEMA)
    for line in lines:
        found = typed.read(line)
        if found.rows:
            judged = careful.judge(line, "/f")
            assert (judged.rescued, judged.reason) == (None, None)
            assert listed(careful.table([judged], [None]).select(SCHEMA.names)) == listed(found.rows[0])


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ('{"m":1.239}', [("m", "1.239")]),
        ('{"m":1e-9}', [("m", "1e-9")]),
        ('{"id":1.0}', [("id", "1.0")]),
        ('{"c":"\\ud800"}', [("c", "\ud800")]),
        ('{"\\ud800":1}', [("\ud800", "1")]),
        ('{"id":1,"\\u0069d":2}', [("id", "1"), ("id", "2")]),
        ('{"day":"2020-02-30"}', [("day", "2020-02-30")]),
        ('{"at":"2026-01-01T00:00:00.123456789Z"}', [("at", "2026-01-01T00:00:00.123456789Z")]),
        ('{"at":"08:30"}', [("at", "08:30")]),
        ('{"day":"2026-01-01T10:00:00"}', [("day", "2026-01-01T10:00:00")]),
        ('{"d":0.12345678901234567891}', [("d", "0.12345678901234567891")]),
        ('{"d":1e-400}', [("d", "1e-400")]),
        ('{"s":{"x":1,"y":1.10}}', [("s", [("y", "1.10")])]),
        ('{"n":[1,2.5]}', [("n", ["1", "2.5"])]),
        ('{"new":' + "[" * 900 + "]" * 900 + "}", None),
        ('{"new":' + "1" * 1500 + "}", [("new", "1" * 1500)]),
        ('{"' + "k" * 60_000 + '":1}', [("k" * 60_000, "1")]),
        ('{"k":{"a":1,"a":2}}', [("k", [("a", "1"), ("a", "2")])]),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_a_column_would_change_is_rescued_as_it_is(line, left):
    rows, others = read(line.encode(), MAPPED)
    ((_, rescued, reason),) = [*rows, *others.values()]
    assert reason is None
    assert rescued == left if left else rescued


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ('{"l":[1.10,"a",true]}', "l", ["1.10", "a", "true"]),
        ('{"s":{"t":1.10}}', "s", {"x": None, "t": "1.10", "m": None}),
        ('{"c":{"k" : 1.50}}', "c", '{"k" : 1.50}'),
        ('{"m":"1.20"}', "m", Decimal("1.20")),
        ('{"m":1e2}', "m", Decimal(100)),
        ('{"id":-0}', "id", 0),
        ('{"c":-0}', "c", "-0"),
        ('{"c":"\\u0000"}', "c", "\0"),
        ('{"d":0.30000000000000004}', "d", 0.1 + 0.2),
        ('{"d":1.00000000000000000000}', "d", 1.0),
        ('{"k":{"a":1}}', "k", [("a", 1)]),
        ('{"c":' + "[" * 5000 + "]" * 5000 + "}", "c", "[" * 5000 + "]" * 5000),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_a_column_holds_exactly_it_takes(line, name, value):
    rows, others = read(line.encode(), MAPPED)
    ((values, rescued, reason),) = [*rows, *others.values()]
    assert (values[name], rescued or [], reason) == (value, [], None)


def test_bytes_that_are_no_text_are_kept_beside_what_can_be_read_of_them():
    careful = CarefulReader(SCHEMA, True, True)
    judged = careful.judge(b'{"c":"\xe9"}', "/f")
    assert (judged.raw, judged.reason, judged.encoded) == (
        '{"c":"\ufffd"}',
        "not valid UTF-8",
        "eyJjIjoi6SJ9",
    )


def test_without_rescued_data_a_value_that_does_not_fit_refuses_its_record():
    careful = CarefulReader(SCHEMA, False, False)
    reasons = [
        careful.judge(line, "/f").reason for line in (b'{"m":1.239}', b'{"id":1,"id":2}', b'{"new":1}')
    ]
    assert reasons == ["does not fit the schema", "does not fit the schema: a key is there twice", None]
