"""One increment of fixed size on 1, 10 and 100 times the history, hop by hop: its cost must not grow.

    python -m benchmarks.history [ROWS]

For each history, a fresh lake gets that many files of ROWS records in one run. Then nine increments of one
file each go to every lake in turn, after one that is not counted; the median of their seconds on each hop is
printed, and its ratio to the smallest history's. All in one warm session; asked for is at most 1.1.
"""

import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, keep_changes, static, stream
from medallion_assets.lake.paths import Lake
from medallion_assets.runs.run import refresh
from medallion_assets.session import start_session
from medallion_assets.settings import Settings

HISTORIES = (1, 10, 100)
INCREMENTS = 9


def chain():
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id LONG, who LONG, at TIMESTAMP, n INT")):  # noqa: B008
        """One row per order."""
        return files

    @shop.silver(scd=keep_changes("who", "at", type=2))
    def people(orders=stream(orders)):
        """One row per person and state."""
        return orders.select("who", "at", "n")

    @shop.silver(unique_by="id")
    def sales(orders=stream(orders), people=static(people, on="who", unmatched="keep")):
        """One row per order."""
        return orders.select("id", "who", "at", "n")

    @shop.gold(output_mode="incremental", row_count_column="orders")
    def totals(sales=stream(sales)):
        """One row per person."""
        return sales.groupBy("who").agg(
            F.sum("n").alias("n"), F.avg("n").alias("m"), F.count("*").alias("orders")
        )

    @shop.gold(output_mode="update", unique_by="window", row_count_column="orders")
    def windows(sales=stream(sales, event_time="at", watermark="1 hour")):
        """One row per hour."""
        window = F.window("at", "1 hour").alias("window")
        return sales.groupBy(window).agg(F.count("*").alias("orders"))

    @shop.gold(output_mode="complete", row_count_column="orders")
    def by_day(sales=stream(sales)):
        """One row per number."""
        return sales.groupBy("n").agg(F.count("*").alias("orders"))

    return orders, people, sales, totals, windows, by_day


def land(landing, number, rows, chance):
    folder = landing / "shop/orders"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for i in range(rows):
        position = number * rows + i
        at = f"2024-01-{1 + number // 24 % 28:02d}T{number % 24:02d}:{i // 60 % 60:02d}:{i % 60:02d}"
        lines.append(json.dumps({"id": position, "who": chance.randrange(500), "at": at, "n": i % 7}))
    (folder / f"{number:06d}.json").write_text("\n".join(lines) + "\n")


class ReplayPlan:
    """A lake with a history, and the seconds each of its tables took for each increment on it."""

    def __init__(self, spark, history, rows):
        folder = Path(tempfile.mkdtemp(prefix="history-"))
        settings = Settings(lake=folder / "lake", landing=folder / "landing", settle_seconds=0).resolved()
        self.spark, self.rows, self.number = spark, rows, history
        self.lake, self.tables, self.chance = Lake(settings), chain(), random.Random(1)
        self.taken = {table.key: [] for table in self.tables}
        for number in range(history):
            land(settings.landing, number, rows, self.chance)
        for table in self.tables:
            refresh(table, self.lake, lambda: spark)

    def increment(self):
        land(self.lake.settings.landing, self.number, self.rows, self.chance)
        self.number += 1
        for table in self.tables:
            self.taken[table.key].append(refresh(table, self.lake, lambda: self.spark).seconds)

    def median(self, key):
        return statistics.median(self.taken[key][1:])


def main(rows):
    folder = Path(tempfile.mkdtemp(prefix="history-"))
    spark = start_session(Settings(lake=folder, landing=folder), stays=True)
    trials = {history: ReplayPlan(spark, history, rows) for history in HISTORIES}
    # In turn, increment by increment: a machine that is slow for a minute is slow for each history.
    for _ in range(INCREMENTS + 1):
        for trial in trials.values():
            trial.increment()
    for table in chain():
        least = trials[HISTORIES[0]].median(table.key)
        found = {history: trial.median(table.key) for history, trial in trials.items()}
        told = "  ".join(f"{h:4d}x: {s:.2f} s, {s / least:.2f}" for h, s in found.items())
        print(f"{table.key:22s} {told}", flush=True)


if __name__ == "__main__":
    main(int([*sys.argv, "1000"][1]))
