"""The zone a machine is set to changes no value: not by Spark's Java, and not by Python's own times."""

import datetime as dt
import io
import os
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.orc
import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import sql, stream
from medallion_assets.declare import Pipeline
from medallion_assets.session.frames import printed
from medallion_assets_tests.shop import json_lines

pytestmark = pytest.mark.spark


@pytest.fixture
def in_new_york(monkeypatch):
    """On 8 March 2026 an hour is left out there at 7:00 UTC; on 1 November that of 5:00 UTC comes again."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


LOADED = """
import sys
from medallion_assets import autoload_to_table
source, target = sys.argv[1:]
from medallion_assets.session import start_session
from medallion_assets.settings import current_settings
spark = start_session(current_settings())
done = autoload_to_table(source, "orc", "default.bronze.t", target, spark=spark)
rows = spark.read.format("delta").load(str(done.path)).selectExpr("n", "CAST(t AS STRING) AS t").orderBy("n")
print([tuple(row) for row in rows.collect()], spark.stop())
"""


def test_times_of_an_orc_file_are_the_same_whatever_zone_the_machine_is_set_to(tmp_path, landed, lake):
    def orc(number, moment):
        out = io.BytesIO()
        times = pa.array([moment], pa.timestamp("us"))
        pyarrow.orc.write_table(pa.table({"n": [number], "t": times}), out)
        return out.getvalue()

    # Spark reads the first file, a copy of the second.
    folder = landed(a=orc(1, dt.datetime(2020, 1, 1)), b=orc(2, dt.datetime(1960, 1, 1)))
    command = [sys.executable, "-c", LOADED, str(folder), str(tmp_path / "checkpoints")]
    environment = os.environ | {"TZ": "Asia/Tokyo"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "[(1, '2020-01-01 00:00:00'), (2, '1960-01-01 00:00:00')]" in done.stdout, done.stderr[-2000:]


def seen_within(horizon):
    shop = Pipeline("shop")

    @shop.bronze()
    def events(files=shop.landing("events", format="json", schema="id INT, at TIMESTAMP")):  # noqa: B008
        """One row per record, as it landed."""
        return files

    @shop.silver(unique_by="id", unique_over="at", unique_within=horizon)
    def seen(events=stream(events)):
        """One row per event that was not there shortly before."""
        return events.select("id", "at")

    return events, seen


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("2026-11-01T05:00:00Z", "2026-11-01T05:20:00Z"),
        ("2026-11-01T06:00:00Z", "2026-11-01T06:20:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:20:00Z"),
        ("9999-12-31T23:00:00Z", "9999-12-31T23:20:00Z"),
    ],
)
def test_a_key_within_its_horizon_is_found_in_an_hour_that_the_machine_has_twice_or_not_at_all(
    first, again, in_new_york, drop, refreshed, rows_of
):
    events, seen = seen_within("30 minutes")
    drop("shop/events", "1.json", json_lines({"id": 1, "at": first}))
    refreshed(events, seen)
    drop("shop/events", "2.json", json_lines({"id": 1, "at": again}))
    *_, done = refreshed(events, seen)
    assert done.total("duplicates") == 1


def test_a_session_ends_after_its_silence_though_the_machine_has_an_hour_less_that_night(
    in_new_york, drop, refreshed, rows_of
):
    shop = Pipeline("shop")

    @shop.bronze()
    def clicks(files=shop.landing("clicks", format="json", schema="who STRING, at TIMESTAMP")):  # noqa: B008
        """One row per click."""
        return files

    @shop.gold(output_mode="append", row_count_column="clicks")
    def sessions(clicks=stream(clicks, event_time="at", watermark="1 minute")):
        """One row per session."""
        return clicks.groupBy(F.session_window("at", "10 minutes").alias("window"), "who").agg(
            F.count("*").alias("clicks")
        )

    def land(name, *times):
        drop("shop/clicks", name, json_lines(*({"who": "a", "at": f"2026-03-08T{time}Z"} for time in times)))
        return refreshed(clicks, sessions)[-1]

    land("1.json", "06:00:00", "07:20:00")
    land("2.json", "07:21:00")
    # Its session would end at 07:05, before the watermark of 07:20.
    assert land("3.json", "06:55:00", "07:22:00").total("late") == 1


def test_rows_are_shown_with_the_times_they_have_in_any_zone_and_year(in_new_york, spark):
    times = "SELECT TIMESTAMP'0001-01-01 00:00:00' AS a, TIMESTAMP'2026-07-01 00:00:00' AS a"
    (row,) = printed(sql(f"{times}, DATE'+12345-01-01' AS b", spark=spark)).collect()
    assert tuple(row) == ("0001-01-01 00:00:00", "2026-07-01 00:00:00", "+12345-01-01")
