"""Values that stand in the names of folders: as typed columns, and where they are none of their type."""

import json

import pytest

from medallion_assets.declare import Pipeline
from medallion_assets.delta import log
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets_tests.corners.test_values_columnar import parquet
from medallion_assets_tests.sources.conftest import rescued

pytestmark = pytest.mark.spark
HINTS = "id STRING, year INT, price DECIMAL(9,2), day DATE, on BOOLEAN"
FILES = {
    "json": b'{"id": "1", "price": 3, "more": 7}\n',
    "csv": b"id,price,more\n1,3,7\n",
    "parquet": parquet({"id": ["1"], "price": [3], "more": [7]}),
}


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


def test_a_field_of_a_folders_name_is_kept_beside_it_when_a_record_is_replayed(landed, autoload, rows):
    zone = landed(**{"year=2025/f__json": json.dumps({"id": "1", "year": "1999"})})
    (row,) = rows(autoload(zone, "json"))
    assert (row["year"], rescued(row)) == ("2025", {"year": "1999"})
