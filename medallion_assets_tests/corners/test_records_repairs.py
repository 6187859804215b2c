"""What a person did to a quarantined row outlives everything that recomputes the row."""

import json
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, static, stream
from medallion_assets.delta import log
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.quality.conservation import balance
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.runs.run import run_tables
from medallion_assets.sources.quarantine import OPEN
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import ABOVE_ZERO, json_lines

pytestmark = pytest.mark.spark
RULE = QuarantineFilter(rules=("above_zero",))


def shop(name, **joined):
    """Orders that may come again changed, and each one's city as it is known by now."""
    made = Pipeline(name)
    replaced = {"format": "json", "allow_overwrites": "replace"}

    @made.bronze()
    def orders(
        files=made.landing("orders", schema="id INT, city STRING, total INT, note STRING", **replaced),  # noqa: B008
    ):
        """One row per order, as it landed."""
        return files

    @made.bronze()
    def cities(files=made.landing("cities", schema="city STRING, number INT", **replaced)):  # noqa: B008
        """One row per city, as it landed."""
        return files

    @made.silver(unique_by="id", expectations=[ABOVE_ZERO])
    def sales(orders=stream(orders), cities=static(cities, on="city", **joined)):
        """One row per sale, with its city's number and the load it came with."""
        named = orders.join(cities.selectExpr("city", "number AS city_number"), "city", "left")
        return named.selectExpr("id", "city", "total AS amount", "total", "note", "city_number", "_batch_id")

    return orders, cities, sales


class History:
    """A shop of a test, and what is done to it."""

    def __init__(self, house, name, **joined):
        self.house, self.name, self.tables = house, name, shop(name, **joined)

    def land(self, zone, file, *records):
        self.house.land(f"{self.name}/{zone}", file, json_lines(*records))

    def run(self):
        self.house.run(*self.tables)
        self.house.assert_conserved(*self.tables)

    def do(self, verb, table=2, **asked):
        done = VERBS[verb](self.tables[table], self.house.lake, self.house._spark, VerbRequest(**asked))
        assert balance(self.tables[2], self.house.lake).holds
        return done

    def sales(self):
        rows = self.house.rows(self.tables[2], "SELECT id, total, city_number FROM t ORDER BY id")
        return [tuple(row.values()) for row in rows]

    def entries(self):
        from medallion_assets.delta import log

        found = log.rows(self.house.lake.quarantine(self.tables[2]), "SELECT * FROM t")
        return {json.loads(e["row"])["id"]: e for e in found}


def order(number, total, city="Quito", note="n"):
    return {"id": number, "city": city, "total": total, "note": note}


def city(number, name="Quito"):
    return {"city": name, "number": number}


SAME = ("entry_id", "quarantined_at")


def test_a_fix_is_written_at_once_though_the_static_row_has_changed_since(lakehouse):
    shop = History(lakehouse, "changed", unmatched="keep")
    shop.land("cities", "c.json", city(1))
    shop.land("orders", "a.json", order(1, 5), order(2, -7))
    shop.run()
    before = shop.entries()[2]
    shop.land("cities", "c.json", city(10))
    shop.run()
    # Upstream has no amount: a fix may be of what the query alone gives.
    done = shop.do("replay", choice=RULE, fix="total = 7, amount = 7")
    assert (done.found["written"], done.found["still_open"]) == (1, 0)
    assert shop.sales() == [(1, 5, 1), (2, 7, 10)]
    entry = shop.entries()[2]
    assert {n: entry[n] for n in SAME} == {n: before[n] for n in SAME}
    assert (entry["status"], entry["attempts"]) == ("replayed", 2)


@pytest.mark.thorough
def test_entries_and_repairs_outlive_dimensions_replaced_files_and_replays_of_others(lakehouse):
    shop = History(lakehouse, "followed", unmatched="retry", follow=True)
    shop.land("cities", "c.json", city(1))
    bad = (order(2, -7), order(3, -8), order(4, -9), order(5, -5, note="a"), order(5, -5, note="b"))
    shop.land("orders", "a.json", order(1, 5), *bad)
    shop.run()
    before = shop.entries()
    two = QuarantineFilter(ids=(before[2]["entry_id"],))
    shop.do("replay", choice=two, fix="total = 7")
    shop.do("replay", choice=QuarantineFilter(ids=(before[3]["entry_id"],)), fix="total = -1")
    shop.do("discard", choice=QuarantineFilter(ids=(before[4]["entry_id"],)), why="a test")

    def told(number):
        """As what changed leaves it: entries, what was done to them, and what is sold."""
        shop.run()
        assert shop.sales() == [(1, 5, number), (2, 7, number)]
        now = shop.entries()
        assert {i: {n: e[n] for n in SAME} for i, e in now.items() if i != 5} == {
            i: {n: e[n] for n in SAME} for i, e in before.items() if i != 5
        }
        assert [(now[i]["status"], now[i]["attempts"]) for i in (2, 3, 4)] == [
            ("replayed", 2), (OPEN, 2), ("discarded", 1)
        ]  # fmt: skip
        assert json.loads(now[3]["repaired"])["total"] == -1
        assert all(json.loads(now[i]["row"])["city_number"] == number for i in (2, 3))

    told(1)
    shop.land("cities", "c.json", city(10))
    told(10)
    shop.land("orders", "a.json", *bad, order(1, 5))
    told(10)
    shop.do("reprocess", table=0, files=("a.json",))
    told(10)
    shop.do("replay", choice=QuarantineFilter(where="row LIKE '%\"id\":5%'"), fix="note = 'c'")
    told(10)
    shop.do("full_refresh")
    told(10)


@pytest.mark.thorough
def test_a_repaired_row_whose_city_goes_is_written_as_repaired_once_the_city_is_back(lakehouse):
    shop = History(lakehouse, "gone", unmatched="retry", follow=True)
    shop.land("cities", "c.json", city(1))
    shop.land("orders", "a.json", order(2, -7))
    shop.run()
    assert shop.do("replay", choice=RULE, fix="total = 7").found["written"] == 1
    shop.land("cities", "c.json", city(1, "Lima"))
    shop.run()
    assert shop.do("replay", choice=QuarantineFilter()).found["still_open"] == 1
    waits = shop.entries()[2]
    assert (shop.sales(), waits["status"], list(waits["rules"])) == ([], OPEN, ["cities_matched"])
    shop.land("cities", "c.json", city(10))
    shop.run()
    assert shop.sales() == [(2, 7, 10)]


@pytest.mark.thorough
def test_a_repair_is_not_given_to_another_row_of_its_key(lakehouse):
    shop = History(lakehouse, "gone", unmatched="keep")
    shop.land("cities", "c.json", city(1))
    shop.land("orders", "a.json", order(2, -7))
    shop.run()
    shop.do("replay", choice=RULE, fix="total = 7, note = 'mended'")
    shop.land("orders", "a.json", order(2, 9))
    shop.run()
    assert shop.sales() == [(2, 9, 1)]
    assert lakehouse.rows(shop.tables[2], "SELECT note FROM t") == [{"note": "n"}]
    shop.land("orders", "a.json", order(2, -8))
    shop.run()
    assert shop.sales() == []


@pytest.mark.thorough
def test_a_repair_keeps_microseconds_without_a_zone_and_rows_with_maps(lakehouse):
    made = Pipeline("clock")
    schema = "id INT, v INT, n TIMESTAMP_NTZ, m MAP<STRING, INT>"

    @made.bronze()
    def ticks(files=made.landing("ticks", format="json", schema=schema, allow_overwrites="replace")):  # noqa: B008
        """One row per tick, as it landed."""
        return files

    @made.silver(expectations=[expect("above_zero", "v > 0")])
    def good(ticks=stream(ticks)):
        """One row per good tick."""
        return ticks.select("id", "v", "n", "m")

    def tick(number, v):
        return {"id": number, "v": v, "n": "2026-01-01T10:00:00.123456", "m": {"a": number}}

    def there():
        told = lakehouse._spark().read.format("delta").load(str(lakehouse.lake.path(good)))
        return sorted((row["id"], row["v"], str(row["n"]), row["m"]["a"]) for row in told.collect())

    moment = "2026-01-01 10:00:00.123456"
    lakehouse.land("clock/ticks", "a.json", json_lines(tick(1, -1), tick(2, 2)))
    lakehouse.run(ticks, good)
    VERBS["replay"](good, lakehouse.lake, lakehouse._spark, VerbRequest(choice=RULE, fix="v = abs(v)"))
    assert there() == [(1, 1, moment, 1), (2, 2, moment, 2)]
    lakehouse.land("clock/ticks", "a.json", json_lines(tick(1, -1), tick(3, 3)))
    lakehouse.run(ticks, good)
    assert there() == [(1, 1, moment, 1), (3, 3, moment, 3)]
    assert VERBS["full_refresh"](good, lakehouse.lake, lakehouse._spark, VerbRequest()).well
    assert there() == [(1, 1, moment, 1), (3, 3, moment, 3)]
    lakehouse.assert_conserved(ticks, good)


@pytest.mark.thorough
def test_a_correction_that_only_takes_rows_away_is_a_run_that_is_well(lakehouse):
    tables = shop("shrinking")
    lakehouse.land("shrinking/orders", "a.json", json_lines(order(1, 5), order(2, 5), order(3, -5)))
    lakehouse.land("shrinking/cities", "a.json", json_lines(city(1)))
    assert [o.error for o in run_tables(tables, lakehouse.lake, lakehouse._spark)] == ["", "", ""]
    lakehouse.land("shrinking/orders", "a.json", json_lines(order(1, 5)))
    outcomes = run_tables(tables, lakehouse.lake, lakehouse._spark)
    assert [outcome.error for outcome in outcomes] == ["", "", ""]
    told = [v.words for outcome in outcomes for v in outcome.verdicts if "broke it" in v.words]
    assert not [words for words in told if " of -" in words], told


@pytest.mark.parametrize("fails", [seldom("rule"), "query"])
def test_rows_whose_maps_have_numbers_and_times_as_keys_are_repaired_and_recomputed(lakehouse, fails):
    made = Pipeline(f"meters_{fails}")
    landing = made.landing("ticks", format="parquet", allow_overwrites="replace")

    @made.bronze()
    def ticks(files=landing):
        """One row per tick, as it landed."""
        return files

    @made.silver(expectations=[expect("above_zero", "v > 0")])
    def good(ticks=stream(ticks)):
        """One row per good tick."""
        return ticks.select("id", F.col("v").cast("int").alias("v"), "m", "at")

    bad = "many" if fails == "query" else "-1"
    moment = datetime(2026, 1, 31, 10, 0, 0, 123456)
    kinds = {
        "id": pa.int32(),
        "v": pa.string(),
        "m": pa.map_(pa.int64(), pa.int64()),
        "at": pa.list_(pa.map_(pa.timestamp("us"), pa.binary())),
    }

    def land(*ticks):
        there = [
            {"id": number, "v": v, "m": [(number, 2)], "at": [[(moment, b"\x00\xff")]]} for number, v in ticks
        ]
        file = lakehouse.lake.settings.landing / f"meters_{fails}" / "ticks" / "a.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(there, pa.schema(kinds)), file)

    def there():
        told = lakehouse._spark().read.format("delta").load(str(lakehouse.lake.path(good)))
        rows = sorted((row["id"], row["v"], row["m"], row["at"]) for row in told.collect())
        assert all(row[2:] == ({row[0]: 2}, [{moment: b"\x00\xff"}]) for row in rows), rows
        return [row[:2] for row in rows]

    land((1, bad), (2, "2"))
    lakehouse.run(ticks, good)
    (entry,) = log.rows(lakehouse.lake.quarantine(good), "SELECT row FROM t")
    assert json.loads(entry["row"])["at"] == [{"2026-01-31T10:00:00.123456": "AP8="}]
    request = VerbRequest(choice=QuarantineFilter(), fix="v = '1'")
    assert VERBS["replay"](good, lakehouse.lake, lakehouse._spark, request).well
    assert there() == [(1, 1), (2, 2)]
    assert VERBS["full_refresh"](good, lakehouse.lake, lakehouse._spark, VerbRequest()).well
    assert there() == [(1, 1), (2, 2)]
    land((1, bad), (3, "3"))
    lakehouse.run(ticks, good)
    # A row the query fails on is known by all of its text, to which the time it was loaded belongs.
    assert there() == ([(1, 1), (3, 3)] if fails == "rule" else [(3, 3)])
    lakehouse.assert_conserved(ticks, good)
