"""Peak memory and time of what grows with the input, each case at two sizes, in a process of its own.

    python -m benchmarks.bounds [SCALE] [CASE ...]

Memory must not grow with the input. The first four cases discover (count, hash) and parse (to Parquet) one
landed file without Spark: copies of one bad line, a JSON array as one document, a text that breaks off at
its start, rows with times and decimals. The others run in a Spark session:

    load        a file of bad lines, through a whole bronze run with its checks
    many files  so many files of one record in one batch, through bronze and silver with their checks
    quarantine  an increment of 1,000 rows, with checks and metadata, beside a quarantine of so many entries
    backlog     a silver run over so many rows in commits of 50,000, as one batch and in parts of 4 MiB
    in order    one later event of a key that has so many states
    keys        the check that each key stands once, in a table of so many keys

What is measured comes after what makes it ready; peaks are those of that part alone, of Python and of the
JVM, whose heap may have grown before. A SCALE below 1 shrinks all sizes.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType, TimestampType

from medallion_assets.declare import Pipeline, expect, keep_changes, stream
from medallion_assets.lake.paths import Lake
from medallion_assets.settings import Settings

BAD_LINE = b'{"id": 1, "name": broken, "more": "' + b"x" * 60 + b'"}\n'
RECORD = b'{"id": %d, "at": "2026-01-01T10:20:30.123456Z", "price": %d.25, "name": "customer %d"}'
PARSED = {
    "bad lines": (1e6, 5e6),
    "one document": (1e6, 12e6),
    "broken document": (1e6, 12e6),
    "times": (1e6, 4e6),
}
RUN = {
    "load": (1e6, 5e6),
    "many files": (2e3, 2e4),
    "quarantine": (1e4, 1e6),
    "backlog whole": (2e5, 1e6),
    "backlog in parts": (2e5, 1e6),
    "in order": (2e3, 2e5),
    "keys": (1e6, 1e7),
}
SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("at", TimestampType()),
        StructField("price", DecimalType(12, 2)),
        StructField("name", StringType()),
    ]
)
COMMIT = 50_000
PART = 4 << 20


def write(case, records, path):
    """Write a file of so many records."""
    with path.open("wb") as file:
        if case in ("bad lines", "load"):
            for _ in range(records // 1000):
                file.write(BAD_LINE * 1000)
            return
        starts = {"one document": b"[", "broken document": b'[{"a": tru},\n'}
        file.write(starts.get(case, b""))
        between = b"\n" if case == "times" else b",\n"
        for start in range(0, records, 1000):
            file.write(b"" if start == 0 else between)
            file.write(between.join(RECORD % (n, n, n) for n in range(start, start + 1000)))
        file.write(b"]" if case == "one document" else b"\n")


def parsed(case, records, folder):
    """Land a file, discover and parse it."""
    from medallion_assets.sources.discovery import DiscoveryOptions, entries_of
    from medallion_assets.sources.formats.text_files import parse_text_files
    from medallion_assets.sources.options import Source

    landing = folder / "landing"
    landing.mkdir()
    write(case, records, landing / "a.json")
    multi_line = "true" if "document" in case else "auto"
    source = Source("t", "json", str(landing), reader_options={"multiLine": multi_line})

    def work():
        files = entries_of(landing, folder / "ledger", source, DiscoveryOptions())
        parse_text_files(files, SCHEMA, source, folder / "out")

    return work


def shop(**landed):
    """Orders, the sales among them, and what became of each buyer."""
    made = Pipeline("shop")
    landed = {"format": "json", "schema": "id LONG, who LONG, at LONG, name STRING"} | landed

    @made.bronze()
    def orders(files=made.landing("orders", **landed)):  # noqa: B008
        """One row per order."""
        return files

    @made.silver(unique_by="id", expectations=[expect("named", "name IS NOT NULL")])
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "who", "name")

    @made.silver(scd=keep_changes("who", "at", type=2))
    def people(orders=stream(orders)):
        """One row per person and state."""
        return orders.select("who", "at", "name")

    return orders, sales, people


class Trial:
    """A lake of its own, and the tables that are run on it."""

    def __init__(self, folder, **options):
        """Take an empty folder, and settings of the lake."""
        from medallion_assets.session import start_session

        settings = Settings(lake=folder / "lake", landing=folder / "landing", **options).resolved()
        self.lake, self.spark = Lake(settings), start_session(settings, stays=True)
        self.zone = settings.landing / "shop/orders"
        self.zone.mkdir(parents=True)

    def land(self, file, ids, **fields):
        """Land a file of orders with these ids."""
        made = ({"id": n, "who": n, "at": n, "name": f"order {n}", **fields} for n in ids)
        (self.zone / file).write_text("".join(json.dumps(one) + "\n" for one in made))

    def run(self, *tables):
        """Run tables with their checks."""
        from medallion_assets.runs.run import run_tables

        done = list(run_tables(tables, self.lake, lambda: self.spark))
        assert not [o.error for o in done if o.error], done
        return done


def loaded(case, records, folder):
    """Bad lines, and one record that fits, through a bronze run."""
    trial, (orders, *_) = Trial(folder), shop()
    write(case, records, trial.zone / "a.json")
    trial.land("b.json", [1])
    return lambda: trial.run(orders)


def of_many_files(case, records, folder):
    """So many files of one order, in one batch."""
    trial, (orders, sales, _) = Trial(folder), shop(max_files_per_trigger=records)
    for number in range(records):
        trial.land(f"{number}.json", [number])
    return lambda: trial.run(orders, sales)


def beside_quarantine(case, records, folder):
    """Refuse so many rows, then take 1,000 of which ten are refused."""
    from medallion_assets.orchestration import metadata

    trial, (orders, sales, _) = Trial(folder), shop()
    for start in range(0, records, 100_000):
        trial.land(f"{start}.json", range(start, min(start + 100_000, records)), name=None)
    trial.run(orders, sales)

    def increment(number):
        first = records + number * 1000
        trial.land(f"good {number}.json", range(first, first + 990))
        trial.land(f"bad {number}.json", range(first + 990, first + 1000), name=None)
        *_, done = trial.run(orders, sales)
        metadata.quarantine(sales, trial.lake, done.refresh)

    increment(0)
    return lambda: increment(1)


def behind(case, records, folder):
    """A silver table behind a bronze table of commits of equal size."""
    most = (
        {"max_bytes_per_trigger": PART} if case == "backlog in parts" else {"max_bytes_per_trigger": 1 << 40}
    )
    trial, (orders, sales, _) = Trial(folder, **most), shop(max_files_per_trigger=1)
    trial.land("first.json", [-1])
    trial.run(orders, sales)
    for start in range(0, records, COMMIT):
        trial.land(f"{start}.json", range(start, start + COMMIT))
    trial.run(orders)
    return lambda: trial.run(sales)


def in_order(case, records, folder):
    """One event, later than all, of a key with so many states."""
    trial, (orders, _, people) = Trial(folder), shop()
    trial.land("all.json", range(records), who=1)
    trial.run(orders, people)

    def event(number):
        trial.land(f"{number}.json", [records + number], who=1)
        trial.run(orders)
        return trial.run(people)

    event(0)
    trial.land("1.json", [records + 1], who=1)
    trial.run(orders)
    return lambda: trial.run(people)


def keyed(case, records, folder):
    """The check of a table of so many keys, in twenty files."""
    from medallion_assets.quality.verdicts import unique_keys

    lake = Lake(Settings(lake=folder / "lake", landing=folder / "landing").resolved())
    _, sales, _ = shop()
    for ids in np.array_split(np.random.default_rng(1).permutation(records), 20):
        write_deltalake(str(lake.path(sales)), pa.table({"id": ids}), mode="append")

    def work():
        assert unique_keys(sales, lake).passed

    return work


MAKE = {
    "load": loaded,
    "many files": of_many_files,
    "quarantine": beside_quarantine,
    "backlog whole": behind,
    "backlog in parts": behind,
    "in order": in_order,
    "keys": keyed,
}


def java():
    """Return the process of this process's JVM, None where there is none."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    return int(spark._jvm.java.lang.ProcessHandle.current().pid()) if spark else None


def peak(process):
    """Return the most memory a process had since the last call of ``forget_peak``, in megabytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def forget_peak(process):
    """Let a process's peak begin with what it has now."""
    Path(f"/proc/{process}/clear_refs").write_text("5")


def measure(case, records):
    """Make a case ready, run it, and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        work = MAKE.get(case, parsed)(case, records, Path(folder))
        processes = {"python": "self", "jvm": java()}
        for process in filter(None, processes.values()):
            forget_peak(process)
        before = {name: peak(process) if process else 0 for name, process in processes.items()}
        started = time.monotonic()
        work()
        seconds = time.monotonic() - started
        after = {name: peak(process) if process else 0 for name, process in processes.items()}
        told = [f"{before[name]} to {after[name]}" if after[name] else "" for name in processes]
        print("|", " | ".join([case, f"{records:,}", f"{seconds:.1f}", *told]), "|", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2], int(sys.argv[3]))
    else:
        scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1
        print(
            "| case | size | seconds | Python, MB before and at most | JVM, the same |\n|---|---|---|---|---|"
        )
        for name, sizes in (PARSED | RUN).items():
            for size in sizes if name in (sys.argv[2:] or PARSED | RUN) else ():
                count = max(int(size * scale) // 1000 * 1000, 1000)
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.bounds", "measure", name, str(count)], check=True
                )
