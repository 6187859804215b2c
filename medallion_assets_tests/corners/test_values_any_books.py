"""Books of values of generated text files, whatever their fields are called and their records look like."""

import csv
import json
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from medallion_assets.sources.counting import contents
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.parsed_files import LEFT
from medallion_assets.sources.formats.text_files import parse_text_files
from medallion_assets.sources.ledger import ADMITTED, Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import BYTES, NO_FIT
from medallion_assets.sources.refused_values import refused_values
from medallion_assets.sources.value_books import CommittedValues, FileColumns, QueryColumns, books_of
from medallion_assets.sources.value_counts import count_values
from medallion_assets_tests.examples import examples

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = StructType([StructField("id", IntegerType()), StructField("b", StringType())])
COLUMNS = {"id": False, "b": True, "_source_file": True, "_rescued_data": True}
RAW = ["row", "source_file", "reason_class", "rules", "raw_base64"]
FIELDS = [
    "id",
    "b",
    "_file_path",
    "_rescued_data",
    "_raw",
    "_reason",
    "_source_file",
    "_check_rescued",
    "x=y",
]
VALUES = st.sampled_from([None, 1, "x", "", "NA", 1.5, [1], {"id": 1}, {"_file_path": "mine"}])
MEMBERS = st.lists(st.tuples(st.sampled_from(FIELDS), VALUES), max_size=4)
OBJECTS = MEMBERS.map(lambda m: "{" + ", ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in m) + "}")
SEVERAL = st.lists(OBJECTS, min_size=2, max_size=3).map("".join)
ODD = st.sampled_from(["", " ", "\t", '{"id": 1,', '"b": 2}', "[1]", "null", '{"id": 1} x', '  {"id": 3} '])
ALIKE = st.sampled_from(['{"id": 1}', '{"id": 2}{"id": 3}', "", '{"id": 1,', '"id": 2}', '{"id": 4}'])
"""Of one type, which Arrow reads all at once."""
CELLS = st.sampled_from(
    ["", '""', "1", "x", "NA", '{"z":1}', "{}", '"{""id"":1}"', '"a,b"', '"two\nlines"', '"x"y', '"open']
)


def books(path, source):
    """Return the books of a file that was read, and committed as it was read."""
    inside = contents(path, source)
    facts = (inside.tag, inside.records, inside.layout, inside.header, ADMITTED, "")
    file = Entry(path.name, path.stat().st_size, NOW, *facts, NOW, root=str(path.parent))
    parts = parse_text_files([file], SCHEMA, source, path.parent / "parts")
    read = [row for part in (*parts.rows, *parts.judged) for row in pq.read_table(part).to_pylist()]
    rows = [{**row, "_rescued_data": row.get(LEFT)} for row in read if not row.get("_reason")]
    refused = [row for row in read if row.get("_reason")]
    kinds = ["schema" if row["_reason"].startswith(NO_FIT) else "parse" for row in refused]
    raw = [
        (row["_raw"], file.path, kind, [row["_reason"]], row[BYTES])
        for row, kind in zip(refused, kinds, strict=True)
    ]
    texts = pa.list_(pa.string())
    cells = [
        pa.array(column, texts if name == "rules" else pa.string())
        for name, column in zip(RAW, [*zip(*raw, strict=True)] or [[]] * len(RAW), strict=True)
    ]
    stored = pa.schema([("id", pa.int32()), *((name, pa.string()) for name in COLUMNS if name != "id")])
    pq.write_table(pa.Table.from_pylist(rows, stored), path.parent / "rows.parquet")
    pq.write_table(pa.table(cells, RAW), path.parent / "refused.parquet")
    there = CommittedValues(dict(COLUMNS))
    names = FileColumns("_source_file", source.rescued)
    there.add_rows([path.parent / "rows.parquet"], {name: name for name in COLUMNS}, names)
    counted = refused_values([file], source, {"id": False, "b": True})
    there.add_refused([path.parent / "refused.parquet"], source.rescued, counted)
    query = QueryColumns(frozenset(SCHEMA.names), None, source.rescued)
    return books_of(file, count_values(file, source), there, query, 0)


@given(
    lines=st.lists(OBJECTS | SEVERAL | ODD, min_size=1, max_size=6) | st.lists(ALIKE, min_size=1, max_size=6),
    mistyped=st.sampled_from(["RESCUE", "QUARANTINE"]),
)
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_lines_of_json_balance(tmp_path, lines, mistyped):
    path = tmp_path / "a.json"
    path.write_text("\n".join(lines) + "\n")
    found = books(path, Source("s", "json", schema="id INT, b STRING", mistyped=mistyped))
    assert (found.unaccounted, found.unkept) == ({}, {})


@given(
    header=st.lists(st.sampled_from([*FIELDS, "", "ID"]), min_size=1, max_size=3, unique=True),
    rows=st.lists(st.lists(CELLS, min_size=1, max_size=4), max_size=5),
    mistyped=st.sampled_from(["RESCUE", "QUARANTINE"]),
    null=st.sampled_from(["", "NA"]),
)
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cells_of_csv_balance(tmp_path, header, rows, mistyped, null):
    path = tmp_path / "a.csv"
    path.write_text("".join(",".join(cells) + "\n" for cells in [header, *rows]))
    options = {"nullValue": null} if null else {}
    source = Source("s", "csv", schema="id INT, b STRING", mistyped=mistyped, reader_options=options)
    try:
        found, refusal = books(path, source), ""
    except UnreadableFile as error:
        found, refusal = None, str(error)
    if found is None:
        # Its one line may have been meant as a record.
        assert "names no column of the schema" in refusal
        assert len([cells for cells in csv.reader(path.open(newline="")) if any(cells)]) <= 1
        return
    assert (found.unaccounted, found.unkept) == ({}, {})


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json", '{"id": 1, "_file_path": "mine"}\n'),
        ("csv", "id,_file_path\n1,mine\n"),
        ("json", '{"id": "x", "_rescued_data": "hey"}\n'),
        ("csv", "id,_rescued_data\nx,hey\n"),
        ("json", '{"id": 1}{"id": 2}\n\n{"id": 3}\n'),
        ("json", '{"id": 3}\n{"id": 1,\n"b": 2}\n{"id": 1}{"id": 1}\n'),
        ("csv", 'id\n{"z":1}\n'),
        ("csv", 'id,b\n{"id":1},x\n"{""b"":1}",\n'),
    ],
)
def test_names_of_ours_and_records_that_look_like_others_are_counted_as_the_load_reads_them(
    tmp_path, kind, text
):
    path = tmp_path / f"a.{kind}"
    path.write_text(text)
    found = books(path, Source("s", kind, schema="id INT, b STRING", mistyped="QUARANTINE"))
    assert (found.unaccounted, found.uncounted, found.unkept) == ({}, {}, {})
