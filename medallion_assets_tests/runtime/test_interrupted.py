"""Every kind of table, dead between its Delta commit and its checkpoint's, holds what its files make it."""

import copy

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Layout, Pipeline, expect, keep_changes, static, stream
from medallion_assets.runs.run import refresh
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.runtime import by_hand
from medallion_assets_tests.shop import json_lines

pytestmark = pytest.mark.spark
SCHEMA = "id INT, at TIMESTAMP, city STRING"


BEFORE = 1703980800
"""The last day of 2023, in seconds since 1970."""


def day(column):
    """SQL of the day of January 2024."""
    return f"CAST((date_part('epoch', {column}) - {BEFORE}) / 86400 AS INT)"


STATE = f"id, city, {day('__START_AT')}, {day('__END_AT')}"
NUMBERED = "id, city, number"
SPAN = f"{day('versions.start')}, city, n"
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


def rows(*carried, **options):
    def declare(made, events, _):
        @made.silver(**options)
        def table(events=stream(events)):
            """One row per event."""
            return events.select("id", "at", "city", *carried)

        return table

    return declare


def two_streams(made, events, cities):
    table = rows("_batch_id", unique_by="id", expectations=[KNOWN])(made, events, cities)

    @made.flow(into=table)
    def from_cities(cities=stream(cities)):
        """The cities' own records."""
        return cities.select((F.col("id") + 1000).alias("id"), "at", "city", "_batch_id")

    return table


def joined(how, **rule):
    def declare(made, events, cities):
        @made.silver(unique_by="id")
        def table(
            events=stream(events),
            cities=static(cities, on="city", unique_by="city", repeated="keep_one", **rule),
        ):
            """One row per event, with its city's number."""
            named = cities.select("city", F.col("id").alias("number"))
            return events.join(named, "city", how).select("id", "city", "number", "_batch_id")

        return table

    return declare


def summed(mode, **options):
    def declare(made, events, _):
        @made.gold(output_mode=mode, row_count_column="n", **options)
        def table(events=stream(events)):
            """One row per city."""
            return events.groupBy("city").agg(F.count("*").alias("n"), F.avg("id").alias("mean"))

        return table

    return declare


def windows(mode, window, times=1):
    def declare(made, events, _):
        keys = {"unique_by": ("versions", "city")} if mode == "update" else {}

        @made.gold(output_mode=mode, row_count_column="n", window_overlap=times, **keys)
        def table(events=stream(events, event_time="at", watermark="1 day")):
            """One row per versions of time and city."""
            return events.groupBy(window().alias("versions"), "city").agg(F.count("*").alias("n"))

        return table

    return declare


SHAPES = {
    "append": rows(expectations=[KNOWN]),
    "once a key": rows("_batch_id", unique_by="id", expectations=[KNOWN]),
    "a horizon": rows(unique_by="id", unique_over="at", unique_within="3 days"),
    "a layout": rows(
        layout=Layout(
            constraints={"known": "id > 0"},
            cluster_by=("city",),
            generated={"day": "DATE AS (CAST(at AS DATE))"},
        )
    ),
    "type 1": rows(scd=keep_changes("id", "at")),
    "type 2": rows(scd=keep_changes("id", "at", type=2)),
    "snapshots": rows(scd=keep_changes("id", "at", type=2, from_snapshots=True)),
    "two streams": two_streams,
    "a join that retries and follows": joined("left", unmatched="retry", follow=True),
    "an inner join that retries and follows": joined("inner", unmatched="retry", follow=True),
    "an inner join that keeps": joined("inner", unmatched="keep"),
    "a join that quarantines": joined("left", unmatched="quarantine"),
    "complete": summed("complete"),
    "update": summed("update", unique_by="city"),
    "incremental": summed("incremental"),
    "tumbling windows": windows("update", lambda: F.window("at", "2 days")),
    "sliding windows": windows("append", lambda: F.window("at", "2 days", "1 day"), 2),
    "sessions": windows("append", lambda: F.session_window("at", "2 days")),
}


ROW = f"id, {day('at')} AS day, city"
"""A row as the tables are told from one another by."""


def closed(windows, events, length=2):
    return [w for w in windows if w[0] + length <= by_hand.watermark(events)]


EXPECTED = {
    "append": (ROW, lambda events, _: by_hand.known(events)),
    "once a key": (ROW, lambda events, _: by_hand.first_of_each(by_hand.known(events))),
    "a horizon": (ROW, lambda events, _: by_hand.none_within(3, events)),
    "a layout": (f"{ROW}, {day('day')} AS made", lambda events, _: [(*e, e[1]) for e in events]),
    "type 1": (ROW, lambda events, _: by_hand.newest_of_each(events)),
    "type 2": (STATE, lambda events, _: by_hand.states(events)),
    "snapshots": (STATE, lambda events, _: by_hand.states(events, snapshots=True)),
    "two streams": (
        ROW,
        lambda events, cities: by_hand.first_of_each(
            by_hand.known([*events, *((i + 1000, at, city) for i, at, city in cities)])
        ),
    ),
    **{f"{a} join that retries and follows": (NUMBERED, by_hand.in_known_cities) for a in ("a", "an inner")},
    "an inner join that keeps": (NUMBERED, by_hand.JoinedWhenTaken(keeps=True)),
    "a join that quarantines": (NUMBERED, by_hand.JoinedWhenTaken(keeps=False)),
    **{
        mode: ("city, n, mean", lambda events, _: by_hand.by_city(events))
        for mode in ("complete", "update", "incremental")
    },
    "tumbling windows": (SPAN, lambda events, _: by_hand.by_window(events, 2)),
    "sliding windows": (SPAN, lambda events, _: closed(by_hand.by_window(events, 1), events)),
    "sessions": (
        f"{day('versions.start')}, {day('versions.end')} - 2, city, n",
        lambda events, _: [s for s in by_hand.by_session(events) if s[1] + 2 <= by_hand.watermark(events)],
    ),
}
"""What to read of each kind of table, and what the landing files make it."""

QUITO, LIMA, OSLO, NOWHERE = "Quito", "Lima", "Oslo", by_hand.NOWHERE
LANDINGS = [
    {"events": ("1", [(1, 1, QUITO), (2, 1, LIMA), (3, 1, NOWHERE)]), "cities": ("1", [(7, 1, QUITO)])},
    {"events": ("2", [(1, 3, LIMA), (2, 3, QUITO), (4, 3, OSLO)]), "cities": ("2", [(8, 2, LIMA)])},
    {"events": ("3", [(5, 8, LIMA), (1, 8, NOWHERE)]), "cities": ("1", [(9, 1, QUITO), (10, 2, OSLO)])},
    {"events": ("2", [(1, 3, OSLO), (4, 3, LIMA)]), "cities": ("3", [(11, 3, NOWHERE)])},
]


def lines(*records):
    return json_lines(
        *({"id": i, "at": f"2024-01-{day:02d}T00:00:00", "city": city} for i, day, city in records)
    )


def landed(landings, zone):
    """The records of a landing zone as its files are now, a file that came again where it came last."""
    files = {}
    for landing in landings:
        name, records = landing[zone]
        files.pop(name, None)
        files[name] = records
    return [record for records in files.values() for record in records]


IN_CI = ("a layout", "two streams")
"""Those no other test interrupts; the rest with ``make thorough``."""


@pytest.mark.parametrize("shape", [s if s in IN_CI else seldom(s) for s in SHAPES])
def test_after_a_death_between_the_two_commits_the_files_alone_say_what_stands(
    lakehouse, medallion_spark, shape
):
    made, *sources = shop()
    table, (columns, told) = SHAPES[shape](made, *sources), EXPECTED[shape]
    # One that remembers what it saw begins anew with each test.
    expected = copy.deepcopy(told)
    for turn, landing in enumerate(LANDINGS):
        for name, (file, records) in landing.items():
            lakehouse.land(f"shop/{name}", f"{file}.json", lines(*records))
        lakehouse.run(*sources)
        if turn:
            with lakehouse.crash_at(1):
                refresh(table, lakehouse.lake, medallion_spark, trigger=("availableNow", "once")[turn % 2])
        lakehouse.run(table)
        lakehouse.assert_conserved(*sources, table)
        rows = lakehouse.rows(table, f"SELECT {columns} FROM t")
        held = sorted((tuple(row.values()) for row in rows), key=repr)
        zones = (landed(LANDINGS[: turn + 1], zone) for zone in ("events", "cities"))
        assert held == sorted(expected(*zones), key=repr), f"after landing {turn}"
