"""Health end to end, against sums made without Spark from the raw files."""

import csv
import json
import math
from collections import defaultdict
from datetime import datetime, timezone

import pytest

from medallion_assets.delta import log
from medallion_assets.simulators import land

pytestmark = pytest.mark.spark


TYPES = {
    "bronze/patients": {"mrn": "long", "name": "string"},
    "bronze/recordings": {"device_id": "integer", "mrn": "long", "time": "double", "heartrate": "double"},
    "silver/recordings_enriched": {"mrn": "long", "time": "timestamp"},
    "gold/daily_patient_avg": {"mrn": "long", "date": "timestamp", "avg_heartrate": "double"},
}
"""What readers of the notebooks' tables look for."""


def expected_gold(records, known):
    beats = defaultdict(list)
    for r in records:
        if r["heartrate"] is not None and r["heartrate"] > 0 and r["mrn"] in known:
            day = datetime.fromtimestamp(r["time"] // 86400 * 86400, timezone.utc)
            beats[r["mrn"], day].append(r["heartrate"])
    return {key: math.fsum(values) / len(values) for key, values in beats.items()}


def records_in(paths):
    return [json.loads(line) for p in paths for line in p.read_text().splitlines() if line.strip()]


def sound_records(paths):
    """Return the lines that are one object of the declared shape, judged by Python alone."""
    for path in paths:
        for line in path.read_text().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and not isinstance(record["heartrate"], str):
                yield record


def assert_gold_is(rows_of, expected):
    gold = {(r["mrn"], r["date"]): r["avg_heartrate"] for r in rows_of("health/gold/daily_patient_avg")}
    assert gold.keys() == expected.keys()
    assert all(math.isclose(gold[key], expected[key], rel_tol=0, abs_tol=1e-9) for key in expected)


def test_real_files_in_three_instalments_equal_an_independent_computation(shared, drop, run, rows_of):
    real = shared("health")
    drop("health/patients", "patient_info.csv", real / "patients/patient_info.csv")
    with (real / "patients/patient_info.csv").open() as file:
        known = {int(row["mrn"]): row["name"] for row in csv.DictReader(file)}
    landed = []
    for instalment in (["01"], ["02", "03"], ["04"]):
        for month in instalment:
            landed.append(drop("health/recordings", f"{month}.json", real / f"recordings/{month}.json"))
        run("health")
        records = records_in(landed)
        good = [r for r in records if r["heartrate"] > 0 and r["mrn"] in known]
        count = "SELECT count(*) AS n FROM t"
        assert rows_of("health/bronze/recordings", count) == [{"n": len(records)}]
        assert rows_of("health/silver/recordings_enriched", count) == [{"n": len(good)}]
        refused = rows_of("health/quarantine/recordings_enriched", "SELECT rules FROM t")
        assert refused == [{"rules": ["heartrate_above_zero"]}] * (len(records) - len(good))
        assert_gold_is(rows_of, expected_gold(records, known))


def test_simulated_months_with_faults_reach_gold_or_quarantine(lake, run, rows_of):
    begun = datetime.now(timezone.utc)
    for _ in range(3):
        land("health", lake.settings.landing, 1, with_faults=True)
        run("health")
    landing = lake.settings.landing / "health"
    with (landing / "patients/patients_0001.csv").open() as file:
        known = {int(row["mrn"]) for row in csv.DictReader(file)}
    assert_gold_is(rows_of, expected_gold(sound_records(landing.glob("recordings/*.json")), known))
    types = {name: dict(log.schema(lake.root / "health" / name)) for name in TYPES}
    assert {name: {column: types[name][column] for column in told} for name, told in TYPES.items()} == TYPES
    columns = "source_file, receipt_time, _ingested_at"
    received = rows_of("health/bronze/recordings", f"SELECT DISTINCT {columns} FROM t")
    assert sorted(r["source_file"] for r in received) == [
        f"recordings_2020_0{month}.json" for month in (1, 2, 3)
    ]
    now = datetime.now(timezone.utc)
    assert all(begun < r["_ingested_at"] <= r["receipt_time"] < now for r in received)
    assert len({r["receipt_time"] for r in received}) == 3
    reasons = {
        r["reason"] for r in rows_of("health/quarantine/recordings", "SELECT unnest(rules) AS reason FROM t")
    }
    several = "several values on one line"
    assert reasons == {"malformed JSON", "not a JSON object", "does not fit the schema", several}
    kinds = rows_of("health/quarantine/recordings", "SELECT DISTINCT reason_class AS kind FROM t")
    assert {row["kind"] for row in kinds} == {"parse", "schema"}
    rules = rows_of("health/quarantine/recordings_enriched", "SELECT DISTINCT unnest(rules) AS rule FROM t")
    assert {r["rule"] for r in rules} == {"heartrate_above_zero", "known_patient"}


@pytest.mark.parametrize("layout", ["lines", "array", "pretty", "pretty_array"])
def test_json_loads_whole_however_it_is_laid_out(layout, lake, drop, run, rows_of):
    records = [{"device_id": 1, "mrn": 7, "time": 1.6e9 + i, "heartrate": 60.5} for i in range(50)]
    text = {
        "lines": "\n".join(map(json.dumps, records)),
        "array": json.dumps(records),
        "pretty": "\n".join(json.dumps(r, indent=2) for r in records),
        "pretty_array": json.dumps(records, indent=2),
    }[layout]
    drop("health/recordings", "r.json", text)
    run("health/bronze/recordings")
    times = rows_of("health/bronze/recordings", "SELECT time FROM t ORDER BY time")
    assert [t["time"] for t in times] == [r["time"] for r in records]


def test_a_patient_delivered_twice_does_not_double_recordings(drop, run, rows_of):
    drop("health/patients", "a.csv", "mrn,name\n7,Ada\n")
    drop("health/patients", "b.csv", "name,mrn\nAda,7\nBob,seven\n")
    drop("health/recordings", "r.json", '{"device_id":1,"mrn":7,"time":1.6e9,"heartrate":60}\n')
    run("health")
    assert len(rows_of("health/silver/recordings_enriched")) == 1
    (held,) = rows_of("health/quarantine/patients", "SELECT row FROM t")
    assert "seven" in held["row"], "an mrn that is no number fails no join: it is not in bronze"
