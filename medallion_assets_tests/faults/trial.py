"""A small shop, what landed in it, and what must stand in its tables whatever happened on the way."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, stream
from medallion_assets.delta import log
from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.quality.conservation import balance
from medallion_assets.sources.quarantine import RAW


@dataclass(frozen=True)
class Case:
    """One row of the matrix: what is done, what must hold, and the trial that does it."""

    row: str
    fault: str
    expected: str
    run: Callable


CASES: list[Case] = []


def fault(row, words, expected):
    """Put a trial into the matrix; it returns what was seen, and raises where the promise broke."""

    def registered(run):
        CASES.append(Case(row, words, expected, run))
        return run

    return registered


def shop_tables(**landing):
    shop = Pipeline("shop")
    told = {"format": "json", "schema": "id BIGINT, total BIGINT"} | landing

    @shop.bronze()
    def orders(files=shop.landing("orders", **told)):  # noqa: B008
        """One row per order, as it landed."""
        return files

    @shop.silver(unique_by="id", expectations=[expect("above_zero", "total > 0")])
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "total")

    @shop.gold(output_mode="complete", row_count_column="sales")
    def totals(sales=stream(sales)):
        """One row per kind of sale, made by Spark's state."""
        sums = F.sum("total").alias("total"), F.count("*").alias("sales")
        return sales.groupBy((F.col("id") % 3).alias("kind")).agg(*sums)

    @shop.gold(output_mode="incremental", row_count_column="sales")
    def merged(sales=stream(sales)):
        """One row per kind of sale, at the cost of what is new."""
        sums = F.sum("total").alias("total"), F.count("*").alias("sales")
        return sales.groupBy((F.col("id") % 3).alias("kind")).agg(*sums)

    return [orders, sales, totals, merged]


class ReplayPlan(Lakehouse):
    """A lakehouse that knows, from the landed text alone, what its tables must hold."""

    def __init__(self, folder, spark, **landing):
        super().__init__(folder, spark)
        self.tables = shop_tables(**landing)
        self.rows_sent, self.malformed, self.next = [], 0, 0
        self.zone = self.lake.settings.landing / "shop/orders"
        self.zone.mkdir(parents=True, exist_ok=True)

    def text(self, good=4, bad=1, broken=1):
        """Return a file's text: good orders, orders a rule refuses, lines that are no JSON."""
        ids = range(self.next, self.next + good + bad)
        self.next += good + bad
        made = [{"id": i, "total": 5 + i % 7 if n < good else -1} for n, i in enumerate(ids)]
        self.rows_sent += made
        self.malformed += broken
        return "".join(json.dumps(row) + "\n" for row in made) + '{"id": \n' * broken

    @property
    def home(self):
        """A folder for Dagster's own."""
        folder = self.lake.root.parent / "dagster_home"
        folder.mkdir(exist_ok=True)
        return folder

    @contextmanager
    def patched(self):
        """Return a patch of code and environment for the block; the lake is this trial's."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MEDALLION_LAKE", str(self.lake.root))
            patch.setenv("MEDALLION_LANDING", str(self.lake.settings.landing))
            yield patch

    def send(self, name="", **counts):
        """Lands a file of such text."""
        return self.land("shop/orders", name or f"{self.next:06d}.json", self.text(**counts))

    def go(self):
        """Run the whole shop."""
        return self.run(*self.tables)

    def try_to_go(self):
        """Run the whole shop; gives the error where it stops."""
        try:
            self.go()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def holds(self):
        """Fails where a table is not what the landed text says; gives it in words."""
        orders, sales, totals, merged = self.tables
        found = Counter(row["id"] for row in self.rows(orders, "SELECT id FROM t"))
        assert found == Counter(row["id"] for row in self.rows_sent), self._differ(found)
        parse = log.rows(self.lake.quarantine(orders), f"SELECT count(*) AS n FROM t WHERE {RAW}")
        assert (parse[0]["n"] if parse else 0) == self.malformed, f"{parse} malformed, not {self.malformed}"
        # A record that was delivered twice is two rows of bronze and one of silver.
        good = list({row["id"]: row for row in self.rows_sent if row["total"] > 0}.values())
        silver = sorted(row["id"] for row in self.rows(sales, "SELECT id FROM t"))
        assert silver == sorted(row["id"] for row in good), f"silver has {len(silver)} rows, not {len(good)}"
        kinds = Counter()
        for row in good:
            kinds[row["id"] % 3] += row["total"]
        for gold in (totals, merged):
            sums = {row["kind"]: row["total"] for row in self.rows(gold, "SELECT kind, total FROM t")}
            assert sums == dict(kinds), f"{gold.key}: {sums}, not {dict(kinds)}"
        books = [balance(table, self.lake) for table in self.tables]
        assert all(b.holds for b in books), "; ".join(str(b) for b in books)
        return f"{len(self.rows_sent)} rows and {self.malformed} malformed records, each once"

    def _differ(self, found):
        sent = Counter(row["id"] for row in self.rows_sent)
        return f"{sum((sent - found).values())} lost, {sum((found - sent).values())} doubled"
