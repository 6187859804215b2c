"""Every cell of a CSV file is what an independent reader says, however the file is written."""

import csv
import io
import itertools
import json
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from medallion_assets.sources.counted_lines import Contents
from medallion_assets.sources.formats import csv_blocks
from medallion_assets.sources.formats.csv_blocks import Cutter, csv_contents
from medallion_assets.sources.formats.csv_records import Dialect, header_names, header_text
from medallion_assets.sources.formats.csv_rows import parse_csv_files
from medallion_assets.sources.formats.exact_values import NotExact, TextOptions, arrow_type, exact_value
from medallion_assets.sources.formats.parsed_files import JUDGED, LEFT
from medallion_assets.sources.formats.typed_columns import ColumnGuess, typed_column
from medallion_assets.sources.ledger import ADMITTED, Entry
from medallion_assets.sources.options import Source
from medallion_assets_tests.corners.strict_csv import CsvText
from medallion_assets_tests.examples import examples

DIALECTS = (
    Dialect(), Dialect(";", "'", "'"), Dialect("\t"), Dialect(" "), Dialect("|", '"', "\\", "#"),
    Dialect("¦"), Dialect(comment="#"),
)  # fmt: skip
NO_HEADER, NOT_TEXT = "the file's header cannot be read", "not text in the file's encoding"


@st.composite
def cut_files(draw):
    """Return a dialect, a text, and where the pieces of it end."""
    dialect = draw(st.sampled_from(DIALECTS))
    q, s = dialect.quote, dialect.sep
    tokens = ["a", "b", q, q, q * 2, s, s, s, "\n", "\n", "\r\n", "\r", " ", "\t", "é", "#", "\\", "\udc80",
              q + s + q, q + "\n" + q, q + "x" + q + s, "\0", "\u3000", "x" * 9]  # fmt: skip
    text = "".join(draw(st.lists(st.sampled_from(tokens), max_size=50)))
    return dialect, text, sorted(draw(st.lists(st.integers(0, 80), max_size=4))), draw(st.booleans())


def cut(dialect, data, ends, has_header):
    """Return the first record's cells, and line, cells, text and problem of each record in order."""
    at = [0, *ends, len(data)]
    cutter, found = Cutter(dialect, has_header), []
    for block in cutter.blocks(data[i:j] for i, j in itertools.pairwise(at) if j > i):
        cells = block.cells(cutter.width, dialect) if len(block.begins) else []
        rows = zip(*(column.to_pylist() for column in cells), strict=True)
        for row, *place, line in zip(rows, block.begins, block.ends, block.lines, strict=True):
            found.append((line, row, block.text(*place), ""))
        for begin, end, line, problem in block.refused:
            found.append((line, (), block.text(begin, end), problem))
    return cutter.first, sorted(found, key=lambda record: record[0])


@examples(80)
@given(cut_files())
def test_records_and_cells_are_those_of_the_strict_reader_wherever_a_block_ends(file):
    dialect, text, ends, has_header = file
    rows = list(CsvText(text, dialect).rows())
    first, found = cut(dialect, text.encode("utf-8", "surrogateescape"), ends, has_header)
    unreadable = has_header and rows and rows[0].problem
    if has_header and rows and not unreadable:
        header = rows.pop(0)
        cells = [(cell or "").encode("utf-8", "surrogateescape") for cell in header.cells]
        assert first == [cell.decode("utf-8", "replace") for cell in cells]
    wanted = []
    for row in rows:
        odd = any("\ud800" <= character <= "\udfff" for character in row.text)
        problem = NOT_TEXT if odd else row.problem or (NO_HEADER if unreadable else "")
        wanted.append((() if problem else row.cells, row.text.encode("utf-8", "surrogateescape"), problem))
    assert [record[1:] for record in found] == wanted


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
tables = st.integers(1, 4).flatmap(lambda w: st.lists(st.lists(cells, min_size=w, max_size=w), min_size=1))


@examples(25)
@given(tables, st.sampled_from(["\n", "\r\n", "\r"]), st.integers(1, 40))
def test_what_the_standard_library_writes_is_read_back_and_each_line_number_is_that_of_an_editor(
    table, line_end, piece
):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator=line_end).writerows(table)
    data = text.getvalue().encode()
    _, found = cut(Dialect(), data, range(piece, len(data), piece), has_header=False)
    assert [list(record[1]) for record in found] == table
    written = [io.StringIO(newline="") for _ in table]
    for row, one in zip(table, written, strict=True):
        csv.writer(one, quoting=csv.QUOTE_ALL, lineterminator=line_end).writerow(row)
    sizes = [len(one.getvalue().replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1 for one in written]
    assert [int(record[0]) for record in found] == [1 + sum(sizes[:n]) for n in range(len(sizes))]


def test_a_file_of_any_size_is_read_in_blocks_and_what_follows_a_quote_that_never_ends_is_refused(
    monkeypatch,
):
    pieces = (b'"1","two\nlines"\n' * 1000 for _ in range(300))
    sizes = [len(block.data) for block in Cutter(Dialect(), False).blocks(pieces)]
    assert max(sizes) < 2 * 16_000
    monkeypatch.setattr(csv_blocks, "LONGEST_LINE", 1 << 20)
    endless = (b"x,y,z\n" * 1000 for _ in range(1000))
    monkeypatch.setattr(csv_blocks, "MOST_SHOWN", 10)
    pieces = (piece for part in ([b'a\n1\n2\n"'], endless) for piece in part)
    blocks = list(Cutter(Dialect(), True).blocks(pieces))
    rows = [cell for block in blocks for column in block.cells(1, Dialect()) for cell in column.to_pylist()]
    (refused,) = [(b.text(r.begin, r.end), r.line, r.problem) for b in blocks for r in b.refused]
    assert (rows, refused[:2]) == (["1", "2"], (b'"x,y,z\nx,y', 4))
    assert "it goes on to the end of the file" in refused[2]
    assert max(len(block.data) for block in blocks) < 2 << 20


@examples(25)
@given(st.lists(st.text(max_size=6), min_size=1))
def test_a_header_is_kept_whole_and_no_two_columns_share_a_name(names):
    again = header_names(header_text(names))
    assert len(set(again)) == len(names)
    first = {name.strip(): at for at, name in reversed(list(enumerate(names))) if name.strip()}
    assert all(again[at] == name for name, at in first.items())


def test_header_names_are_trimmed_numbered_and_told_apart():
    assert header_names('a, b ,,a,"c,d",a') == ["a", "b", "_c2", "a_2", "c,d", "a_3"]
    assert header_names("a,a,a_2,,_c3") == ["a", "a_3", "a_2", "_c3_2", "_c3"]


digits = st.text("0123456789", min_size=1, max_size=21)
numbers = st.tuples(st.sampled_from(["", "-", "+", " "]), digits, digits.map(lambda d: "." + d) | st.just(""),
                    st.sampled_from(["", "", "e5", "E-3", "e400", " "])).map("".join)  # fmt: skip
two = st.integers(0, 62).map(lambda n: f"{n:02d}")
days = st.tuples(st.sampled_from(["2020-", "1900-", "0001-", "9999-"]), two, st.just("-"), two).map("".join)
days |= st.dates().map(str) | st.sampled_from(["2020-02-30", "2020-2-9", "2020-02-29", "2021-02-29", "2020"])
zones = st.sampled_from(["", "", "Z", "+02:00", "-0530", " Europe/Berlin", "+19:00", "X"])
times = st.tuples(two, st.just(":"), two, two.map(lambda s: ":" + s) | st.just(""),
                  digits.map(lambda d: "." + d[:10]) | st.just(""), zones).map("".join)  # fmt: skip
words = st.sampled_from(["true", "FALSE", "yes", "t", "0", "NaN", "inf", "08:30", "10D", "0x1F", "007", "1_0",
                         "  ", "F", "01234", "9223372036854775809", "0.12345678901234567891"])  # fmt: skip
moments = st.tuples(days, st.sampled_from("T "), times).map("".join) | st.datetimes().map(str)
texts = st.one_of(
    numbers, days, times, words, cells, moments, st.floats().map(repr), st.integers().map(str)
)  # fmt: skip
KINDS = (ShortType(), IntegerType(), LongType(), FloatType(), DoubleType(), DecimalType(9, 2),
         DecimalType(38, 0), DecimalType(2, 2), BooleanType(), DateType(), TimestampType(),
         TimestampNTZType())  # fmt: skip


@examples(80)
@given(st.sampled_from(KINDS), st.lists(texts | st.none(), max_size=8))
def test_a_column_has_the_values_its_texts_denote_one_by_one(kind, column):
    values, lost = typed_column(pa.array(column, pa.string()), kind, TextOptions())
    wanted, misfits = [], []
    for row, text in enumerate(column):
        try:
            wanted.append(exact_value(text, kind) if text else None)
        except NotExact:
            wanted.append(None)
            misfits.append(row)
    assert lost.tolist() == misfits
    assert list(map(repr, plain(values))) == list(map(repr, plain(pa.array(wanted, arrow_type(kind)))))
    assert all(
        denotes(text, value, kind) for text, value in zip(column, wanted, strict=True) if value is not None
    )


def plain(column):
    """Return a column's values, dates and times as days and microseconds since 1970."""
    if pa.types.is_date(column.type):
        return column.cast(pa.int32()).to_pylist()
    return column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()


def denotes(text, value, kind):
    """Say whether a value is what its text says: an oracle that shares nothing with the reader."""
    text = text.strip()
    if isinstance(kind, BooleanType):
        return value == (text.lower()[0] in "ty1")
    if isinstance(kind, DateType):
        return np.datetime64(day_of(text), "D").astype(int) == value
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        return abs(value - np.datetime64(day_of(text), "us").astype(int)) < 2 * 86_400_000_000
    if isinstance(kind, (FloatType, DoubleType)):
        if value != value or value in (float("inf"), float("-inf")):
            return text.lower().lstrip("+-") in ("nan", "inf", "infinity")
        text = text.rstrip("0") if "." in text and text[-1] == "0" and "e" not in text.lower() else text
        size = len(Decimal(text).as_tuple().digits)
        return Decimal(value) == Decimal(text) or Decimal(f"{value:.{size - 1}e}") == Decimal(text)
    return Decimal(text) == value


def day_of(text):
    return "-".join(part.zfill(2) for part in text.replace("T", " ").split(" ")[0].split("-"))


@examples(25)
@given(st.lists(texts, min_size=1, max_size=4))
def test_an_inferred_type_gives_back_what_the_file_says(column):
    guess = ColumnGuess()
    guess.look(pa.array(column, pa.string()), TextOptions())
    kind = guess.kind()
    values, lost = typed_column(pa.array(column, pa.string()), kind, TextOptions(), inferred=True)
    assert not len(lost)
    for text, value in zip(column, values.to_pylist(), strict=True):
        if text == "":
            continue
        if isinstance(kind, DoubleType):
            assert float(text) == value
            assert text in (repr(value), repr(value).removesuffix(".0"))
        elif isinstance(kind, TimestampType):
            assert value == datetime.fromisoformat(text.rstrip("Z")).replace(tzinfo=timezone.utc)
        else:
            assert text == (str(value).lower() if isinstance(kind, BooleanType) else str(value))


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["F"], "string"), (["10D"], "string"), (["08:30"], "string"), (["01234"], "string"),
        (["007"], "string"), (["yes"], "string"), (["1e5"], "string"),
        (["1", "9223372036854775809"], "decimal(19,0)"),
        (["0.12345678901234567891"], "decimal(21,20)"), (["0.12345678901234567891", "0.1"], "string"),
        (["1", "-2"], "bigint"), (["1.5", "2"], "double"), (["1.10", "2.50"], "decimal(18,2)"),
        (["1.10", "2.5"], "string"), (["true", "false"], "boolean"), (["2020-02-29"], "date"),
        (["2020-02-30"], "string"), (["2020-02-03 04:05:06", "2020-02-03T04:05:06.5Z"], "timestamp"),
        (["2020-02-03T04:05:06+02:00"], "string"), ([""], "string"),
    ],
)  # fmt: skip
def test_types_are_inferred_only_where_nothing_of_the_text_is_lost(column, kind):
    guess = ColumnGuess()
    guess.look(pa.array(column, pa.string()), TextOptions())
    assert guess.kind().simpleString() == kind


@pytest.mark.parametrize(
    ("text", "form", "kind", "value"),
    [
        ("05.01.2020", "dd.MM.yyyy", DateType(), date(2020, 1, 5)),
        ("5/1/20", "d/M/yy", DateType(), date(2020, 1, 5)),
        ("05-Jan-2020", "dd-MMM-yyyy", DateType(), date(2020, 1, 5)),
        ("32.01.2020", "dd.MM.yyyy", DateType(), None),
        ("5.1.2020", "dd.MM.yyyy", DateType(), None),
        ("2020/01/05 1:02 PM", "yyyy/MM/dd h:mm a", TimestampNTZType(), datetime(2020, 1, 5, 13, 2)),
        ("20200105T010203.500", "yyyyMMdd'T'HHmmss.SSS", TimestampNTZType(),
         datetime(2020, 1, 5, 1, 2, 3, 500000)),
    ],
)  # fmt: skip
def test_a_pattern_says_how_dates_and_times_are_written(text, form, kind, value):
    options = TextOptions(date_format=form, timestamp_format=form)
    values, lost = typed_column(pa.array([text]), kind, options)
    assert (values.to_pylist(), len(lost)) == ([value], value is None)


names = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=4)
SCHEMA_KINDS = st.sampled_from([StringType(), *KINDS])


@st.composite
def landed_files(draw):
    """Return a header, rows, an encoding and a schema that knows some of the columns by name."""
    header = draw(
        st.lists(names | st.sampled_from(["first\nname", 'q"', "a,b", "A", "a"]), min_size=1, max_size=4)
    )
    row = st.lists(texts, min_size=len(header), max_size=len(header))
    known = draw(st.lists(st.sampled_from(header), unique=True, min_size=1))
    kinds = {name.strip(): draw(SCHEMA_KINDS) for name in known}
    return (
        header,
        draw(st.lists(row, max_size=6)),
        draw(st.sampled_from(["utf-8", "utf-16", "utf-8-sig"])),
        kinds,
    )


@examples(50)
@given(landed_files())
def test_every_cell_of_a_file_is_in_its_column_or_rescued(tmp_path_factory, file):
    header, rows, encoding, kinds = file
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    path.write_bytes(text.getvalue().encode(encoding))
    source = Source("s", "csv", rescued_data_column="_rescued_data")
    inside = csv_contents(path, source)
    assert inside.records == len(rows)
    columns = header_names(inside.header)
    kinds = {name: kind for name, kind in kinds.items() if name in columns} or {columns[0]: StringType()}
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])
    parts = parse_csv_files([entry(path, inside)], schema, source, path.parent)
    tables = map(pq.read_table, [*parts.rows, *parts.judged])
    found = [row for table in tables for row in zip(*map(plain, table.columns), strict=True)]
    assert len(found) == len(rows)
    for cells, row in zip(rows, found, strict=True):
        told = dict(zip(JUDGED.names, row[len(kinds) :], strict=False)) if parts.judged else {}
        assert told.get("_reason") is None
        rescued = json_of(told.get(LEFT))
        for name, cell in zip(columns, cells, strict=True):
            value = row[list(kinds).index(name)] if name in kinds else None
            if name not in kinds:
                assert rescued.pop(name) == cell
            elif isinstance(kinds[name], StringType):
                assert value == cell
            elif value is None:
                assert rescued.pop(name, "") == cell
            else:
                assert denotes(cell, value, kinds[name])
                assert name not in rescued
        assert not rescued


def entry(path, inside: Contents):
    now = datetime.now(timezone.utc)
    facts = (inside.tag, inside.records, inside.layout, inside.header, ADMITTED, "", now)
    return Entry(path.name, path.stat().st_size, now, *facts, root=str(path.parent))


def json_of(text):
    found = json.loads(text or "{}")
    found.pop("_file_path", None)
    return found
