"""Incremental gold equals complete gold after every increment, with corrections among them."""

import json
import random
import shutil
from dataclasses import dataclass

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, stream
from medallion_assets.delta import log
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.run import refresh
from medallion_assets.runtime.query_checks import STREAM, reaches_others
from medallion_assets.session.frames import frame_of
from medallion_assets.simulators import land
from medallion_assets_tests.examples import FACTOR, seldom
from medallion_assets_tests.shop import json_lines

pytestmark = pytest.mark.spark
INCREMENTS = 10 if FACTOR > 1 else 6
"""The last ones with ``make thorough``."""


@dataclass(frozen=True)
class Domain:
    """What is counted, of whom, and by which day."""

    schema: str
    keys: tuple[str, ...]
    who: str
    value: str
    day: str
    wrong: tuple[float, ...]


DOMAINS = {
    "health": Domain("device_id INT, mrn LONG, time DOUBLE, heartrate DOUBLE", ("device_id", "mrn", "time"),
                     "mrn", "heartrate", "to_date(timestamp_seconds(time))", (-1.0, 61.5, 99.25)),
    "commerce": Domain("order_id STRING, customer_id STRING, store_id STRING, order_datetime STRING, "
                       "total_amount DOUBLE", ("order_id",), "store_id", "total_amount",
                       "to_date(try_cast(order_datetime AS TIMESTAMP))", (-5.0, 10.5)),
    "school": Domain("enroll_id STRING, enroll_timestamp LONG, quantity LONG, student_id STRING",
                     ("enroll_id",),
                     "student_id", "quantity", "to_date(timestamp_seconds(enroll_timestamp))", (0, 3)),
}  # fmt: skip


def chain(domain):
    ward, of = Pipeline("ward"), DOMAINS[domain]

    @ward.bronze()
    def recordings(
        files=ward.landing("recordings", format="json", schema=of.schema, allow_overwrites="replace"),  # noqa: B008
    ):
        """One row per recording."""
        return files

    @ward.silver(unique_by=of.keys, expectations=[expect("above_zero", f"{of.value} > 0")])
    def clean(recordings=stream(recordings)):
        """One row per recording with a value above zero."""
        asked = dict.fromkeys((*of.keys, of.who, of.value))
        return recordings.select(*asked, F.expr(of.day).alias("day"))

    def totals(rows):
        value = F.col(of.value)
        sums = F.avg(value).alias("mean"), F.sum(value).alias("total"), F.min(value).alias("least")
        grouped = rows.groupBy(F.col(of.who).alias("who"), "day")
        return grouped.agg(F.count("*").alias("rows"), *sums, F.max(value).alias("most"))

    def distinct(rows):
        several = F.approx_count_distinct(of.value).alias("values")
        return rows.groupBy(F.col(of.who).alias("who")).agg(several, F.count("*").alias("rows"))

    def gold(query, mode):
        def summed(clean=stream(clean)):
            """One row per person, summed."""
            return query(clean)

        summed.__name__ = f"{query.__name__}_{mode}"
        return ward.gold(output_mode=mode, row_count_column="rows")(summed)

    queries = (totals, distinct) if domain == "health" else (totals,)
    return recordings, clean, *(gold(q, m) for q in queries for m in ("complete", "incremental"))


@pytest.fixture
def lines_of(shared, tmp_path):
    """Return a domain's records: real ones of health and commerce, the school's simulated."""

    def read(domain):
        folder = tmp_path / "simulated"
        if domain == "school":
            land("school", folder, 2)
        files = folder.rglob("enrollments*.json") if domain == "school" else shared(domain).rglob("*.json")
        found = [line for file in sorted(files) for line in file.read_text().splitlines() if line]
        return found[: 8000 if domain == "health" else 2000]

    return read


def gold_of(lake, table):
    rows = log.rows(lake.path(table), "SELECT * FROM t")
    kept = [{k: v for k, v in r.items() if not k.startswith("_partial_")} for r in rows]
    return {(r["who"], str(r.get("day"))): [v for k, v in r.items() if k not in ("who", "day")] for r in kept}


def assert_equal(lake, complete, incremental):
    whole, merged = gold_of(lake, complete), gold_of(lake, incremental)
    assert whole.keys() == merged.keys()
    for key, values in whole.items():
        assert merged[key] == pytest.approx(values, rel=1e-9), (complete.key, key)


def correct(file, chance, of):
    """Take some records out of a landed file and changes others, as its sender might."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    kept = [r for r in rows if chance.random() > 0.1]
    for row in chance.sample(kept, min(20, len(kept))):
        row[of.value] = chance.choice(of.wrong)
    file.write_text(json_lines(*kept))


@pytest.mark.parametrize("domain", [d if d == "health" else seldom(d) for d in DOMAINS])
def test_both_forms_are_equal_on_real_records_after_each_increment(lake, spark, lines_of, domain):
    chance, tables, real = random.Random(3), chain(domain), lines_of(domain)
    landing = lake.settings.landing / "ward/recordings"
    landing.mkdir(parents=True)
    share = len(real) // INCREMENTS
    strategies = set()
    for number in range(INCREMENTS):
        part = real[number * share : (number + 1) * share]
        (landing / f"{number:02d}.json").write_text("\n".join(part) + "\n")
        if number % 3 == 2:
            correct(landing / f"{chance.randrange(number):02d}.json", chance, DOMAINS[domain])
        if number == 5:
            # As a process leaves it that died between a table's commit and its checkpoint's.
            for table in tables[1:]:
                commits = lake.state(table, "checkpoint") / "commits"
                last = max(int(f.name) for f in commits.iterdir() if f.name.isdigit())
                (commits / str(last)).unlink()
                (commits / f".{last}.crc").unlink(missing_ok=True)
        for table in tables:
            done = refresh(table, lake, lambda: spark)
            strategies |= {b.strategy.partition(":")[0] for b in done.batches}
            assert balance(table, lake).holds, f"{number}: {balance(table, lake)}"
        for at in range(2, len(tables), 2):
            assert_equal(lake, *tables[at : at + 2])
    assert strategies >= {"merged", "recomputed for the groups it touches"}


def test_a_lost_checkpoint_neither_doubles_nor_loses_in_an_incremental_aggregate(lake, spark, drop):
    tables = chain("health")
    line = '{"device_id": 1, "mrn": 7, "time": %d, "heartrate": 60.0}\n'
    drop("ward/recordings", "1.json", "".join(line % t for t in range(5)))
    for table in tables[:4]:
        refresh(table, lake, lambda: spark)
    shutil.rmtree(lake.state(tables[3], "checkpoint"))
    drop("ward/recordings", "2.json", "".join(line % t for t in range(5, 8)))
    for table in tables[:4]:
        refresh(table, lake, lambda: spark)
    assert [v[0] for v in gold_of(lake, tables[3]).values()] == [8]


def test_an_aggregate_tells_the_rows_that_came_and_the_groups_it_wrote(lake, spark, drop):
    tables = chain("health")

    def told_after(name, *people, heartrate=60.0):
        line = {"device_id": 1, "heartrate": heartrate}
        times = enumerate(people, 100 * int(name))
        drop(
            "ward/recordings", f"{name}.json", json_lines(*({**line, "time": t, "mrn": p} for t, p in times))
        )
        done = [refresh(table, lake, lambda: spark) for table in tables[:4]][2:]
        return [(d.total("read"), d.total("written")) for d in done]

    assert told_after("1", 7, 7, 7, 7, 7) == [(5, 1), (5, 1)]
    assert told_after("2", 7, 8, 8) == [(3, 2), (3, 2)]
    # Complete mode writes every group; incremental only the one that is new.
    assert told_after("3", 9) == [(1, 3), (1, 1)]
    # A correction makes what keeps state begin anew.
    assert told_after("3", 9, heartrate=70.0) == [(9, 3), (1, 1)]


def test_a_merged_mean_of_integers_is_the_complete_one_beyond_what_their_type_holds(lake, spark, drop):
    shop = Pipeline("shop")

    @shop.bronze()
    def readings(files=shop.landing("readings", format="json", schema="who STRING, n LONG, small INT")):  # noqa: B008
        """One row per reading."""
        return files

    def means(readings=stream(readings)):
        """One row per person."""
        means = F.avg("n").alias("mean"), F.avg("small").alias("small")
        return readings.groupBy("who").agg(*means, F.count("*").alias("rows"))

    golds = []
    for mode in ("complete", "incremental"):
        means.__name__ = f"means_{mode}"
        golds.append(shop.gold(output_mode=mode, row_count_column="rows")(means))
    most, least, chance = 2**63 - 1, -(2**63), random.Random(5)
    for number in range(3):
        usual = [("usual", chance.randrange(-1000, 1000)) for _ in range(9)]
        extremes = [("most", most), ("most", most), ("least", least), ("both", (most, least)[number % 2])]
        records = [{"who": w, "n": n, "small": max(-(2**31), min(n, 2**31 - 1))} for w, n in usual + extremes]
        drop("shop/readings", f"{number}.json", json_lines(*records, {"who": "none"}))
        for table in (readings, *golds):
            done = refresh(table, lake, lambda: spark)
            assert balance(table, lake).holds
        whole, merged = (
            {r["who"]: (r["mean"], r["small"], r["rows"]) for r in log.rows(lake.path(t), "SELECT * FROM t")}
            for t in golds
        )
        assert merged.keys() == whole.keys()
        for who in ("usual", "none"):
            assert merged.pop(who) == whole.pop(who)
        # Complete adds in DOUBLE, which is exact to some hundreds there.
        for who, values in whole.items():
            assert merged[who] == pytest.approx(values, rel=1e-12, abs=2048), who
    assert done.batches[-1].strategy.startswith("merged")


def latest(rows):
    newest = Window.partitionBy("who").orderBy(F.desc("id"))
    return (
        rows.withColumn("turn", F.row_number().over(newest))
        .groupBy("day")
        .agg(F.count("*").alias("rows"), F.count_if(F.expr("turn = 1")).alias("n"))
    )


def grouped_twice(rows):
    people = rows.groupBy("who", "day").agg(F.count("*").alias("rows"))
    return people.groupBy("day").agg(F.sum("rows").alias("rows"), F.count("*").alias("n"))


def joined_with_itself(rows):
    newest = rows.groupBy("who").agg(F.max("id").alias("newest"))
    return rows.join(newest, "who").groupBy("day").agg(F.count("*").alias("rows"), F.max("newest").alias("n"))


def ranked(rows):
    days = rows.groupBy("day").agg(F.count("*").alias("rows"))
    return days.withColumn("n", F.rank().over(Window.orderBy("rows")))


def by_day(rows):
    return rows.groupBy("day").agg(F.count("*").alias("rows"), F.max("id").alias("n"))


FIRST_DAYS = """
WITH c AS (SELECT who, min(day) AS day, count(*) AS rows FROM clicks GROUP BY who)
SELECT day, sum(rows) AS rows, count(*) AS n FROM c GROUP BY day
"""
NEWEST = """
SELECT day, count(*) AS rows, count_if(id = (SELECT max(id) FROM clicks)) AS n FROM clicks GROUP BY day
"""
A_CTE = """
WITH c AS (SELECT * FROM clicks WHERE id > -1)
SELECT day, count(*) AS rows, max(id) AS n FROM c GROUP BY day
"""
# A row changes what others gave: counted by the batch alone, a person of two batches is two.
REACH_OTHERS = {
    "grouped twice": grouped_twice,
    "grouped twice in SQL": lambda rows: FIRST_DAYS,
    "a window": latest,
    "joined with itself": joined_with_itself,
    "a subquery": lambda rows: NEWEST,
    "grouped, then ranked": ranked,
}
ALONE = {
    "a CTE": lambda rows: A_CTE,
    "exploded": lambda rows: by_day(rows.withColumn("day", F.explode(F.array("day")))),
    "having": lambda rows: by_day(rows).where("rows > 0"),
}


def grouped(query):
    """Return a bronze table of clicks and the incremental table that a query makes of it."""
    shop = Pipeline("shop")

    @shop.bronze()
    def clicks(files=shop.landing("clicks", format="json", schema="id LONG, who STRING, day LONG")):  # noqa: B008
        """One row per click."""
        return files

    def days(clicks=stream(clicks)):
        """One row per day."""
        return query(clicks)

    return clicks, shop.gold(output_mode="incremental", row_count_column="rows", unique_by="day")(days)


@pytest.mark.parametrize("name", REACH_OTHERS | ALONE)
def test_a_query_in_which_a_row_changes_groups_of_others_is_known_from_its_plan(spark, name):
    rows = frame_of(spark, (), "id LONG, who STRING, day LONG").alias(STREAM)
    _, days = grouped((REACH_OTHERS | ALONE)[name])
    assert bool(reaches_others(days(clicks=rows))) == (name in REACH_OTHERS)


def test_days_of_people_who_come_again_in_a_later_batch_are_counted_over_all_batches(lake, spark, drop):
    tables = grouped(grouped_twice)
    for number, people in enumerate(("aab", "abc")):
        drop("shop/clicks", f"{number}.json", json_lines(*({"who": who, "day": 1} for who in people)))
        done = [refresh(table, lake, lambda: spark) for table in tables][-1]
        assert balance(tables[-1], lake).holds
    assert log.rows(lake.path(tables[-1]), "SELECT day, rows, n FROM t") == [{"day": 1, "rows": 6, "n": 3}]
    assert done.batches[-1].strategy == "rewritten: the query has a second Aggregate over the stream"


DECIMALS = [(38, 10), (38, 6), (38, 0), (30, 12), (28, 7), (27, 7), (27, 2), (24, 10), (24, 0), (9, 2)]


def test_sums_and_means_of_decimals_of_any_length_are_the_complete_ones_to_the_last_digit(lake, spark, drop):
    shop, chance = Pipeline("shop"), random.Random(7)
    columns = {f"d{p}_{s}": (p, s) for p, s in DECIMALS}
    schema = "who STRING, " + ", ".join(f"{name} DECIMAL({p},{s})" for name, (p, s) in columns.items())

    @shop.bronze()
    def readings(files=shop.landing("readings", format="json", schema=schema)):  # noqa: B008
        """One row per reading."""
        return files

    def answer(names):
        def decimals(readings=stream(readings)):
            """One row per person."""
            sums = (F.sum(name).alias(f"sum_{name}") for name in names)
            means = (F.avg(name).alias(f"mean_{name}") for name in names)
            return readings.groupBy("who").agg(*sums, *means, F.count("*").alias("rows"))

        return decimals

    def gold(mode, name, names):
        query = answer(names)
        query.__name__ = f"{name}_{mode}"
        return shop.gold(output_mode=mode, row_count_column="rows")(query)

    short = [name for name, (p, s) in columns.items() if p <= 24]
    golds = [gold(m, name, names) for name, names in (("all", columns), ("short", short))
             for m in ("complete", "incremental")]  # fmt: skip
    for number in range(2):
        # Half of the digits: what is summed stays within its type.
        lines = [
            ", ".join(
                ['"who": "a"']
                + [f'"{n}": {chance.randrange(10 ** (p // 2))}e-{s}' for n, (p, s) in columns.items()]
            )
            for _ in range(7)
        ]
        drop("shop/readings", f"{number}.json", "".join(f"{{{line}}}\n" for line in lines).encode())
        done = [refresh(table, lake, lambda: spark) for table in (readings, *golds)]
        rows = [log.rows(lake.path(t), "SELECT * FROM t")[0] for t in golds]
        for whole, merged in (rows[:2], rows[2:]):
            assert {name: merged[name] for name in whole} == whole
    ways = [run.batches[-1].strategy.split(":")[0].split()[0] for run in done]
    assert (ways[2], ways[4]) == ("recomputed", "merged"), ways
