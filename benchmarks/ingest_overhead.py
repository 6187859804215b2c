"""What rescue, quarantine and ledger cost: 200 MB of JSON by our door against bare Structured Streaming.

    python -m benchmarks.ingest_overhead [ROUNDS] [MEGABYTES]
    python -m benchmarks.ingest_overhead csv [ROUNDS]

With ``csv`` 47 MB in 305 files, once with every cell in quotes and once with none.

Each round runs both in a process of its own, in turn, on the same files and with the same session options;
only loads are timed, not the session's start. Each process loads twice, each time into a fresh Delta table:
the first load meets code the JVM never ran, the second is what a session that stays pays for the bytes. The
first round warms the disk's cache and is not counted. Files with unknown fields are measured beside, and
88 MB with a timestamp and a decimal in each record. Ratios of the second loads are by the clock and by
processor time, which other work on the machine hardly changes. Last comes what the count of values takes of
the latter.
"""

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from benchmarks.warm_chain import processor_seconds
from medallion_assets.sources.discovery import DiscoveryOptions, entries_of
from medallion_assets.sources.options import Source
from medallion_assets.sources.value_counts import count_values

SCHEMA = "id BIGINT, name STRING, price DOUBLE, tags ARRAY<STRING>, place STRUCT<city: STRING, zip: BIGINT>"
TYPED_SCHEMA = "id BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP"
TYPED_MEGABYTES = 88
SIDES = ("bare", "ours")
LOADS = ("first", "second")
PROCESSOR = "second, of processor time,"


def made(folder, megabytes):
    """Write files of 25 MB: in ``odd`` one record in a hundred has a field no column takes."""
    folder.mkdir(parents=True)
    make = {"clean": record, "odd": odd_record, "typed": typed_record}[folder.name]
    for number in range(max(megabytes // 25, 1)):
        random = Random(number)
        with (folder / f"part{number}.json").open("w") as file:
            while file.tell() < 25 << 20:
                file.write(json.dumps(make(random)) + "\n")


def record(random):
    place = {"city": random.choice(("Lagos", "Umeå", "Quito")), "zip": random.randrange(10**5)}
    return {"id": random.randrange(10**12), "name": f"customer {random.randrange(10**6)}" * 3,
            "price": round(random.uniform(1, 999), 2), "tags": ["a", "b", "c"][: random.randrange(4)],
            "place": place}  # fmt: skip


def odd_record(random):
    return record(random) | ({"unknown": 1} if random.random() < 0.01 else {})


def typed_record(random):
    day = f"2024-{random.randrange(1, 13):02d}-{random.randrange(1, 29):02d}"
    return {"id": random.randrange(10**12), "name": f"customer {random.randrange(10**6)}",
            "amount": round(random.uniform(1, 9999), 2),
            "at": f"{day}T{random.randrange(24):02d}:{random.randrange(60):02d}:00Z"}  # fmt: skip


CSV_SCHEMA = "id BIGINT, name STRING, price DOUBLE, amount DECIMAL(12,2), day DATE, at TIMESTAMP, city STRING"
CSV_FILES, CSV_BYTES = 305, 47 << 20


def made_csv(folder, quoted):
    """Write files of equal size; with ``quoted`` every cell is in quotes."""
    folder.mkdir(parents=True)
    names = [column.split()[0] for column in CSV_SCHEMA.split(", ")]
    for number in range(CSV_FILES):
        random = Random(number)
        with (folder / f"part{number}.csv").open("w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
            writer.writerow(names)
            while file.tell() < CSV_BYTES // CSV_FILES:
                day = f"2024-{random.randrange(1, 13):02d}-{random.randrange(1, 29):02d}"
                at = f"{day} {random.randrange(24):02d}:{random.randrange(60):02d}:00"
                name, price = f"customer {random.randrange(10**6)}", round(random.uniform(1, 999), 3)
                amount, city = f"{random.uniform(1, 9999):.2f}", random.choice(("Lagos", "Umeå", "Quito"))
                writer.writerow((random.randrange(10**12), name, price, amount, day, at, city))


def load(side, source, target):
    """Loads twice and prints the seconds of each."""
    from medallion_assets.session import start_session
    from medallion_assets.settings import current_settings
    from medallion_assets.sources import autoload_to_table

    os.environ["MEDALLION_LAKE"] = str(target / "lake")
    spark = start_session(current_settings())
    spark.range(10).write.format("delta").save(str(target / "warm"))
    is_csv = any(source.glob("*.csv"))
    schema, kind = (CSV_SCHEMA, "csv") if is_csv else (SCHEMA, "json")
    schema = TYPED_SCHEMA if source.name == "typed" else schema
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    for turn in LOADS:
        before = processor_seconds(jvm)
        started, checkpoint = time.monotonic(), target / f"checkpoint {turn}"
        if side == "ours":
            options = {"schema": schema, "schema_evolution_mode": "rescue", "spark": spark}
            autoload_to_table(source, kind, f"bench.bronze.{turn}", checkpoint, **options)
        else:
            reader = spark.readStream.schema(schema)
            rows = reader.csv(str(source), header=True) if is_csv else reader.json(str(source))
            writer = rows.writeStream.format("delta").trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(checkpoint))
            writer.start(str(target / turn)).awaitTermination()
        print(f"seconds {time.monotonic() - started:.2f}")
    whole = processor_seconds(jvm) - before
    print(f"seconds {whole:.2f}")
    print(f"counting {seconds_of_counting(source, kind) / whole if side == 'ours' else 0:.3f}")


def seconds_of_counting(folder, kind):
    """Return the processor's seconds for the values each file holds, one side of their conservation."""
    source = Source("t", kind, str(folder))
    files = entries_of(folder, folder / "none", source, DiscoveryOptions())
    before = time.process_time()
    for file in files:
        count_values(file, source)
    return time.process_time() - before


def seconds(side, source):
    command = [sys.executable, "-m", "benchmarks.ingest_overhead", side, str(source), tempfile.mkdtemp()]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    said = [line.split() for line in done.stdout.splitlines() if line.startswith(("seconds ", "counting "))]
    return dict(zip((*LOADS, PROCESSOR, "counting"), (float(words[1]) for words in said), strict=True))


def main(rounds, megabytes):
    folder = Path(tempfile.mkdtemp(prefix="ingest-"))
    for kind, size in (("clean", megabytes), ("odd", megabytes), ("typed", TYPED_MEGABYTES)):
        made(folder / kind, size)
        compare(folder / kind, rounds)


def main_csv(rounds):
    folder = Path(tempfile.mkdtemp(prefix="ingest-"))
    for kind in ("quoted", "plain"):
        made_csv(folder / kind, kind == "quoted")
        compare(folder / kind, rounds)


def compare(folder, rounds):
    rows = []
    for turn in range(rounds + 1):
        took = {side: seconds(side, folder) for side in SIDES}
        counted = "" if turn else "  (not counted)"
        words = "; ".join(f"{w}: bare {took['bare'][w]:.1f} s, ours {took['ours'][w]:.1f} s" for w in LOADS)
        print(f"{folder.name} round {turn}: {words}{counted}", flush=True)
        rows += [took] if turn else []
    for which in (*LOADS, PROCESSOR) if rows else ():
        ratios = [took["ours"][which] / took["bare"][which] for took in rows]
        spread = f"from {min(ratios):.2f} to {max(ratios):.2f}"
        median = statistics.median(ratios)
        print(f"{folder.name}, {which} load: ours / bare {median:.2f} ({spread})", flush=True)
    counting = statistics.median(took["ours"]["counting"] for took in rows) if rows else 0
    print(f"{folder.name}: the values are counted in {counting:.1%} of the second load's processor time")


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in SIDES:
        load(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["csv"]:
        main_csv(int((sys.argv[2:] or ["3"])[0]))
    else:
        main(*(int(n) for n in (*sys.argv[1:], *("3", "200")[len(sys.argv) - 1 :])))
