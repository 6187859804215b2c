"""No option makes a file that has something in it one of no records without a word."""

import io

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from medallion_assets.declare import Pipeline
from medallion_assets.delta import log
from medallion_assets.sources import file_status
from medallion_assets.sources.discovery import DiscoveryOptions, entries_of
from medallion_assets.sources.ledger import ADMITTED, REFUSED
from medallion_assets.sources.options import Source
from medallion_assets_tests.shop import orders_of


def told_of(folder, content, kind, schema="", **options):
    """Return what discovery writes down of a file: status, records and reason."""
    (folder / "landing").mkdir()
    (folder / "landing" / f"a.{kind}").write_text(content)
    source = Source("t", kind, str(folder / "landing"), schema=schema, reader_options=options)
    (entry,) = entries_of(folder / "landing", folder / "ledger", source, DiscoveryOptions())
    return entry.status, entry.records, entry.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "<rows><row><n>1</n></row></rows>",
            "no element of it is called Row, as rowTag says; its elements are rows, row, n "
            "(did you mean row?)",
        ),
        (
            '<s:rows xmlns:s="u"><s:row/></s:rows>',
            "no element of it is called Row, as rowTag says; its elements are s:rows, s:row "
            "(did you mean s:row?)",
        ),
        (
            "<row/>",
            "no element of it is called Row, as rowTag says; its elements are row (did you mean row?)",
        ),
        ("<a>text</a>", "no element of it is called Row, as rowTag says; its elements are a"),
        (
            f"<a>{''.join(f'<b{n}/>' for n in range(50))}</a>",
            "no element of it is called Row, as rowTag says; its elements are a, b0, b1, b2, b3, b4, b5, "
            "b6, ...",
        ),
    ],
)
def test_an_xml_file_without_an_element_of_the_row_tag_is_refused_with_the_elements_it_has(
    tmp_path, content, reason
):
    assert told_of(tmp_path, content, "xml", rowTag="Row") == (REFUSED, 0, reason)


@pytest.mark.parametrize(
    "content", ["<rows/>", "<rows> \n</rows>", '<?xml version="1.0"?><!-- none --><rows at="2026-01-01"/>']
)
def test_an_xml_file_whose_root_is_empty_is_a_delivery_of_no_records(tmp_path, content):
    assert told_of(tmp_path, content, "xml", rowTag="Row") == (ADMITTED, 0, "")


def test_a_csv_file_all_of_whose_lines_are_comments_is_refused(tmp_path):
    reason = "it has no record: every line begins with 1, as the option comment says"
    assert told_of(tmp_path, "\n1,a\n1,b\n", "csv", comment="1", header="false") == (REFUSED, 0, reason)


def test_a_csv_file_of_one_record_that_is_taken_for_the_header_is_refused(tmp_path):
    told = told_of(tmp_path, "7,Ann\n", "csv", schema="id INT, name STRING")
    assert told[:2] == (REFUSED, 0)
    assert told[2].startswith(
        "its only line is taken for the header, and names no column of the schema: 7,Ann"
    )


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("id,name\n", {}),
        ("ID,other\n", {}),
        ("# none today\nid,name\n", {"comment": "#"}),
        ("\n \n", {}),
        ("", {}),
    ],
)
def test_a_csv_file_that_is_empty_or_has_its_header_alone_is_a_delivery_of_no_records(
    tmp_path, content, options
):
    told = told_of(tmp_path, content, "csv", schema="id INT, name STRING", **options)
    assert told == (ADMITTED, 0, "")


@pytest.mark.parametrize(
    ("kind", "content", "options", "records"),
    [
        ("json", "[]", {"multiLine": "true"}, 1),
        ("json", " \n\n", {}, 0),
        ("json", "row", {"multiLine": "true"}, 1),
        ("json", "[1]", {"multiLine": "false"}, 1),
        ("text", "\n", {}, 1),
        ("text", " ", {"wholetext": "true"}, 1),
    ],
)
def test_json_and_text_files_have_a_record_wherever_they_have_content(
    tmp_path, kind, content, options, records
):
    assert told_of(tmp_path, content, kind, **options) == (ADMITTED, records, "")


@pytest.mark.spark
def test_an_xml_file_read_with_a_wrong_row_tag_is_kept_named_and_loaded_once_the_tag_is_right(
    landed, autoload, rows, tmp_path
):
    folder = landed(a__xml="<rows><row><n>1</n></row></rows>")
    cleaned = {"clean_source": "MOVE", "clean_source_retention_days": 0}
    cleaned["clean_source_move_destination"] = str(tmp_path / "old")
    done = autoload(folder, "xml", rowTag="Row", **cleaned)
    assert (done.files, done.files_refused) == (0, 1)
    autoload(folder, "xml", rowTag="Row", **cleaned)
    assert [file.name for file in folder.iterdir()] == ["a.xml"]
    landed(b__xml="<rows><Row><n>2</n></Row></rows>")
    done = autoload(folder, "xml", rowTag="Row", **cleaned)
    assert rows(done, "n") == [{"n": "2"}]
    assert {row["path"] for row in file_status.rows(done.ledger)} == {"b.xml"}
    assert [file.name for file in folder.iterdir()] == ["a.xml"]


def columnar_file(kind, *numbers):
    """Return a file of these numbers."""
    target = io.BytesIO()
    if kind == "avro":
        schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": ["null", "int"]}]}
        fastavro.writer(target, schema, [{"id": number} for number in numbers])
        return target.getvalue()
    (pq.write_table if kind == "parquet" else pyarrow.orc.write_table)(
        pa.table({"id": pa.array(numbers, pa.int32())}), target
    )
    return target.getvalue()


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["avro", "parquet", "orc"])
def test_a_file_without_a_row_that_comes_alone_holds_up_no_file_after_it(
    landed, autoload, drop, refreshed, lake, kind
):
    empty, full = columnar_file(kind), columnar_file(kind, 1, 2)
    orders = orders_of(Pipeline("shop"), format=kind, schema="")
    for name, content, count in (("a", empty, 0), ("b", full, 2), ("c", empty, 2), ("d", full, 4)):
        done = autoload(landed(**{f"{name}__{kind}": content}), kind)
        assert (done.files, done.rows_loaded) == (1, 2 if content == full else 0)
        drop("shop/orders", f"{name}.{kind}", content)
        refreshed(orders)
        for path in (done.path, lake.path(orders)):
            assert [row["id"] for row in log.rows(path, "SELECT id FROM t ORDER BY id")] == sorted(
                [1, 2] * (count // 2)
            )
