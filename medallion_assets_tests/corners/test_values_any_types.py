"""Random texts under declared types, in JSON, CSV and XML: each is the value it says, or kept as written.

What a text says is decided here with ``int``, ``Decimal`` and ``datetime`` alone. One that is exactly a value
of its column's type is that value; any other is rescued, or its record is quarantined with its whole text.
Beside them lines of text files and whole binary files.
"""

import csv
import datetime as dt
import io
import json
import re
from decimal import MAX_PREC, Context, Decimal
from xml.sax.saxutils import escape

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from medallion_assets.delta import log
from medallion_assets.sources import autoload_to_table
from medallion_assets_tests.examples import FACTOR, examples

pytestmark = pytest.mark.spark
MISFIT = object()
UTC = dt.timezone.utc
JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Number(str):
    """A JSON number, as its text."""


def whole(bits):
    def value(text):
        fits = re.fullmatch(r"[+-]?[0-9]{1,40}", text) and -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1)
        return int(text) if fits else MISFIT

    return value


def decimal(text):
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", text, re.ASCII):
        return MISFIT
    number = Decimal(text)
    hundredths = Context(prec=MAX_PREC, traps=[]).scaleb(number, 2)
    is_whole = (
        number == 0 or hundredths.as_tuple().exponent >= 0 or hundredths == hundredths.to_integral_value()
    )
    return number if is_whole and abs(number) < 10**7 else MISFIT


def double(text):
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", text, re.ASCII):
        return MISFIT
    value, digits = float(text), re.sub(r"[eE].*|[^0-9]", "", text).lstrip("0")
    digits = digits.rstrip("0") if "." in text else digits
    if not digits:
        return value
    if value in (0, float("inf"), float("-inf")):
        return MISFIT
    return value if Decimal(f"{value:.{len(digits) - 1}e}") == Decimal(text) else MISFIT


def boolean(text):
    words = {"true": True, "t": True, "yes": True, "y": True, "1": True}
    words |= {"false": False, "f": False, "no": False, "n": False, "0": False}
    return words.get(text.lower(), MISFIT)


def date(text):
    found = re.fullmatch(r"(\d{4})-(\d\d?)-(\d\d?)(?:[T ]0?0(?::0?0(?::0?0(\.0*)?)?)?)?", text, re.ASCII)
    try:
        return dt.date(*map(int, found.group(1, 2, 3))) if found else MISFIT
    except ValueError:
        return MISFIT


def moment(text):
    """Return a moment in UTC of the forms drawn here, which name no zone but by an offset."""
    form = r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{0,6})(0*))?(Z|[+-]\d\d:\d\d)?)?"
    found = re.fullmatch(form, text, re.ASCII)
    if not found or (found[3] is not None and len(found[2]) < 8):
        return MISFIT
    try:
        zone = (found[5] or "+00:00").replace("Z", "+00:00")
        clock = (found[2] or "00:00").ljust(8, "#").replace("###", ":00")
        micros = (found[3] or "").ljust(6, "0")
        return dt.datetime.fromisoformat(f"{found[1]}T{clock}.{micros}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return MISFIT


PLAIN = {
    "INT": whole(32), "BIGINT": whole(64), "DECIMAL(9,2)": decimal, "DOUBLE": double, "BOOLEAN": boolean,
    "DATE": date, "TIMESTAMP": moment, "STRING": str,
}  # fmt: skip
NESTED = {
    "ARRAY<INT>": ["INT"],
    "STRUCT<x: INT, y: DATE>": {"x": "INT", "y": "DATE"},
    "MAP<STRING, DECIMAL(9,2)>": {"": "DECIMAL(9,2)"},
}


def of_json(value, kind):
    """Return what a column of this type takes of a JSON value, MISFIT for none of it."""
    if value is None:
        return None
    if isinstance(NESTED.get(kind), list):
        items = [of_json(item, NESTED[kind][0]) for item in value] if isinstance(value, list) else [MISFIT]
        return MISFIT if MISFIT in items else items
    if kind in NESTED:
        kinds = NESTED[kind]
        if not isinstance(value, dict) or ("" not in kinds and value.keys() - kinds.keys()):
            return MISFIT
        items = {name: of_json(item, kinds.get(name) or kinds[""]) for name, item in value.items()}
        items = dict.fromkeys(kinds.keys() - {""}) | items
        return MISFIT if MISFIT in items.values() else items
    if kind == "STRING":
        return value
    if isinstance(value, bool):
        return value if kind == "BOOLEAN" else MISFIT
    if isinstance(value, Number):
        if kind == "TIMESTAMP":
            seconds = whole(64)(value)
            fits = seconds is not MISFIT and -62_135_596_800 <= seconds < 253_402_300_800
            return dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=seconds) if fits else MISFIT
        return PLAIN[kind](value) if kind not in ("BOOLEAN", "DATE") else MISFIT
    fits = isinstance(value, str) and kind in ("DECIMAL(9,2)", "DATE", "TIMESTAMP")
    if fits and kind != "DECIMAL(9,2)" and (found := re.fullmatch(r"(\d{4})(?:-(\d\d?))?", value, re.ASCII)):
        # As Spark reads strings: the first day of a year or a month.
        value = f"{found[1]}-{(found[2] or '1'):0>2}-01"
    return PLAIN[kind](value) if fits else MISFIT


FAR = re.compile(r"[+-]\d{4}|\d{5}|0000", re.ASCII)
"""Beginnings of texts that are days of years which Spark has and Python has not."""


def near(value):
    """Return a value without such texts."""
    if isinstance(value, list):
        return [near(item) for item in value]
    if isinstance(value, dict):
        return {name: near(item) for name, item in value.items()}
    return "far" if type(value) is str and FAR.match(value) else value


ZONES = st.sampled_from(["", "Z", "+05:30", "-11:00"])
DAYS = st.dates(dt.date(1, 2, 1), dt.date(9999, 11, 30)).map(str)
MOMENTS = st.builds(
    lambda at, sep, zone: at.isoformat(sep) + zone,
    st.datetimes(dt.datetime(1, 2, 1), dt.datetime(9999, 11, 30)), st.sampled_from("T "), ZONES,
)  # fmt: skip
NUMBERS = (
    st.integers(-(2**65), 2**65).map(str)
    | st.integers(-(2**31) - 2, 2**31 + 1).map(str)
    | st.integers(-99, 99).map(str)
    | st.decimals(-(10**7) - 1, 10**7 + 1, places=2).map("{:f}".format)
    | st.decimals(-10, 10, places=3).map("{:f}".format)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.sampled_from(["0.12345678901234567891", "9007199254740993", "1e400", "1e3", "-0", "-0.0", "1.10",
                       "1E2", "12.0", "1e-2", "0e9", "1.5e1", "9999999.99", "9999999.995", "0.1e-400"])
)  # fmt: skip
ODD = st.sampled_from(["x", "true", "false", "FALSE", "yes", "t", "007", "+7", ".5", "5.", "1,5", "NaN ",
                       "--1", "2024-02-30", "2023-02-29", "2024-1-2", "2024-01-01T00:00",
                       "2024-01-01 10:00:00.1234567",
                       "2024-01-01T10:00:00.1234560", "24:00", "2024-01-01T24:00:00Z", "08:30",
                       "2024-13-01", "0000-01-01", "0x10", "1_000", "\u0661", "1d", "null",
                       "None", "{}", "[1]"])  # fmt: skip
WORDS = DAYS | MOMENTS | NUMBERS | ODD | st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=6
)  # fmt: skip
JSON_PLAIN = st.none() | st.booleans() | NUMBERS.map(Number) | WORDS
JSON_VALUES = (
    JSON_PLAIN
    | st.lists(st.integers(-9, 9).map(str).map(Number) | st.none(), max_size=3)
    | st.lists(JSON_PLAIN, max_size=2)
    | st.fixed_dictionaries({}, optional={"x": st.integers(-9, 9).map(str).map(Number), "y": DAYS})
    | st.dictionaries(st.sampled_from(["x", "y", "X", "z"]), JSON_PLAIN, max_size=2)
)


def json_text(value):
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(json_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(k)}: {json_text(v)}' for k, v in value.items())}}}"
    return json.dumps(value)


def read_back(text):
    return json.loads(text, parse_int=Number, parse_float=Number)


def json_lines_of(rows):
    return "".join(json_text(row) + "\n" for row in rows)


def csv_of(rows):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(
        [[*rows[0]], *(r.values() for r in rows)]
    )
    return out.getvalue()


def xml_of(rows):
    def element(name, value):
        if isinstance(value, list):
            return "".join(element(name, item) for item in value)
        if isinstance(value, dict):
            return f"<{name}>{''.join(element(n, v) for n, v in value.items())}</{name}>"
        return f"<{name}>{escape(value)}</{name}>"

    return f"<all>{''.join(element('r', row) for row in rows)}</all>"


def in_xml(text):
    """Return the JSON value that an element's text is."""
    return (
        text == "true" if text in ("true", "false") else Number(text) if JSON_NUMBER.fullmatch(text) else text
    )


def expected(kind, value, column):
    if kind == "json":
        return of_json(value, column)
    if kind == "csv":
        return (
            PLAIN[column](value.strip(" \t\r\n") if column != "STRING" else value)
            if column in PLAIN
            else MISFIT
        )
    return of_json(in_xml(value), column)


COLUMNS = {
    "json": ([*PLAIN, *NESTED], JSON_VALUES, json_lines_of),
    "csv": ([*PLAIN, "ARRAY<INT>"], WORDS, csv_of),
    "xml": ([*PLAIN], WORDS, xml_of),
}


@st.composite
def typed_files(draw, kind):
    kinds, values, _ = COLUMNS[kind]
    columns = {
        f"c{n}": column
        for n, column in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5)))
    }
    rows = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(columns, values)), min_size=1, max_size=20))
    # A row is drawn with its columns in any order; a CSV file has them in one.
    records = [
        {"k": str(n)}
        | {name: near(row[name]) if re.search("DATE|TIME", columns[name]) else row[name] for name in columns}
        for n, row in enumerate(rows)
    ]
    return columns, records, draw(st.booleans())


def as_plain(value):
    """Return a column's value so that it can be held against an expected one."""
    if isinstance(value, dt.datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, list):
        return dict(value) if value and isinstance(value[0], tuple) else [as_plain(item) for item in value]
    return {n: as_plain(v) for n, v in value.items()} if isinstance(value, dict) else value


def is_value(found, wanted):
    if wanted == {} and found == []:
        return True
    if isinstance(wanted, (Number, bool, list, dict)) and isinstance(found, str):
        return read_back(found) == wanted
    return as_plain(found) == wanted and isinstance(found, bool) == isinstance(wanted, bool)


def is_kept(kind, found, value):
    return found == (in_xml(value) if kind == "xml" else value)


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_text_is_the_value_it_says_in_its_declared_type_or_kept_as_it_is(
    tmp_path_factory, monkeypatch, spark, kind
):
    @given(landing=typed_files(kind))
    @examples(3, suppress_health_check=list(HealthCheck), derandomize=FACTOR == 1)
    def hold(landing):
        columns, records, rescues = landing
        folder = tmp_path_factory.mktemp("typed")
        monkeypatch.setenv("MEDALLION_LAKE", str(folder / "lake"))
        (folder / "in").mkdir()
        text = COLUMNS[kind][2](records)
        (folder / "in" / f"a.{kind}").write_text(text, newline="")
        options = {"rowTag": "r"} if kind == "xml" else {}
        options |= {"rescued_data_column": "_rescued_data"} if rescues else {"rescued_data_column": ""}
        schema = ", ".join(f"`{name}` {column}" for name, column in {"k": "STRING", **columns}.items())
        done = autoload_to_table(
            folder / "in", kind, "t", folder / "check", spark=spark, schema=schema, **options
        )
        assert (done.files, done.rows_unaccounted, done.values_unaccounted) == (1, 0, {}), done
        found = {r["k"]: r for r in spark.read.format("delta").load(str(done.path)).toArrow().to_pylist()}
        refused = log.rows(done.quarantine, "SELECT row FROM t") if done.quarantine.exists() else []
        taken = {r["k"]: {n: expected(kind, r[n], column) for n, column in columns.items()} for r in records}
        misfits = {k for k, values in taken.items() if MISFIT in values.values()}
        if not rescues:
            assert found.keys() == taken.keys() - misfits
            assert len(refused) == len(misfits)
            for row in refused:
                assert is_refused(kind, row["row"], columns, records, misfits)
        else:
            assert (found.keys(), refused) == (taken.keys(), [])
        for record in records:
            if record["k"] not in found:
                continue
            row, left = found[record["k"]], {}
            if rescues:
                left = read_back(row["_rescued_data"] or "{}")
            for name in columns:
                wanted, value = taken[record["k"]][name], record[name]
                where = (columns[name], value, row)
                if wanted is MISFIT and isinstance(row[name], dict):
                    # The fields of a struct that fit are in it.
                    assert isinstance(value, dict), where
                    kinds = NESTED[columns[name]]
                    parts = {n: of_json(v, kinds[n]) if n in kinds else MISFIT for n, v in value.items()}
                    held = {n: v for n, v in parts.items() if v is not MISFIT and v is not None}
                    assert {n: v for n, v in row[name].items() if v is not None} == held, where
                    assert left[name] == {n: value[n] for n, v in parts.items() if v is MISFIT}, where
                elif wanted is MISFIT:
                    assert row[name] is None, where
                    assert is_kept(kind, left[name], value), where
                else:
                    assert is_value(row[name], wanted), (wanted, *where)
                    assert name not in left, where

    hold()


def is_refused(kind, text, columns, records, misfits):
    """Return whether a quarantined text is one of the records that do not fit, whole."""
    there = [r for r in records if r["k"] in misfits]
    if kind == "json":
        return text in map(json_text, there)
    if kind == "csv":
        return [*csv.reader([text])] and [*csv.reader(io.StringIO(text, newline=""))][-1] in [
            [*r.values()] for r in there
        ]
    return text in [xml_of([r])[len("<all>") : -len("</all>")] for r in there]


LINES = st.lists(
    st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b""))
    | st.sampled_from([b"", b" ", "\ufeffx".encode(), b"\x00", b"{}", b'"', "ü".encode()]),
    min_size=1, max_size=8,
)  # fmt: skip


@given(lines=LINES, ends_whole=st.booleans())
@examples(3, suppress_health_check=list(HealthCheck), derandomize=FACTOR == 1)
def test_each_line_of_a_text_file_is_a_row_or_quarantined_with_its_bytes(
    tmp_path_factory, spark, lines, ends_whole
):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("text")
        patch.setenv("MEDALLION_LAKE", str(folder / "lake"))
        (folder / "in").mkdir()
        (folder / "in" / "a.txt").write_bytes(b"\n".join(lines) + b"\n" * ends_whole)
        done = autoload_to_table(folder / "in", "text", "t", folder / "check", spark=spark)
    texts = lines if ends_whole or lines[-1] else lines[:-1]
    if texts:
        assert (done.rows_unaccounted, done.values_unaccounted) == (0, {})
    found = [r["value"] for r in log.rows(done.path, "SELECT value FROM t")] if done.rows_loaded else []
    wanted = [line.removeprefix(b"\xef\xbb\xbf") if n == 0 else line for n, line in enumerate(texts)]
    sound = [line for line in wanted if is_utf8(line)]
    assert sorted(found) == sorted(line.decode() for line in sound)
    refused = log.rows(done.quarantine, "SELECT raw_base64 FROM t") if done.quarantine.exists() else []
    assert len(refused) == len(wanted) - len(sound)


def is_utf8(line):
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(contents=st.lists(st.binary(max_size=20), min_size=1, max_size=4))
@examples(2, suppress_health_check=list(HealthCheck), derandomize=FACTOR == 1)
def test_each_binary_file_is_a_row_with_its_bytes(tmp_path_factory, spark, contents):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("binary")
        patch.setenv("MEDALLION_LAKE", str(folder / "lake"))
        (folder / "in").mkdir()
        for number, data in enumerate(contents):
            (folder / "in" / f"{number} é?%20").write_bytes(data)
        done = autoload_to_table(folder / "in", "binaryFile", "t", folder / "check", spark=spark)
    assert (done.files, done.rows_unaccounted) == (len(contents), 0)
    rows = spark.read.format("delta").load(str(done.path)).toArrow().to_pylist()
    found = {row["_source_file"]: (row["length"], row["content"]) for row in rows}
    assert found == {f"{n} é?%20": (len(data), data) for n, data in enumerate(contents)}
