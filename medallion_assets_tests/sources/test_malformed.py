"""What is broken is contained at its own size and accounted for: never lost, never silently good."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medallion_assets import bad_records, copy_into
from medallion_assets.delta import log
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources.errors import MalformedRecord

pytestmark = pytest.mark.spark
BAD_JSON = [
    "{", "}", '{"a":1}{"a":2}', '{"a":1} x', '{"a":1,}', "{'a':1}", "{a:1}", '{"a":01}', '{"a":.5}',
    '{"a":NaN}', '{"a":Infinity}', '{"a":"\t"}', '{"a":"\0"}', '{"a":"\\x"}', '{"a":"\\u12"}', '{"a":tru}',
    "[1]", "1", '"a"', "null", "//", '{"a" 1}', '{"a":1 "b":2}', '{1:1}', '{"a":[1,2}', '{"a":1.}',
    '{"a":1}#', '{"a":' + "[" * 1500,
]  # fmt: skip
GOOD_JSON = [
    '{"a":1}', "{}", ' {"a": null} ', '{"a":"\\u00e9\\n"}', '{"a":{"b":[1,{"c":2}]}}',
    '{"a":12345678901234567890}', '{"a":' + "[" * 1500 + "]" * 1500 + "}",
]  # fmt: skip


def strict(line):
    def no_constant(word):
        raise ValueError(word)

    try:
        return isinstance(json.loads(line, parse_constant=no_constant), dict)
    except (ValueError, RecursionError):
        return False


def test_each_broken_line_is_quarantined_with_its_text_and_its_neighbours_load(landed, autoload, refused):
    lines = [line for pair in zip(BAD_JSON, GOOD_JSON * 9, strict=False) for line in pair]
    result = autoload(landed(a__json="\n".join([GOOD_JSON[0], *lines])), "json")
    assert (result.rows_read, result.rows_unaccounted) == (len(lines) + 1, 0)
    assert [text for text, _ in refused(result)] == sorted(line.replace("\0", "\0") for line in BAD_JSON)


def test_bare_spark_lets_through_what_we_refuse(landed, spark):
    path = str(landed(a__json='{"a":1}{"a":2}\n{"a":3} x\n[]\n') / "a.json")
    # One row for two objects, one for an object with garbage behind it, none for the array.
    assert spark.read.schema("a INT, _corrupt_record STRING").json(path).where("a IS NOT NULL").count() == 2


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "c d"]), values, max_size=3)
broken = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)
files = st.lists(st.lists(objects.map(json.dumps) | broken, min_size=1, max_size=6), min_size=20, max_size=30)


@given(files)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_any_lines_are_loaded_where_they_are_objects_and_quarantined_where_not(
    tmp_path_factory, monkeypatch, spark, contents
):
    from medallion_assets.sources import autoload_to_table

    folder = tmp_path_factory.mktemp("any")
    monkeypatch.setenv("MEDALLION_LAKE", str(folder / "lake"))
    (folder / "in").mkdir()
    for i, lines in enumerate(contents):
        # A first line of its own keeps each file one of lines, whatever follows.
        (folder / "in" / f"{i}.json").write_text("\n".join(["{}", *lines]), encoding="utf-8")
    result = autoload_to_table(folder / "in", "json", "t", folder / "cp", spark=spark)
    assert result.rows_unaccounted == 0
    for row in outcomes.rows(result.ledger):
        lines = contents[int(row["path"].rpartition("/")[2].removesuffix(".json"))]
        whole = [line for line in lines if line.strip(" \t")]
        assert row["rows_read"] == len(whole) + 1
        assert row["rows_loaded"] <= sum(map(strict, whole)) + 1


def test_an_open_quote_costs_its_own_line_only(landed, autoload, refused, rows):
    text = 'id,name\n1,"two\nlines"\n2,"open\n3,"a ""q"""\n4,x,y\n5\n6,""\n7,\n'
    result = autoload(landed(a__csv=text), "csv")
    loaded = {r["id"]: r["name"] for r in rows(result)}
    assert loaded == {"1": "two\nlines", "3": 'a "q"', "6": "", "7": None}
    assert [text for text, _ in refused(result)] == ['2,"open', "4,x,y", "5"]
    assert result.rows_unaccounted == 0


@pytest.mark.parametrize(
    ("text", "loaded"),
    [
        ("a,a,A,\n1,2,3,4\n", [{"a": "1"}]),
        ("\n\na,b\n\n1,2\n", [{"a": "1"}]),
        (",".join(f"c{i}" for i in range(25_000)) + "\n" + ",".join("1" * 25_000) + "\n", [{"c0": "1"}]),
    ],
    ids=["repeated and empty names", "blank lines", "25,000 columns"],
)
def test_odd_headers_load_and_lose_no_cell(landed, autoload, rows, text, loaded):
    result = autoload(landed(a__csv=text), "csv", max_columns=50)
    (row,) = rows(result)
    assert {name: row[name] for name in loaded[0]} == loaded[0]
    rescued = json.loads(row.pop("_rescued_data") or "{}")
    cells = [
        v for v in [*row.values(), *(v for k, v in rescued.items() if k != "_file_path")] if v is not None
    ]
    assert sorted(cells) == sorted(c for c in text.strip().splitlines()[-1].split(","))


def test_a_header_that_names_no_column_is_a_record_and_kept(landed, autoload, refused):
    result = autoload(landed(a__csv="1,Ann\n2,Bo\n"), "csv", schema="id INT, name STRING")
    assert result.rows_loaded == 0
    assert "no column is called as the header has it: 1, Ann" in refused(result)[0][1]


def test_bytes_that_are_no_text_are_quarantined_and_the_table_stays_readable(landed, autoload, refused):
    result = autoload(
        landed(a__json=b'{"a":"\xe9"}\n{"a":"ok"}\n', b__csv=b"x"), "json", path_glob_filter="*.json"
    )
    assert [reason for _, reason in refused(result)] == ["not valid UTF-8"]
    assert result.rows_loaded == 1


def test_a_declared_encoding_makes_them_text(landed, autoload, rows):
    result = autoload(landed(a__csv="a\nJosé\n".encode("latin-1")), "csv", encoding="latin-1")
    assert rows(result, "a") == [{"a": "José"}]


BROKEN = '{"a":1}\nbroken\n{"a":2}\n'


def test_permissive_keeps_the_record_in_the_table(landed, autoload, rows):
    result = autoload(landed(a__json=BROKEN), "json", malformed="PERMISSIVE")
    assert sorted(str(r["_corrupt_record"]) for r in rows(result)) == ["None", "None", "broken"]
    assert (result.rows_loaded, result.rows_quarantined) == (3, 0)


@pytest.mark.parametrize("declared", [
    {"schema": "a BIGINT, _rescued_data STRING, broken STRING"},
    {"schemaHints": "a BIGINT, broken STRING"},
])  # fmt: skip
def test_a_field_named_like_the_column_of_broken_records_is_rescued(landed, autoload, rows, declared):
    text = '{"a":1,"broken":"mine"}\nno object\n'
    result = autoload(
        landed(a__json=text), "json", malformed="PERMISSIVE", corrupt_column="broken", **declared
    )
    kept = {r["a"]: (r["broken"], r["_rescued_data"]) for r in rows(result)}
    assert kept == {1: (None, '{"broken":"mine","_file_path":"a.json"}'), None: ("no object", None)}
    assert result.values_unaccounted == {}


def test_dropmalformed_lets_it_go_and_counts_it(landed, autoload):
    result = autoload(landed(a__json=BROKEN), "json", malformed="DROPMALFORMED")
    assert (result.rows_loaded, result.rows_dropped, result.rows_unaccounted) == (2, 1, 0)


def test_failfast_stops_with_file_and_record_and_nothing_moves(landed, autoload, lake):
    with pytest.raises(MalformedRecord, match=r"a\.json.*The record: broken"):
        autoload(landed(a__json=BROKEN), "json", malformed="FAILFAST")
    assert not (lake.root / "web" / "bronze" / "t").exists()


def test_a_bad_records_path_has_a_folder_for_each_batch_beside_the_corrupt_column(
    landed, autoload, rows, tmp_path, spark
):
    people = "customer_id,registration_date\n"
    folder = landed(a__csv=f"{people}1,2023-01-03\n2,NOT_A_DATE\n", b__csv=f"{people}3,2023-02-30\n4\n",
                    c__csv=f"{people}5,2023-01-05\n", d__csv=f"{people}6,soon\n")  # fmt: skip
    options = {"malformed": "PERMISSIVE", "bad_records_path": str(tmp_path / "bad")}
    # The column of what is broken is in the schema, as Spark's own reader wants it.
    schema = "customer_id STRING, registration_date DATE, _corrupt_record STRING"
    result = autoload(folder, "csv", schema=schema, max_files_per_trigger=1, **options)
    wrong = ["2,NOT_A_DATE", "3,2023-02-30", "4", "6,soon"]
    assert sorted(r["_corrupt_record"] for r in rows(result) if r["_corrupt_record"]) == wrong
    found = bad_records(tmp_path / "bad", spark)
    assert sorted(found.select("record").toPandas()["record"]) == wrong
    assert found.select("batch").distinct().count() == 3
    told = {(r["path"], r["reason"]): r["count"] for r in found.groupBy("path", "reason").count().collect()}
    of_a_date = "does not fit the schema: registration_date"
    short = "malformed CSV: not as many cells as the header"
    assert told == {("a.csv", of_a_date): 1, ("b.csv", of_a_date): 1, ("b.csv", short): 1,
                    ("d.csv", of_a_date): 1}  # fmt: skip
    select = ("customer_id", "TO_DATE(registration_date, 'yyyy-MM-dd') AS day")
    copied = copy_into("copied", folder, "csv", select=select, spark=spark, **options)
    assert copied.load.rows_unaccounted == 0
    assert bad_records(tmp_path / "bad", spark).where("batch LIKE '%-default.bronze.copied-%'").count() == 4
    assert bad_records(tmp_path / "none", spark).columns == found.columns


def test_bad_records_are_found_by_the_path_the_load_was_given(
    landed, autoload, spark, lake, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    autoload(landed(a__json='{"id": 1}\nbroken\n'), "json", bad_records_path="bad")
    assert [row["record"] for row in bad_records("bad", spark).collect()] == ["broken"]


PLACED = {
    "lines.json": ('{"id": 1}\n\nbroken\n{"id": 2}\r\nbroken\n', ["line 3", "line 5"]),
    "pretty.json": ('[{"id": 1},\n {"id": 2}]\n{"id":', ["record 3"]),
    "utf16.json": ('{"id": 1}\nbroken\n'.encode("utf-16"), ["line 2"]),
}


@pytest.mark.parametrize("name", PLACED)
def test_a_malformed_record_says_where_in_its_file_it_stands(landed, autoload, name):
    content, places = PLACED[name]
    result = autoload(landed(**{name: content}), "json", schema="id INT")
    held = log.rows(result.quarantine, "SELECT position FROM t ORDER BY position")
    assert [row["position"] for row in held] == places
