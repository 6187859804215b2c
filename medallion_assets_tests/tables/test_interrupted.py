"""Every kind of table, dead between its Delta commit and its checkpoint's, equals one nobody disturbed."""

import json

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.tables import Layout, Pipeline, expect, keep_changes, static, stream

pytestmark = pytest.mark.spark
SCHEMA = "id INT, at TIMESTAMP, city STRING"
KNOWN = expect("known_city", "city <> 'nowhere'")


def shop():
    made = Pipeline("shop")

    def landed(name):
        def query(files=made.landing(name, format="json", schema=SCHEMA, allow_overwrites="replace")):  # noqa: B008
            """One row per record, as it landed."""
            return files

        query.__name__ = name
        return made.bronze()(query)

    return made, landed("events"), landed("cities")


def rows(**options):
    def declare(made, events, _):
        @made.silver(**options)
        def table(events=stream(events)):
            """One row per event."""
            return events.select("id", "at", "city")

        return table

    return declare


def two_streams(made, events, cities):
    table = rows(unique_by="id", expectations=[KNOWN])(made, events, cities)

    @made.flow(into=table)
    def from_cities(cities=stream(cities)):
        """The cities' own records."""
        return cities.select((F.col("id") + 1000).alias("id"), "at", "city")

    return table


ONCE = {"on": "city", "unmatched": "retry", "unique_by": "city", "repeated": "keep_one", "follow": True}


def joined(made, events, cities):
    @made.silver(unique_by="id")
    def table(
        events=stream(events),
        cities=static(
            cities, on="city", unmatched="retry", unique_by="city", repeated="keep_one", follow=True
        ),
    ):
        """One row per event of a city that is known."""
        named = cities.select("city", F.col("id").alias("number"))
        return events.join(named, "city", "left").select("id", "city", "number")

    return table


def summed(mode, **options):
    def declare(made, events, _):
        @made.gold(output_mode=mode, counts_rows="n", **options)
        def table(events=stream(events)):
            """One row per city."""
            return events.groupBy("city").agg(F.count("*").alias("n"), F.avg("id").alias("mean"))

        return table

    return declare


def windows(mode, window, times=1):
    def declare(made, events, _):
        keys = {"unique_by": ("span", "city")} if mode == "update" else {}

        @made.gold(output_mode=mode, counts_rows="n", times_counted=times, **keys)
        def table(events=stream(events, event_time="at", watermark="1 day")):
            """One row per span of time and city."""
            return events.groupBy(window().alias("span"), "city").agg(F.count("*").alias("n"))

        return table

    return declare


SHAPES = {
    "append": rows(expectations=[KNOWN]),
    "once a key": rows(unique_by="id", expectations=[KNOWN]),
    "a horizon": rows(unique_by="id", unique_over="at", unique_within="3 days"),
    "a layout": rows(
        layout=Layout(
            constraints={"known": "id > 0"},
            cluster_by=("city",),
            generated={"day": "DATE AS (CAST(at AS DATE))"},
        )
    ),
    "type 1": rows(keeps=keep_changes("id", "at")),
    "type 2": rows(keeps=keep_changes("id", "at", type=2)),
    "snapshots": rows(keeps=keep_changes("id", "at", type=2, from_snapshots=True)),
    "two streams": two_streams,
    "a join that retries and follows": joined,
    "complete": summed("complete"),
    "update": summed("update", unique_by="city"),
    "incremental": summed("incremental"),
    "tumbling windows": windows("update", lambda: F.window("at", "2 days")),
    "sliding windows": windows("append", lambda: F.window("at", "2 days", "1 day"), 2),
    "sessions": windows("append", lambda: F.session_window("at", "2 days")),
}


def lines(*records):
    return "".join(
        json.dumps({"id": i, "at": f"2024-01-{day:02d}T00:00:00", "city": city}) + "\n"
        for i, day, city in records
    )


QUITO, LIMA, OSLO, NOWHERE = "Quito", "Lima", "Oslo", "nowhere"
LANDINGS = [
    {"events": ("1", [(1, 1, QUITO), (2, 1, LIMA), (3, 1, NOWHERE)]), "cities": ("1", [(7, 1, QUITO)])},
    {"events": ("2", [(1, 3, LIMA), (2, 3, QUITO), (4, 3, OSLO)]), "cities": ("2", [(8, 2, LIMA)])},
    {"events": ("3", [(5, 8, LIMA), (1, 8, NOWHERE)]), "cities": ("1", [(9, 1, QUITO), (10, 2, OSLO)])},
    {"events": ("2", [(1, 3, OSLO), (4, 3, LIMA)]), "cities": ("3", [(11, 3, NOWHERE)])},
]


def held(house, table):
    return sorted(repr(sorted(row.items())) for row in house.rows(table, "SELECT * FROM t"))


NEW = ("a horizon", "a layout", "two streams", "snapshots")
"""Those no other test interrupts; the rest with ``make thorough``."""


@pytest.mark.parametrize(
    "shape", [s if s in NEW else pytest.param(s, marks=pytest.mark.thorough) for s in SHAPES]
)
def test_a_death_between_the_two_commits_changes_nothing(tmp_path, medallion_spark, shape):
    calm, shaken = (Lakehouse(tmp_path / name, medallion_spark) for name in ("calm", "shaken"))
    tables = {}
    for house in (calm, shaken):
        made, *sources = shop()
        tables[house] = [*sources, SHAPES[shape](made, *sources)]
    for turn, landing in enumerate(LANDINGS):
        for house in (calm, shaken):
            for name, (file, records) in landing.items():
                house.land(f"shop/{name}", f"{file}.json", lines(*records))
            *sources, table = tables[house]
            house.run(*sources)
            if house is shaken and turn:
                with house.crash_at(1):
                    house.run(table)
            house.run(table)
            house.assert_conserved(*tables[house])
        assert held(shaken, tables[shaken][-1]) == held(calm, tables[calm][-1]), f"after landing {turn}"
