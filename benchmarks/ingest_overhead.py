"""What rescue, quarantine and ledger cost: 200 MB of JSON by our door against bare Structured Streaming.

    python -m benchmarks.ingest_overhead [ROUNDS] [MEGABYTES]

Each round runs both in a process of its own, in turn, into a fresh Delta table, on the same files and with
the same session options; only the load is timed, not the session's start. The first round warms the disk's
cache and is not counted. A file with unknown and mistyped fields is measured beside, for what they cost.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

SCHEMA = "id BIGINT, name STRING, price DOUBLE, tags ARRAY<STRING>, place STRUCT<city: STRING, zip: BIGINT>"
SIDES = ("bare", "ours")


def made(folder, megabytes, odd):
    """Writes files of 25 MB; with ``odd`` one record in a hundred has a field no column takes."""
    folder.mkdir(parents=True)
    for number in range(max(megabytes // 25, 1)):
        random = Random(number)
        with (folder / f"part{number}.json").open("w") as file:
            while file.tell() < 25 << 20:
                file.write(json.dumps(record(random, odd)) + "\n")


def record(random, odd):
    place = {"city": random.choice(("Lagos", "Umeå", "Quito")), "zip": random.randrange(10**5)}
    made = {"id": random.randrange(10**12), "name": f"customer {random.randrange(10**6)}" * 3,
            "price": round(random.uniform(1, 999), 2), "tags": ["a", "b", "c"][: random.randrange(4)],
            "place": place}  # fmt: skip
    return made | ({"unknown": 1} if odd and random.random() < 0.01 else {})


def load(side, source, target):
    """Loads once and prints the seconds."""
    from medallion_assets.ingestion import autoload_to_table
    from medallion_assets.session import start_session
    from medallion_assets.settings import current_settings

    os.environ["MEDALLION_LAKE"] = str(target / "lake")
    spark = start_session(current_settings())
    spark.range(10).write.format("delta").save(str(target / "warm"))
    started = time.monotonic()
    if side == "ours":
        options = {"schema": SCHEMA, "schema_evolution_mode": "rescue", "spark": spark}
        autoload_to_table(source, "json", "bench.bronze.t", target / "checkpoint", **options)
    else:
        rows = spark.readStream.schema(SCHEMA).json(str(source))
        writer = rows.writeStream.format("delta").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(target / "checkpoint"))
        writer.start(str(target / "bare")).awaitTermination()
    print(f"seconds {time.monotonic() - started:.2f}")


def seconds(side, source):
    command = [sys.executable, "-m", "benchmarks.ingest_overhead", side, str(source), tempfile.mkdtemp()]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.rpartition("seconds ")[2])


def main(rounds, megabytes):
    folder = Path(tempfile.mkdtemp(prefix="ingest-"))
    for kind in ("clean", "odd"):
        made(folder / kind, megabytes, kind == "odd")
        ratios = []
        for turn in range(rounds + 1):
            took = {side: seconds(side, folder / kind) for side in SIDES}
            counted = "" if turn else "  (not counted)"
            print(
                f"{kind} round {turn}: bare {took['bare']:.1f} s, ours {took['ours']:.1f} s{counted}",
                flush=True,
            )
            ratios += [took["ours"] / took["bare"]] if turn else []
        span = f"from {min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{kind}: ours / bare {statistics.median(ratios):.2f} ({span})", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in SIDES:
        load(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(*(int(n) for n in (*sys.argv[1:], *("3", "200")[len(sys.argv) - 1 :])))
