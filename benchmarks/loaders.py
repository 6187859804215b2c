"""The three loaders on the same files: what each call reads, loads and takes.

    python -m benchmarks.loaders [FILES] [ROWS]

FILES (20) CSV files of ROWS (1,000) records, the last record of each one cell short, are loaded by Auto
Loader, COPY INTO and CTAS; then each is called again, and once more after one file more.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from medallion_assets import autoload_to_table, copy_into, create_table_as
from medallion_assets.delta import log
from medallion_assets.session import start_session
from medallion_assets.settings import current_settings

HEAD = ("loader", "call", "files read", "rows written", "quarantined", "rows in the table", "seconds")


def land(landing, number, rows):
    landing.mkdir(parents=True, exist_ok=True)
    lines = [f"{number * rows + i},customer {i}" for i in range(rows - 1)]
    (landing / f"{number:03d}.csv").write_text("\n".join(["id,name", *lines, f"{number}"]) + "\n")


def compare(folder, spark, files, rows):
    """Return the figures of each loader and call, in the columns of ``HEAD``."""
    landing, lake = folder / "files", current_settings().lake

    def by_auto_loader():
        done = autoload_to_table(landing, "csv", "loaders.bronze.auto", folder / "checkpoint", spark=spark)
        return done.files, done.rows_loaded, done.rows_quarantined

    def by_copy_into():
        load = copy_into("loaders.bronze.copied", landing, "csv", spark=spark).load
        return load.files, load.rows_loaded, load.rows_quarantined

    def by_ctas():
        all_of_them = spark.read.option("header", "true").csv(str(landing))
        create_table_as("loaders.bronze.created", all_of_them, replace=True, spark=spark)
        return len(list(landing.iterdir())), log.row_count(lake / "loaders/bronze/created"), 0

    loaders = (("Auto Loader", "auto", by_auto_loader), ("COPY INTO", "copied", by_copy_into),
               ("CTAS", "created", by_ctas))  # fmt: skip
    for number in range(files):
        land(landing, number, rows)
    told = []
    for call in ("first", "again", "one file more"):
        if call == "one file more":
            land(landing, files, rows)
        for loader, table, load in loaders:
            began = time.monotonic()
            counts = load()
            taken = round(time.monotonic() - began, 1)
            told.append((loader, call, *counts, log.row_count(lake / f"loaders/bronze/{table}"), taken))
    return sorted(told, key=lambda row: [loader for loader, *_ in loaders].index(row[0]))


def main(files, rows):
    folder = Path(tempfile.mkdtemp(prefix="loaders-"))
    os.environ["MEDALLION_LAKE"] = str(folder / "lake")
    spark = start_session(current_settings())
    # Code that runs for the first time is loaded and compiled: no loader is to pay for the others.
    compare(folder / "warm", spark, 1, 2)
    os.environ["MEDALLION_LAKE"] = str(folder / "measured/lake")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for row in compare(folder / "measured", spark, files, rows):
        print(f"| {' | '.join(f'{value:,}' if isinstance(value, int) else str(value) for value in row)} |")


if __name__ == "__main__":
    main(*(int(value) for value in [*sys.argv[1:], "20", "1000"][:2]))
