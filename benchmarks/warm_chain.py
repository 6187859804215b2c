"""A warm session's increments of 1,000 records, bronze to gold: ours against bare tuned streams, in turn.

    python -m benchmarks.warm_chain [ROUNDS]

The bare side is the health chain in plain Structured Streaming, in our own tuned session: it checks nothing,
quarantines nothing and counts nothing. Seconds by the clock, and of processor time (Python's and the JVM's),
which other work on the machine does not change. The first two rounds warm up and are not counted.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.lake.paths import Lake
from medallion_assets.pipelines.health import bronze, gold, silver
from medallion_assets.runs.run import refresh
from medallion_assets.session.start import start_session
from medallion_assets.settings import Settings
from medallion_assets.simulators import land

WARM_UP = 2
RECORDING = "device_id INT, mrn BIGINT, time DOUBLE, heartrate DOUBLE"


def stream(rows, folder, name, mode="append"):
    writer = rows.writeStream.format("delta").outputMode(mode).trigger(availableNow=True)
    target = str(folder / "bare" / name)
    writer.option("checkpointLocation", f"{target}-checkpoint").start(target).awaitTermination()


def bare(spark, folder):
    landing, lake = folder / "landing/health", folder / "bare"
    files = spark.readStream.schema(RECORDING).json(str(landing / "recordings"))
    arrived = files.select("*", F.current_timestamp().alias("arrived"), F.input_file_name().alias("file"))
    stream(arrived, folder, "bronze")
    patients = spark.read.schema("mrn BIGINT, name STRING").csv(str(landing / "patients"), header=True)
    good = spark.readStream.format("delta").load(str(lake / "bronze")).where("heartrate > 0")
    at = F.timestamp_seconds("time").alias("time")
    joined = good.join(F.broadcast(patients.dropDuplicates(["mrn"])), "mrn")
    stream(joined.select("device_id", "mrn", "name", at, "heartrate"), folder, "silver")
    rows = spark.readStream.format("delta").load(str(lake / "silver"))
    by_day = rows.groupBy("mrn", "name", F.date_trunc("DD", "time").alias("date"))
    stream(
        by_day.agg(F.avg("heartrate").alias("heartrate"), F.count("*").alias("recordings")),
        folder,
        "gold",
        "complete",
    )


def processor_seconds(jvm):
    fields = Path(f"/proc/{jvm}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + time.process_time()


def main(rounds):
    folder = Path(tempfile.mkdtemp(prefix="warm-chain-"))
    os.environ |= {"MEDALLION_LAKE": str(folder / "lake"), "MEDALLION_LANDING": str(folder / "landing")}
    lake = Lake(Settings().resolved())
    spark = start_session(lake.settings, stays=True)
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    chain = (bronze.patients, bronze.recordings, silver.recordings_enriched, gold.daily_patient_avg)
    sides = {
        "ours": lambda: [refresh(table, lake, lambda: spark) for table in chain],
        "bare streams": lambda: bare(spark, folder),
    }
    measured = {name: [] for name in sides}
    for turn in range(rounds + WARM_UP):
        land("health", folder / "landing", 1)
        for name, does in sides.items():
            clock, processor = time.monotonic(), processor_seconds(jvm)
            does()
            took = (time.monotonic() - clock, processor_seconds(jvm) - processor)
            print(f"round {turn} {name:13s} {took[0]:6.2f} s, {took[1]:6.2f} s of processor", flush=True)
            if turn >= WARM_UP:
                measured[name].append(took)
    for place, unit in enumerate(("clock", "processor")):
        pairs = zip(measured["ours"], measured["bare streams"], strict=True)
        ratios = [ours[place] / theirs[place] for ours, theirs in pairs]
        middle = statistics.median(ratios)
        print(f"ours / bare streams, {unit}: {middle:.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
