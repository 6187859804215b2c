"""Work on a chain of tables in S3 and on the same chain on a disk; say where they differ.

    python -m medallion_assets_tests.in_s3 s3://BUCKET/PREFIX FOLDER deaths|verbs|placements

A process of its own: a session reads S3 only where it was started for a lake there. The last line is JSON:
for each step, the tables that differ.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from medallion_assets.delta import progress
from medallion_assets.lake.paths import Lake
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.replay.replay import replay
from medallion_assets.session import start_session
from medallion_assets.session.catalog import name_tables
from medallion_assets.session.java import S3_JARS
from medallion_assets.session.start import OF_FEW_ROWS
from medallion_assets.settings import Settings
from medallion_assets.storage import path_of
from medallion_assets_tests.crash.sweep import differences, everything
from medallion_assets_tests.shop import chain, totals_file


def has_jars_of_s3():
    """Return whether a session in S3 ever ran here: its jars are 690 MB, which no test is to fetch."""
    found = [jar.name for jar in Settings().cache.glob("hadoop-aws-*/*.jar")]
    return all(any(name.startswith(jar) for name in found) for jar in S3_JARS)


needs_jars = pytest.mark.skipif(
    not has_jars_of_s3(), reason="no lake in S3 was run here: its jars are not in the cache"
)


class Gone(Exception):
    """The process ends here."""


def dies(*_):
    raise Gone


def lands(houses, number, *totals):
    for house in houses:
        house.land("shop/orders", f"{number}.json", totals_file(*totals, start=10 * number) + '{"id": \n')


def lose_checkpoints_half_way(lake, tables):
    """Forget each checkpoint, and die after some of its objects are deleted."""
    whole = progress.remove_tree
    progress.remove_tree = lambda folder: (whole(folder / "offsets"), dies())
    try:
        for table in tables:
            try:
                progress.forget(lake.state(table, "checkpoint"))
            except Gone:
                continue
    finally:
        progress.remove_tree = whole


def deaths(houses, tables, compare):
    """Checkpoints that were half deleted, and a death before the last commit of each table's batch."""
    (there, here), (orders, sales, totals) = houses, tables
    lose_checkpoints_half_way(there.lake, tables)
    lands(houses, 2, 3, -4)
    here.run(*tables)
    for table, commit in ((orders, 2), (sales, 2), (totals, 1)):
        with there.crash_at(commit, "before"):
            there.run(table)
        there.run(table)
    compare("checkpoints lost half way, and deaths between two commits")


def verbs(houses, tables, compare):
    """A full refresh, and a replay with a fix; the tables downstream follow."""
    _, sales, _ = tables
    for house in houses:
        done = VERBS["full_refresh"](sales, house.lake, house._spark, VerbRequest())
        assert done.well, done.does
        chosen = QuarantineFilter(rules=("above_zero",))
        assert replay(sales, house.lake, house._spark(), chosen, fix="total = 1").written == 1
        house.run(*tables)
        house.assert_conserved(*tables)
    compare("full refresh and replay")
    name_tables(houses[0]._spark(), houses[0].lake.root)
    assert houses[0]._spark().table("shop.silver.sales").count() == 3


def placements(houses, tables, compare):
    """Lake and landing zone each in a place of its own: two instalments, as on a disk."""
    import boto3

    there, here = houses
    other = f"{there.lake.root.parts[1]}-2"
    boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"]).create_bucket(Bucket=other)
    s3, disk = (house.lake.root.parent for house in houses)
    lands([here], 2, 3, -4)
    here.run(*tables)
    for lake, landing in ((s3, disk), (disk, s3), (s3, path_of(f"s3://{other}"))):
        mixed = Lakehouse(s3, there._spark)
        name = f"lake in {lake}, landing in {landing}".replace(str(disk), "a folder")
        placed = {"lake": lake / f"lake to {landing.name}", "landing": landing / f"landing of {lake.name}"}
        mixed.lake = Lake(Settings(**placed).resolved())
        for number, totals in ((1, (5, -1, 7)), (2, (3, -4))):
            lands([mixed], number, *totals)
            mixed.run(*tables)
        mixed.assert_conserved(*tables)
        compare(name.replace(str(s3), "S3").replace(f"s3://{other}", "another bucket"), mixed)


def main(prefix, folder, work):
    spark = start_session(Settings(lake=prefix, spark_conf=OF_FEW_ROWS).resolved())
    tables = chain()
    houses = [Lakehouse(place, lambda: spark) for place in (path_of(prefix), Path(folder))]
    found = {}

    def compare(step, house=houses[0]):
        found[step] = differences(*(everything(of.lake, tables) for of in (house, houses[1])))

    lands(houses, 1, 5, -1, 7)
    for house in houses:
        house.run(*tables)
    compare("first load")

    {"deaths": deaths, "verbs": verbs, "placements": placements}[work](houses, tables, compare)
    sys.stdout.write(f"{json.dumps(found)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
