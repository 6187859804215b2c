"""Random files of every format, with odd names, columns and values: each cell is where another reader has it.

They land in one batch or in two, of which the second may bring other columns and types; formats of text may
have a schema that declares some of the columns.
The readers are Python's ``json`` and ``csv``, pyarrow, fastavro and what wrote the XML. A cell is in the
column of its name or in the rescued data, as the same value, and nowhere else.
"""

import csv
import datetime as dt
import io
import json
from decimal import Decimal
from xml.sax.saxutils import escape

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from medallion_assets.sources import autoload_to_table
from medallion_assets.sources.evolution import is_column
from medallion_assets_tests.corners.test_values_columnar import text_of
from medallion_assets_tests.examples import FACTOR, examples

pytestmark = pytest.mark.spark
KEY = "k"
"""A field of every record that names it."""

OURS = {KEY, "_rescued_data", "_source_file", "_source_modified_at", "_ingested_at", "_batch_id"}
ODD_NAMES = [
    "a", "A", "a.b", ".", ".k", "[0]", "x y", "_raw", "_batch_id", "__medallion_nth", "ü", "'q'", "c0", "é",
    "", "n,m", "_rescued_data",
]  # fmt: skip
NAMES = (st.sampled_from(ODD_NAMES) | st.text(max_size=6)).filter(lambda name: name.lower() != KEY)
IDENTIFIERS = st.sampled_from(["a", "A", "b", "_raw", "_x", "Total", "n1"]) | st.from_regex(
    "[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True
).filter(lambda name: name.lower() not in (KEY, "r") and not name.lower().startswith("xml"))
FILE_NAMES = st.lists(
    st.sampled_from(["a", "x?y", "file-000000", "b c", "ü", "%41", "it's", "[x]", "{p,q}", "k=v", "n#1"]),
    min_size=1, max_size=3, unique=True,
)  # fmt: skip
TEXTS = st.text(max_size=8) | st.sampled_from(
    ["", '"', 'a"b', "a\nb", "\r\n", "007", "1e3", "null", "{}", "\\", "\ud800"]
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
)
JSON_VALUES = st.recursive(
    PLAIN | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=8)
MICROS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
COLUMNAR = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
    pa.string(): st.text(max_size=6),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): MICROS,
    pa.decimal128(12, 2): st.decimals(-(10**9), 10**9, places=2),
    pa.binary(): st.binary(max_size=4),
    pa.list_(pa.int64()): st.lists(st.integers(0, 9), max_size=3),
    pa.struct([("p", pa.int64()), ("q", pa.string())]): st.fixed_dictionaries(
        {"p": st.integers(0, 9), "q": st.none() | st.text(max_size=3)}
    ),
}
AVRO = {
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
}
"""Types of Avro, with the Arrow types whose values they take."""


def json_file(draw):
    records = draw(st.lists(st.dictionaries(NAMES, JSON_VALUES, max_size=4), min_size=1, max_size=5))
    return records, lambda keyed: "".join(json.dumps(record) + "\n" for record in keyed).encode()


def csv_file(draw):
    names = draw(st.lists(NAMES.map(str.strip).filter(bool), min_size=1, max_size=4, unique=True))
    # Python's writer quotes an empty text or not: the reader of this test could not tell it from NULL.
    cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
    names = [name.replace("\0", "") or "z" for name in names]
    names = list(dict.fromkeys(names))
    rows = draw(st.lists(st.tuples(*(st.none() | cells for _ in names)), min_size=1, max_size=5))

    def write(keyed):
        out = io.StringIO()
        writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow([*names, KEY])
        for record in keyed:
            quoted = [
                "" if record[n] is None else '"' + record[n].replace('"', '""') + '"' for n in [*names, KEY]
            ]
            out.write(",".join(quoted) + "\n")
        return out.getvalue().encode()

    return [dict(zip(names, row, strict=True)) for row in rows], write


def table_of(draw, names):
    kinds = {name: draw(st.sampled_from(list(COLUMNAR))) for name in names}
    rows = st.fixed_dictionaries({name: st.none() | COLUMNAR[kind] for name, kind in kinds.items()})
    return draw(st.lists(rows, min_size=1, max_size=5)), kinds


def arrow_file(draw, write):
    # Names that differ in case only are columns of their own in the file.
    names = draw(
        st.lists(NAMES.filter(lambda name: "\0" not in name and name != ""), max_size=4, unique=True)
    )
    records, kinds = table_of(draw, names)
    schema = pa.schema([*kinds.items(), (KEY, pa.string())])

    def written(keyed):
        out = io.BytesIO()
        write(pa.Table.from_pylist(keyed, schema), out)
        return out.getvalue()

    return records, written


def avro_file(draw):
    kinds = {
        name: draw(st.sampled_from(list(AVRO)))
        for name in draw(st.lists(IDENTIFIERS, max_size=4, unique=True))
    }
    rows = st.fixed_dictionaries({name: st.none() | COLUMNAR[AVRO[kind]] for name, kind in kinds.items()})
    fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds.items()]
    fields.append({"name": KEY, "type": "string"})

    def written(keyed):
        out = io.BytesIO()
        fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, keyed)
        return out.getvalue()

    return draw(st.lists(rows, min_size=1, max_size=5)), written


def xml_file(draw):
    records = draw(st.lists(st.dictionaries(IDENTIFIERS, WORDS, max_size=4), min_size=1, max_size=5))

    def written(keyed):
        rows = ("".join(f"<{n}>{escape(v)}</{n}>" for n, v in record.items()) for record in keyed)
        return f"<all>{''.join(f'<r>{row}</r>' for row in rows)}</all>".encode()

    return records, written


TEXTUAL = ("json", "csv", "xml")
KINDS = {
    "json": json_file,
    "csv": csv_file,
    "parquet": lambda draw: arrow_file(draw, pq.write_table),
    "orc": lambda draw: arrow_file(draw, pyarrow.orc.write_table),
    "avro": avro_file,
    "xml": xml_file,
}


@st.composite
def landings(draw, kind):
    """Return a declared schema, contents by file name in two batches, and each record's cells by its key.

    The schema is empty where none is declared, and cells that are NULL are left out.
    """
    contents, cells = {}, {}
    for name in draw(FILE_NAMES):
        records, write = KINDS[kind](draw)
        keyed = [record | {KEY: f"{name}:{n}"} for n, record in enumerate(records)]
        contents[f"{name}.{kind}"] = write(keyed)
        for record in keyed:
            key = record.pop(KEY)
            cells[key] = {n: v for n, v in record.items() if v is not None}
    cut = draw(st.integers(1, len(contents)))
    batches = [dict(list(contents.items())[:cut]), dict(list(contents.items())[cut:])]
    named = sorted({name.lower(): name for cell in cells.values() for name in cell}.values())
    declared = [name for name in named if name.isascii() and name.isidentifier() and is_column(name)]
    declared = declared if kind in TEXTUAL else []
    declared = draw(st.lists(st.sampled_from(declared), unique=True)) if declared else []
    schema = ", ".join(f"`{name}` STRING" for name in (*declared, KEY)) if declared else ""
    return schema, batches, cells


def is_same(kind, value, column, rescued):
    """Return whether a cell's value is what its column holds, or what its rescued field does."""
    if column is not None:
        if kind == "json" and not isinstance(value, str):
            return json.loads(column) == value
        if isinstance(column, (float, Decimal)) and isinstance(value, (int, Decimal)):
            # Another file of the batch has the wider type, which holds each value of the narrow one.
            return column == value
        if isinstance(column, dt.datetime) and not isinstance(value, dt.datetime):
            return column == dt.datetime.combine(value, dt.time())
        if isinstance(column, str) and isinstance(value, float):
            # A string for another file's sake; Java 17 writes more digits than Python.
            return float(column) == value
        return text_of(column) == text_of(value)
    if kind == "xml":
        # A number or a boolean is in the rescued JSON without quotes, its text as it was.
        return text_of(rescued) == value
    if isinstance(value, (dt.datetime, bytes)) or (isinstance(value, dt.date) and kind != "json"):
        return text_of(
            rescued.removesuffix("Z").removesuffix("+00:00") if isinstance(rescued, str) else rescued
        ) == text_of(value)
    if isinstance(value, Decimal):
        return Decimal(str(rescued)) == value
    if isinstance(value, dict) and kind != "json":
        held = ({n: inner for n, inner in one.items() if inner is not None} for one in (value, rescued))
        return next(held) == next(held)
    return rescued == value


@pytest.mark.parametrize("kind", KINDS)
def test_every_cell_of_any_file_is_in_its_column_or_rescued_as_it_was(
    tmp_path_factory, monkeypatch, spark, kind
):
    @given(landing=landings(kind))
    @examples(2, suppress_health_check=list(HealthCheck), derandomize=FACTOR == 1)
    def hold(landing):
        schema, batches, cells = landing
        folder = tmp_path_factory.mktemp("any")
        monkeypatch.setenv("MEDALLION_LAKE", str(folder / "lake"))
        (folder / "in").mkdir()
        options = {"rowTag": "r"} if kind == "xml" else {}
        options |= {"schema": schema, "rescued_data_column": "_rescued_data"} if schema else {}
        loaded = 0
        for contents in filter(None, batches):
            for name, text in contents.items():
                (folder / "in" / name).write_bytes(text)
            done = autoload_to_table(folder / "in", kind, "t", folder / "check", spark=spark, **options)
            loaded += done.rows_loaded
            assert done.files == len(contents), done
            assert (done.rows_unaccounted, done.values_unaccounted) == (0, {}), done
        assert loaded == len(cells)
        rows = spark.read.format("delta").load(str(done.path)).toArrow().to_pylist()
        assert sorted(row[KEY] for row in rows) == sorted(cells)
        for row in rows:
            # The digits of a number are part of an XML text.
            numbers = {"parse_int": str, "parse_float": str} if kind == "xml" else {}
            wanted, rescued = cells[row[KEY]], json.loads(row["_rescued_data"] or "{}", **numbers)
            assert row["_source_file"] == f"{row[KEY].rpartition(':')[0]}.{kind}"
            rescued = {n: v for n, v in rescued.items() if v is not None and n != "_file_path"}
            there = {name for name, value in row.items() if value is not None and name not in OURS}
            assert there | rescued.keys() == wanted.keys(), (row, wanted)
            assert not there & rescued.keys(), row
            for name, value in wanted.items():
                assert is_same(kind, value, row.get(name) if name in there else None, rescued.get(name)), (
                    name,
                    row,
                )

    hold()
