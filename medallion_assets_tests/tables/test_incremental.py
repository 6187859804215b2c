"""Incremental gold equals complete gold after every increment, with corrections among them."""

import json
import random
import shutil

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.tables import Pipeline, expect, stream
from medallion_assets.tables.conservation import balance
from medallion_assets.tables.refresh import refresh

pytestmark = pytest.mark.spark
INCREMENTS = 10


def totals(recordings):
    day = F.to_date(F.timestamp_seconds("time")).alias("day")
    sums = (
        F.count("*").alias("rows"),
        F.avg("heartrate").alias("mean"),
        F.sum("heartrate").alias("total"),
        F.min("heartrate").alias("least"),
        F.max("heartrate").alias("most"),
    )
    return recordings.groupBy("mrn", day).agg(*sums)


def distinct(recordings):
    return recordings.groupBy("mrn").agg(
        F.approx_count_distinct("heartrate").alias("rates"), F.count("*").alias("rows")
    )


def chain():
    ward = Pipeline("ward")
    schema = "device_id INT, mrn LONG, time DOUBLE, heartrate DOUBLE"

    @ward.bronze()
    def recordings(
        files=ward.landing("recordings", format="json", schema=schema, allow_overwrites="replace"),  # noqa: B008
    ):
        """One row per recording."""
        return files

    @ward.silver(unique_by=("device_id", "mrn", "time"), expectations=[expect("alive", "heartrate > 0")])
    def clean(recordings=stream(recordings)):
        """One row per recording of a heart that beats."""
        return recordings.select("device_id", "mrn", "time", "heartrate")

    def gold(name, query, mode):
        def summed(clean=stream(clean)):
            """One row per patient, summed."""
            return query(clean)

        summed.__name__ = name
        return ward.gold(output_mode=mode, counts_rows="rows")(summed)

    modes = [(q, m) for q in (totals, distinct) for m in ("complete", "incremental")]
    return recordings, clean, *(gold(f"{q.__name__}_{m}", q, m) for q, m in modes)


def gold_of(lake, table):
    rows = log.rows(lake.path(table), "SELECT * FROM t")
    kept = [{k: v for k, v in r.items() if not k.startswith("_partial_")} for r in rows]
    return {(r["mrn"], str(r.get("day"))): [v for k, v in r.items() if k not in ("mrn", "day")] for r in kept}


def assert_equal(lake, complete, incremental):
    whole, merged = gold_of(lake, complete), gold_of(lake, incremental)
    assert whole.keys() == merged.keys()
    for key, values in whole.items():
        assert merged[key] == pytest.approx(values, rel=1e-9), (complete.key, key)


def correct(file, chance):
    """Takes some records out of a landed file and changes others, as its sender might."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    kept = [r for r in rows if chance.random() > 0.1]
    for row in chance.sample(kept, min(20, len(kept))):
        row["heartrate"] = chance.choice([-1.0, 61.5, 99.25])
    file.write_text("".join(json.dumps(r) + "\n" for r in kept))


def test_both_forms_are_equal_on_real_recordings_after_each_of_ten_increments(lake, spark, shared):
    chance, tables = random.Random(3), chain()
    files = sorted(shared("health").rglob("*.json"))
    real = [line for file in files for line in file.read_text().splitlines() if line][:8000]
    landing = lake.settings.landing / "ward/recordings"
    landing.mkdir(parents=True)
    share = len(real) // INCREMENTS
    strategies = set()
    for number in range(INCREMENTS):
        part = real[number * share : (number + 1) * share]
        (landing / f"{number:02d}.json").write_text("\n".join(part) + "\n")
        if number % 3 == 2:
            correct(landing / f"{chance.randrange(number):02d}.json", chance)
        if number == 5:
            # As a process leaves it that died between a table's commit and its checkpoint's.
            for table in tables[1:]:
                commits = lake.state(table, "checkpoint") / "commits"
                last = max(int(f.name) for f in commits.iterdir() if f.name.isdigit())
                (commits / str(last)).unlink()
                (commits / f".{last}.crc").unlink(missing_ok=True)
        for table in tables:
            done = refresh(table, lake, lambda: spark)
            strategies |= {b.strategy.partition(":")[0] for b in done.batches}
            assert balance(table, lake).holds, f"{number}: {balance(table, lake)}"
        assert_equal(lake, *tables[2:4])
        assert_equal(lake, *tables[4:6])
    assert {"merged", "remade for the groups it touches"} <= strategies


def test_a_lost_checkpoint_neither_doubles_nor_loses_in_an_incremental_aggregate(lake, spark, drop):
    tables = chain()
    line = '{"device_id": 1, "mrn": 7, "time": %d, "heartrate": 60.0}\n'
    drop("ward/recordings", "1.json", "".join(line % t for t in range(5)))
    for table in tables[:4]:
        refresh(table, lake, lambda: spark)
    shutil.rmtree(lake.state(tables[3], "checkpoint"))
    drop("ward/recordings", "2.json", "".join(line % t for t in range(5, 8)))
    for table in tables[:4]:
        refresh(table, lake, lambda: spark)
    assert [v[0] for v in gold_of(lake, tables[3]).values()] == [8]
