"""Peak memory and time of parsing landed text files, each case at two sizes, in a process of its own.

    python -m benchmarks.bounds [SCALE]

Memory must not grow with the input: copies of one bad line, a JSON array as one document, a text that breaks
off at its start, rows with times and decimals. Discovery (count, hash) and parsing (to Parquet) are measured;
Spark is not, since it reads what they wrote like any table. A SCALE below 1 shrinks all sizes.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType, TimestampType

BAD_LINE = b'{"id": 1, "name": broken, "more": "' + b"x" * 60 + b'"}\n'
RECORD = b'{"id": %d, "at": "2026-01-01T10:20:30.123456Z", "price": %d.25, "name": "customer %d"}'
SIZES = {
    "bad lines": (1e6, 5e6),
    "one document": (1e6, 12e6),
    "broken document": (1e6, 12e6),
    "times": (1e6, 4e6),
}
SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("at", TimestampType()),
        StructField("price", DecimalType(12, 2)),
        StructField("name", StringType()),
    ]
)


def write(case, records, path):
    """Write a file of so many records."""
    with path.open("wb") as file:
        if case == "bad lines":
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


def measure(case, records):
    """Land a file, discover and parse it, and print what it took."""
    from medallion_assets.sources.discovery import DiscoveryOptions, entries_of
    from medallion_assets.sources.options import Source
    from medallion_assets.sources.staging import parse_text_files

    with tempfile.TemporaryDirectory() as folder:
        landing = Path(folder) / "landing"
        landing.mkdir()
        write(case, records, landing / "a.json")
        multi_line = "true" if "document" in case else "auto"
        source = Source("t", "json", str(landing), reader_options={"multiLine": multi_line})
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
        files = entries_of(landing, Path(folder) / "ledger", source, DiscoveryOptions())
        discovered = time.monotonic()
        parse_text_files(files, SCHEMA, source, Path(folder) / "out")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({
            "case": case, "records": files[0].records, "megabytes": files[0].size >> 20,
            "discovery_s": round(discovered - started, 1), "parse_s": round(time.monotonic() - discovered, 1),
            "peak_mb": peak >> 10, "of_it_before_mb": before >> 10,
        }), flush=True)  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 2:
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1
        for name, sizes in SIZES.items():
            for size in sizes:
                count = max(int(size * scale) // 1000 * 1000, 1000)
                subprocess.run([sys.executable, "-m", "benchmarks.bounds", name, str(count)], check=True)
