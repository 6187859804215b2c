"""Files of JSON, XML and text, however they are laid out and wrapped: every record, with every value.

Each file goes the way of a load, from discovery to the Parquet files that Spark is given, without Spark.
"""

import base64
import bz2
import gzip
import io
import json
import re
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from medallion_assets.sources.discovery import DiscoveryOptions, entries_of
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats import json_scan, parsed_files
from medallion_assets.sources.formats.text_files import TEXT, parse_text_files
from medallion_assets.sources.options import Source
from medallion_assets_tests.examples import examples

COLUMNS = StructType(
    [
        StructField("a", StringType()),
        StructField("n", LongType()),
        StructField("m", DecimalType(9, 2)),
        StructField("c d", StringType()),
    ]
)
GIVEN = ("_check_rescued", "_raw", "_reason", "_check_position", "_check_bytes", "_source_file")


def parsed(contents, kind="json", schema=COLUMNS, typed=False, **options):
    """Return the rows of files, by name and bytes, as a load gives them to Spark, and what was counted."""
    with tempfile.TemporaryDirectory() as folder:
        landing = Path(folder) / "landing"
        landing.mkdir()
        for name, data in contents.items():
            (landing / name).write_bytes(data)
        source = Source(
            "t",
            kind,
            str(landing),
            rescued_data_column="_r" * (kind != "text"),
            infer_column_types=typed,
            reader_options=options,
        )
        files = entries_of(landing, Path(folder) / "ledger", source, DiscoveryOptions())
        found = parse_text_files(
            [file for file in files if file.records], schema, source, Path(folder) / "out"
        )
        rows = [row for path in [*found.rows, *found.judged] for row in pq.read_table(path).to_pylist()]
        return [dict.fromkeys(GIVEN) | row for row in rows], {Path(f.path).name: f.records for f in files}


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    """Cut files into many blocks and windows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsed_files, "BLOCK", 200)
        patch.setattr(parsed_files, "SMALL", 100)
        patch.setattr(json_scan, "WINDOW", 64)
        yield


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["1.10", "{", "]\n[", "\\", "\ufeff"]
)
NUMBERS = st.sampled_from(["0", "-0", "1.10", "1e5", "12345678901234567890", "1.239", "7"])
VALUES = TEXTS.map(json.dumps) | NUMBERS | st.sampled_from(["true", "null", '{"k": [1.50, "é"]}', "[]"])
RECORDS = st.lists(
    st.dictionaries(st.sampled_from(["a", "n", "m", "c d", "x", "A"]), VALUES), min_size=1, max_size=8
)
WRAPS = {".json": bytes, ".json.gz": gzip.compress, ".json.bz2": bz2.compress, ".json.zst": pa.compress}
WRAPS[".json.zst"] = lambda data: pa.compress(data, codec="zstd", asbytes=True)
NAMES = st.sampled_from(["plain", "x?y", "a b", "file-000000", "100%25", "é", "[a]", "a=b", "{x}"])
LAYOUTS = {
    "lines": lambda texts, end: end.join(texts),
    "array": lambda texts, end: "[" + f",{end}".join(texts) + "]",
    "pretty": lambda texts, end: end.join("{" + end + text[1:-1] + end + "}" for text in texts),
    "pretty array": lambda texts, end: f"[{end}" + f"{end},".join(texts) + f"{end}]",
}


def text_of(record):
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in record.items()) + "}"


@given(
    st.dictionaries(
        NAMES,
        st.tuples(RECORDS, st.sampled_from(list(LAYOUTS)), st.sampled_from(list(WRAPS))),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
@examples(30)
def test_each_record_of_each_file_is_there_with_each_value(files, end, encoding):
    contents = {
        name + ending: WRAPS[ending](LAYOUTS[layout]([text_of(r) for r in records], end).encode(encoding))
        for name, (records, layout, ending) in files.items()
    }
    rows, counts = parsed(contents)
    for name, (records, _, ending) in files.items():
        mine = [row for row in rows if Path(row["_source_file"]).name == name + ending]
        assert counts[name + ending] == len(records) == len(mine)
        assert sorted(map(signature_of_row, mine)) == sorted(map(signature_of_record, records))


def signature_of_row(row):
    """Return what a row says of its record's fields, as they would be written."""
    assert row["_reason"] is None, row
    left = json.loads(row["_check_rescued"] or "{}", parse_int=str, parse_float=str)
    left.pop("_file_path", None)
    taken = {name: row[name] for name in COLUMNS.names if row[name] is not None}
    return repr(sorted({name: plain(value) for name, value in {**left, **taken}.items()}.items()))


def signature_of_record(record):
    known = {name: value for name, value in record.items() if value != "null" or name not in COLUMNS.names}
    found = {}
    for name, value in known.items():
        parsed_value = json.loads(value, parse_int=str, parse_float=str)
        if name in ("a", "c d") and not isinstance(parsed_value, str):
            parsed_value = value
        found[name] = plain(parsed_value)
    return repr(sorted(found.items()))


def plain(value):
    """Return a value so that a number and its column's type compare: 1.10 and Decimal('1.10'), -0 and 0."""
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value)
        if isinstance(value, (dict, list, bool))
        else str(value)
    )
    try:
        number = float(text)
    except ValueError:
        return "".join(text.split())
    return repr(number + 0.0)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", ["json", "text"])
def test_bytes_that_are_no_text_can_be_had_back_from_what_is_kept(kind, encoding):
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    bad = {"utf-8": b"\xff\xfe", "cp1252": b"\x81"}.get(encoding) or "\ud800".encode(
        encoding, "surrogatepass"
    )
    lines = ['{"a": "one"}'.encode(encoding), '{"a": "'.encode(encoding) + bad + '"}'.encode(encoding)]
    data = mark + "\n".encode(encoding).join([*lines, lines[0]])
    declared = {} if mark else {"encoding": encoding}
    rows, counts = parsed({f"a.{kind}": data}, kind, TEXT if kind == "text" else COLUMNS, **declared)
    (refused,) = [row for row in rows if row["_reason"]]
    assert (len(rows), counts) == (3, {f"a.{kind}": 3})
    assert base64.b64decode(refused["_check_bytes"]) == lines[1]
    assert (refused["_check_position"], refused["_reason"]) == ("line 2", "not valid UTF-8")


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (
            b'{"n":1}\n\nx\r\n{"n":2}\n[1]\n{"n":3}{"n":4}',
            {"line 3": "x", "line 5": "[1]", "line 6": '{"n":3}{"n":4}'},
        ),
        (b'[{"n":1},\n5,{"n":2}]', {"record 2": "5"}),
        (b'[{"n":1},{"n":\n"x"', {"record 2": '{"n":\n"x"'}),
        (b'[{"n":1},2', {"record 2": "2", "record 3": "["}),
        (b'{"n":\n1}\n{"n":', {"record 2": '{"n":'}),
        (b"[]", {"record 1": "[]"}),
        (b'[{"n":1,\n"b":"\xff"}]', {"record 1": '{"n":1,\n"b":"\ufffd"}'}),
    ],
)
def test_a_record_that_is_none_says_where_it_is_and_keeps_its_text(data, places):
    rows, counts = parsed({"a.json": data})
    assert {row["_check_position"]: row["_raw"] for row in rows if row["_reason"]} == places
    assert counts == {"a.json": len(rows)}


TAGS = st.sampled_from(["a", "n", "q:a", "item", "_VALUE", "x.y"])
XML_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=6
) | st.sampled_from(["1.10", " x ", "true", "&", "<", "]]>", "007", "\xa0", "\u2003x\x85"])


XML_WHITE = " \t\r\n"
"""White space to XML. A no-break space is none."""


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def cdata(text):
    return "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"


INLINE = XML_TEXT.map(escaped) | XML_TEXT.map(cdata) | st.just("<!-- no value -->") | st.just("<?no value?>")


def element(inner):
    attributes = st.dictionaries(st.sampled_from(["id", "q:id", "a"]), XML_TEXT.map(escaped), max_size=2)
    return st.builds(
        lambda tag, attrs, parts: f"<{tag}{''.join(f' {k}={chr(34)}{v}{chr(34)}' for k, v in attrs.items())}>"
        f"{''.join(parts)}</{tag}>", TAGS, attributes, st.lists(inner, max_size=4),
    )  # fmt: skip


ELEMENTS = st.lists(
    st.recursive(element(INLINE), lambda inner: element(inner | INLINE), max_leaves=6), max_size=3
)


def strings_in(text):
    """Return all strings and texts of numbers of a JSON text."""
    found = json.loads(text, parse_int=str, parse_float=str)
    waiting, strings = [found], []
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif value is not None:
            strings.append("true" if value is True else "false" if value is False else value)
    return strings


@given(st.lists(ELEMENTS, min_size=1, max_size=4))
@examples(40)
def test_each_text_and_attribute_of_an_xml_record_is_in_its_row(records):
    texts = [f"<row>{''.join(parts)}</row>" for parts in records]
    document = f'<?xml version="1.0"?><all xmlns:q="urn:q">{" ".join(texts)}</all>'
    rows, counts = parsed(
        {"a.xml": document.encode()}, "xml", StructType([StructField("a", StringType())]), rowTag="row"
    )
    assert counts == {"a.xml": len(records)}
    wanted = []
    for record in ElementTree.parse(io.BytesIO(document.encode())).getroot():
        values = [text for node in record.iter() for text in [*node.attrib.values(), *node_texts(node)]]
        wanted.append(sorted(value for value in values if value.strip(XML_WHITE)))
    found = []
    for row in rows:
        left = json.loads(row["_check_rescued"] or "{}")
        left.pop("_file_path", None)
        column = row["a"]
        mine = strings_in(json.dumps(left))
        mine += (
            strings_in(column) if column and column.startswith(("{", "[")) and is_json(column) else [column]
        )
        found.append(sorted(value for value in mine if value and value.strip(XML_WHITE)))
    assert sorted(map(stripped, found)) == sorted(map(stripped, wanted))


def node_texts(node):
    """Return an element's own text in pieces, as children part it."""
    return [node.text or "", *(child.tail or "" for child in node)]


def stripped(values):
    return sorted(value.strip(XML_WHITE) for value in values)


def is_json(text):
    try:
        return isinstance(json.loads(text), (dict, list))
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("document", "row", "reason"),
    [
        ("<p><r><a>1</a></r><r><a>2</b></r></p>", "<r><a>2</b></r></p>", "malformed XML: mismatched tag"),
        ("<p><r><a>1</a></r>", "", "malformed XML: no element found"),
        ('<!DOCTYPE p [<!ENTITY e "x">]><p><r>&e;</r></p>', '<!DOCTYPE p [<!ENTITY e "x">]><p><r>&e;</r></p>',
         "malformed XML: it declares entities"),
    ],
)  # fmt: skip
def test_an_xml_record_that_is_none_keeps_its_text_beside_its_reason(document, row, reason):
    rows, _ = parsed({"a.xml": document.encode()}, "xml", COLUMNS, rowTag="r")
    (refused,) = [found for found in rows if found["_reason"]]
    assert (refused["_raw"], refused["_reason"].startswith(reason)) == (row, True)


def test_an_xml_record_that_does_not_fit_keeps_its_xml():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.xml").write_text("<p><r><n>1</n></r><r>\n<n>x</n><!-- c --></r></p>")
        source = Source("t", "xml", folder, schema="n BIGINT", reader_options={"rowTag": "r"})
        files = entries_of(Path(folder), Path(folder) / "ledger", source, DiscoveryOptions())
        found = parse_text_files(
            files, StructType([StructField("n", LongType())]), source, Path(folder) / "out"
        )
        (refused,) = pq.read_table(found.judged[0]).to_pylist()
    assert (refused["_raw"], refused["_reason"]) == ("<r>\n<n>x</n><!-- c --></r>", "does not fit the schema")


@pytest.mark.parametrize(
    ("name", "landed", "later", "reason"),
    [
        ("a.csv", "x,y\n1,2\n", "x,y,z\n1,2,3\n", "its header has 3 columns, 2 when it was counted"),
        ("a.json", '[{"n":1},{"n":2}]', '[{"n":1},{"n":"' + "x" * 9000 + '"}]', "a value of it has 0 MiB"),
    ],
)
def test_a_file_that_cannot_be_read_any_more_is_named(tmp_path, monkeypatch, name, landed, later, reason):
    path = tmp_path / "landing" / name
    path.parent.mkdir()
    path.write_bytes(landed.encode())
    source = Source("t", "csv" if "csv" in name else "json", str(path.parent))
    files = entries_of(path.parent, tmp_path / "ledger", source, DiscoveryOptions())
    path.write_bytes(later.encode())
    monkeypatch.setattr(json_scan, "LONGEST_LINE", 4096)
    with pytest.raises(UnreadableFile, match=rf"{re.escape(name)} cannot be read: {reason}"):
        parse_text_files(files, COLUMNS, source, tmp_path / "out")


INTS, TEXT_ARRAY = ArrayType(IntegerType()), ArrayType(StringType())
ITEM = StructType().add("_VALUE", StringType()).add("_id", IntegerType()).add("n", INTS)
XML_SCHEMA = StructType(
    [
        *(StructField(name, INTS) for name in ("a", "_ids")),
        StructField("items", ArrayType(ITEM)),
        StructField("item", ITEM),
        StructField("s", StructType().add("x", TEXT_ARRAY)),
        StructField("deep", ArrayType(INTS)),
        StructField("named", MapType(StringType(), INTS)),
        StructField("id", IntegerType()),
    ]
)
ONE_OR_MANY = {
    "<a>1</a>": {"a": [1]},
    "<a>1</a><a>2</a>": {"a": [1, 2]},
    "<a/>": {"a": [None]},
    "<a/><a>2</a>": {"a": [None, 2]},
    "<items>x</items>": {"items": [{"_VALUE": "x"}]},
    '<items id="7">x</items>': {"items": [{"_VALUE": "x", "_id": 7}]},
    "<items>x</items><items><n>1</n></items>": {"items": [{"_VALUE": "x"}, {"n": [1]}]},
    "<item>x</item>": {"item": {"_VALUE": "x"}},
    '<item id="7"><n>1</n><n>2</n></item>': {"item": {"_id": 7, "n": [1, 2]}},
    "<s><x>007</x></s>": {"s": {"x": ["007"]}},
    "<deep>1</deep>": {"deep": [[1]]},
    "<named><k>1</k></named>": {"named": [("k", [1])]},
}
MISFITS = {
    "<a>x</a>": "a",
    "<a>1</a><a>x</a>": "a",
    "<items><n>y</n></items>": "items",
    "<id>1</id><id>2</id>": "id",
}


def test_an_element_that_is_there_once_is_an_array_of_one_where_arrays_are_declared():
    records = [*ONE_OR_MANY, *MISFITS]
    body = "".join(f'<r ids="{n}">{record}</r>' for n, record in enumerate(records))
    rows, _ = parsed({"a.xml": f"<p>{body}</p>".encode()}, "xml", XML_SCHEMA, True, rowTag="r")
    by_number = {row["_ids"][0]: row for row in rows}
    for number, record in enumerate(records):
        row = by_number[number]
        left = json.loads(row["_check_rescued"] or "{}")
        left.pop("_file_path", None)
        taken = {name: _without_nulls(row[name]) for name in XML_SCHEMA.names if row[name] is not None}
        taken.pop("_ids")
        assert taken == ONE_OR_MANY.get(record, {}), record
        assert list(left) == ([MISFITS[record]] if record in MISFITS else []), record


def _without_nulls(value):
    """Return a value without the NULL fields of its structs."""
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value
