"""Values that stand in the names of folders: as typed columns, and where they are none of their type."""

import io
import json

import fastavro
import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DateType, StringType, StructType

from medallion_assets.declare import Pipeline
from medallion_assets.delta import log
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.sources.ledger import ADMITTED, Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.partitions import own_columns, with_refusals
from medallion_assets_tests.corners.test_values_books import NOW
from medallion_assets_tests.corners.test_values_columnar import parquet
from medallion_assets_tests.examples import examples
from medallion_assets_tests.sources.conftest import rescued

HINTS = "id STRING, year INT, price DECIMAL(9,2), day DATE, on BOOLEAN"
FILES = {
    "json": b'{"id": "1", "price": 3, "more": 7}\n',
    "csv": b"id,price,more\n1,3,7\n",
    "parquet": parquet({"id": ["1"], "price": [3], "more": [7]}),
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", FILES)
def test_a_folder_value_no_type_holds_is_rescued_beside_the_files_own_values(kind, landed, autoload, rows):
    good, bad = "year=007/price=1.20/day=2026-02-28/on=true", "year=20x6/price=1.239/day=2026-02-30/on=maybe"
    nothing = "year=__HIVE_DEFAULT_PARTITION__/price=%31/day=/on=false"
    zone = landed(**{f"{folder}/f__{kind}": FILES[kind] for folder in (good, bad, nothing)})
    done = autoload(zone, kind, schema_hints=HINTS, schema_evolution_mode="rescue", schema=HINTS)
    found = {row["on"]: row for row in rows(done)}
    typed = [[str(v) for v in (r["year"], r["price"], r["day"], r["on"])] for r in found.values()]
    assert sorted(typed) == [
        ["7", "1.20", "2026-02-28", "True"],
        ["None", "1.00", "None", "False"],
        ["None", "None", "None", "None"],
    ]
    own = {"more": rescued(found[True])["more"], "price": rescued(found[True])["price"]}
    assert {name: str(value) for name, value in own.items()} == {"more": "7", "price": "3"}
    assert {k: v for k, v in rescued(found[None]).items() if k not in ("more", "price")} == {
        "year": "20x6", "day": "2026-02-30", "on": "maybe",
    }  # fmt: skip
    assert '"price":"1.239"' in found[None]["_rescued_data"]


def shop(kind, schema):
    made = Pipeline("parted")

    @made.bronze()
    def prices(files=made.landing("prices", format=kind, schema=schema)):  # noqa: B008
        """One row per price, as it landed."""
        return files

    return prices


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_quarantined_records_keep_the_values_of_their_folders_when_they_are_replayed(kind, lakehouse):
    lines = {"json": ('{"id": 1}', '{"id": oops}'), "csv": ("id\n1", '"x"y')}[kind]
    lakehouse.land("parted/prices", f"year=2025/f.{kind}", "\n".join(lines) + "\n")
    lakehouse.land("parted/prices", f"year=20x6/f.{kind}", lines[0] + "\n")
    strict = shop(kind, "id INT, year INT")
    lakehouse.run(strict)
    assert lakehouse.rows(strict, "SELECT id, year FROM t") == [{"id": 1, "year": 2025}]
    entries = log.rows(lakehouse.lake.quarantine(strict), "SELECT row, rules, reason_class FROM t")
    (unfit,) = [entry for entry in entries if entry["reason_class"] == "schema"]
    assert "year=20x6" in unfit["rules"][0]
    fix = "row = replace(row, 'oops', '2')" if kind == "json" else """row = replace(row, '"x"y', '2')"""
    told = VERBS["replay"](strict, lakehouse.lake, lakehouse._spark, VerbRequest(fix=fix))
    assert (told.found["written"], told.found["still_open"]) == (1, 1), told
    assert lakehouse.rows(strict, "SELECT id, year FROM t ORDER BY id") == [
        {"id": 1, "year": 2025},
        {"id": 2, "year": 2025},
    ]


@pytest.mark.spark
def test_a_field_of_a_folders_name_is_kept_beside_it_when_a_record_is_replayed(landed, autoload, rows):
    zone = landed(**{"year=2025/f__json": json.dumps({"id": "1", "year": "1999"})})
    (row,) = rows(autoload(zone, "json"))
    assert (row["year"], rescued(row)) == ("2025", {"year": "1999"})


def orc(rows):
    out = io.BytesIO()
    pyarrow.orc.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


def avro(rows):
    out = io.BytesIO()
    fields = [{"name": name, "type": "int"} for name in rows[0]]
    fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, rows)
    return out.getvalue()


RECORDS = [{"id": 1, "more": 5}, {"id": 2, "more": 6}]
XML = (
    "<rows>" + "".join(f"<row><id>{r['id']}</id><more>{r['more']}</more></row>" for r in RECORDS) + "</rows>"
)
REFUSED = {
    "json": ('{"id":1,"more":5}\n\n{"id":2, "more":6}\n', {"line 1", "line 3"}),
    "csv": ("id,more\n1,5\n2,6\n", {"line 2", "line 3"}),
    "xml": (XML, {"record 1", "record 2"}),
    "parquet": (parquet({"id": [1, 2], "more": [5, 6]}), {"record 1", "record 2"}),
    "orc": (orc(RECORDS), {None}),
    "avro": (avro(RECORDS), {"record 1", "record 2"}),
    "text": ("5\n6\n", {"line 1", "line 2"}),
    "binaryFile": (b"5 and 6", {"whole file"}),
}
"""By format two records, and their positions."""


@pytest.mark.spark
def test_a_record_that_its_folder_refuses_keeps_its_place_and_what_no_column_takes(landed, autoload):
    for kind, (contents, places) in REFUSED.items():
        options = {"rowTag": "row"} if kind == "xml" else {}
        options |= {"schema_hints": "day DATE"} if kind in ("text", "binaryFile") else {
            "schema": "id BIGINT, day DATE", "schema_evolution_mode": "none"}  # fmt: skip
        zone = landed(**{f"{kind}/day={day}/f__{kind}": contents for day in ("soon", "2026-02-28")}) / kind
        done = autoload(zone, kind, kind, mistyped="QUARANTINE", **options)
        count = 1 if kind == "binaryFile" else 2
        assert (done.rows_loaded, done.rows_quarantined, done.rows_unaccounted) == (count, count, 0), kind
        found = log.rows(done.quarantine, "SELECT row, rules, position FROM t")
        assert {entry["position"] for entry in found} == places, kind
        assert {entry["rules"][0] for entry in found} == {"does not fit the schema: day=soon"}, kind
        texts = "".join(sorted(entry["row"] for entry in found))
        assert ("5" in texts and "6" in texts) or kind == "binaryFile", (kind, texts)
        assert kind != "json" or '{"id":2, "more":6}' in texts


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["json", "csv", "xml"])
def test_a_record_that_its_folder_refused_is_brought_back_whole_by_a_replay(kind, lakehouse):
    def prices_of(**options):
        made, schema = Pipeline("parted"), "id INT, day DATE"

        @made.bronze()
        def prices(files=made.landing("prices", format=kind, schema=schema, **options)):  # noqa: B008
            """One row per price, as it landed."""
            return files

        return prices

    row_tag = {"reader_options": {"rowTag": "row"}} if kind == "xml" else {}
    lakehouse.land("parted/prices", f"Day=soon/f.{kind}", REFUSED[kind][0])
    strict, lenient = prices_of(**row_tag), prices_of(mistyped="RESCUE", **row_tag)
    lakehouse.run(strict)
    told = VERBS["replay"](lenient, lakehouse.lake, lakehouse._spark, VerbRequest())
    assert (told.found["written"], told.found["still_open"]) == (2, 0), told
    rows = lakehouse.rows(lenient, "SELECT * FROM t ORDER BY id")
    assert [(row["id"], row["day"]) for row in rows] == [(1, None), (2, None)]
    left = [{name: str(value) for name, value in rescued(row).items()} for row in rows]
    assert left == [{"more": "5", "day": "soon"}, {"more": "6", "day": "soon"}]


ODD_KEYS = ["region-id", "a.b", "x*(y", "[k]", "k$", "ü", "a b", "2nd", "\\E"]


@pytest.mark.spark
def test_a_declared_key_of_any_text_is_read_exactly_or_rescued(landed, autoload, rows):
    folders = {
        "good": "/".join(f"{key.upper()}={n}" for n, key in enumerate(ODD_KEYS)),
        "bad": "/".join(f"{key}=abc" for key in ODD_KEYS),
        # No key is a pattern of others.
        "others": "axb=1/xxy=1/k=1/regionid=1",
    }
    zone = landed(**{f"{folder}/f__json": f'{{"id": "{name}"}}' for name, folder in folders.items()})
    hints = ", ".join(f"`{key}` INT" for key in ODD_KEYS)
    done = autoload(zone, "json", partition_columns=tuple(ODD_KEYS), schema_hints=hints)
    found = {row["id"]: row for row in rows(done)}
    assert [str(found["good"][key]) for key in ODD_KEYS] == [str(n) for n in range(len(ODD_KEYS))]
    assert [found["others"][key] for key in ODD_KEYS] == [None] * len(ODD_KEYS)
    assert rescued(found["bad"]) == dict.fromkeys(ODD_KEYS, "abc")


ESCAPES = {
    "a%2Fb": "a/b", "%": "%", "100%25": "100%", "%zz%20": "%zz%20", "%ff": "%ff", "%ff%41": "%ff%41",
    "%E2%82%AC": "€", "%EF%BF%BD": "\ufffd", "a+b": "a+b", "a%2Bb": "a+b", "%3D=": "==", "%c3%bc": "ü",
    "%00": "\0",
}  # fmt: skip
"""Values of folders, and what they say: escapes that spell no text are kept as they are."""


@pytest.mark.spark
def test_percent_escapes_of_keys_and_values_change_and_lose_neither(landed, autoload, rows):
    keys = ["year x=", "year%20x=", "Year%20%58=", "%79ear x="]
    names = {f"{keys[n % len(keys)]}{text}/Größe%3F={n}": text for n, text in enumerate(ESCAPES)}
    zone = landed(**{f"{folder}/f__json": f'{{"id": {n}}}' for n, folder in enumerate(names)})
    declared = {"partition_columns": ("year x", "größe?"), "schema_hints": "`größe?` INT"}
    found = {row["id"]: row for row in rows(autoload(zone, "json", "declared", **declared))}
    for n, (folder, text) in enumerate(names.items()):
        row = found[str(n)]
        assert (row["year x"], row["größe?"], row["_rescued_data"]) == (ESCAPES[text], n, None), folder
    done = autoload(zone, "json", "undeclared")
    assert {name for row in rows(done) for name in row} == {"id", "_rescued_data"}
    assert {row["_source_file"] for row in rows(done, "_source_file")} == {
        f"{folder}/f.json" for folder in names
    }


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="/="), min_size=1, max_size=8)


@given(
    key=KEYS,
    other=KEYS,
    text=st.sampled_from(["soon", "2026-02-28", "2026-02-30", "", "%32026", "%32026-02-28", "%"]),
)
@examples(200)
def test_a_file_is_refused_for_its_folders_value_whatever_the_declared_key(key, other, text):
    schema = StructType().add("id", StringType()).add(key, DateType())
    source = Source("s", "json", partition_columns=(key,), schema="id STRING", mistyped="QUARANTINE")
    path = f"{other}x=1/{key}={text}/f.json"
    file = Entry(path, 1, NOW, "", 1, "lines", "", ADMITTED, "", NOW)
    (judged,) = with_refusals([file], source, schema)
    assert own_columns(schema, [path], source).names == ["id"] or key.lower() == "id"
    assert bool(judged.refusal) == (text not in ("2026-02-28", "", "%32026-02-28"))


@pytest.mark.spark
@pytest.mark.thorough
def test_a_csv_record_that_looks_like_json_stays_what_it_is_when_it_is_replayed(lakehouse):
    lakehouse.land("parted/prices", "year=2025/f.csv", 'id,more\n"{""id"":1}",x\n{},\n')
    strict = shop("csv", "id INT, year INT, more STRING")
    lakehouse.run(strict)
    told = VERBS["replay"](strict, lakehouse.lake, lakehouse._spark, VerbRequest())
    assert (told.found["written"], told.found["still_open"]) == (0, 2), told
    told = VERBS["replay"](strict, lakehouse.lake, lakehouse._spark, VerbRequest(fix="row = '{\"id\":7}'"))
    assert (told.found["written"], told.found["still_open"]) == (0, 2), told
