"""Faults between a landing zone and those who read it: cleaning, first looks, failed loads, late fixes."""

import pytest

from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.sources import copy_into
from medallion_assets.sources.errors import NewColumns
from medallion_assets_tests.corners.test_records_repairs import city, order
from medallion_assets_tests.corners.test_records_repairs import shop as with_cities
from medallion_assets_tests.faults.trial import fault, shop_tables
from medallion_assets_tests.shop import json_lines


@fault("C10", "a loaded file is cleaned away while another table still has to read it", "each once in both")
def cleaned_beside_a_reader(trial):
    archive = str(trial.lake.root.parent / "archive")
    cleaning = {"clean_source": "MOVE", "clean_source_move_destination": archive}
    first = shop_tables(clean_source_retention_days=0, path=str(trial.zone), **cleaning)[0]

    def copied():
        with trial.patched():
            done = copy_into("web.bronze.orders", trial.zone, "json", spark=trial._spark())
        return done.num_inserted_rows

    counts = {"good": 4, "bad": 1, "broken": 0}
    trial.send(**counts)
    assert copied() == 5
    file = trial.send(**counts)
    for _ in range(2):
        trial.run(first)
    assert file.exists(), "the file went before its second reader had it"
    assert copied() == 5
    trial.run(first)
    assert not file.exists(), "the file stays though both have it"
    trial.run(*trial.tables[1:])
    return trial.holds()


@fault("C11", "a first look at an empty zone, of a source that skips what was there", "what lands then loads")
def first_look_at_nothing(trial):
    trial.tables = shop_tables(include_existing_files=False)
    trial.go()
    trial.send()
    trial.go()
    return trial.holds()


@fault("C12", "a COPY INTO fails, the next one names other files", "the named ones alone, then the others")
def loads_after_a_failed_one(trial):
    folder = trial.zone

    def load(**clauses):
        with trial.patched():
            done = copy_into("web.bronze.c", folder, "csv", **clauses, spark=trial._spark())
        return done.num_inserted_rows

    (folder / "a.csv").write_text("id\n1\n")
    load()
    (folder / "bad.csv").write_text("id,new\n2,x\n3,y\n")
    (folder / "good.csv").write_text("id\n4\n")
    with pytest.raises(NewColumns):
        load(files=["bad.csv"])
    took = load(files=["good.csv"]), load(merge_schema=True), load(merge_schema=True)
    assert took == (1, 2, 0), took
    return "one row of the named file, two of the others once the columns may join, then none"


@fault("E4", "a fix is replayed after the static row of its record has changed", "written once, as fixed")
def fixed_after_a_change(trial):
    tables = with_cities("towns", unmatched="keep")

    def land(zone, file, *records):
        trial.land(f"towns/{zone}", file, json_lines(*records))
        trial.run(*tables)

    land("cities", "c.json", city(1))
    land("orders", "a.json", order(1, 5), order(2, -7))
    land("cities", "c.json", city(10))
    asked = VerbRequest(choice=QuarantineFilter(rules=("above_zero",)), fix="total = 7, amount = 7")
    for written in (1, 0):
        done = VERBS["replay"](tables[2], trial.lake, trial._spark, asked)
        assert done.found.get("written", 0) == written, done
    trial.assert_conserved(*tables)
    rows = trial.rows(tables[2], "SELECT id, total, city_number AS n FROM t ORDER BY id")
    assert rows == [{"id": 1, "total": 5, "n": 1}, {"id": 2, "total": 7, "n": 10}], rows
    return "one row written by the first replay, none by the second"
