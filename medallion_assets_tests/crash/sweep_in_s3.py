"""Puts a lake in S3 back to each request that changed it, as if the run had died there, and runs on.

    python -m medallion_assets_tests.crash.sweep_in_s3 FOLDER [EVERY] [FIRST]

Two instalments land and are run once through a proxy, which keeps what the store holds after each request.
Each trial puts the lake back to what it held after an EVERY-th one, runs again, and compares every table and
quarantine with the lake that nobody disturbed. Exits 1 where a trial lost, doubled or stuck.
"""

import json
import sys
import time
from pathlib import Path

import boto3

from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.runs.run import run_tables
from medallion_assets.storage import path_of
from medallion_assets_tests.crash.requests_to_s3 import INSTALMENTS, lands, leases_expire, session
from medallion_assets_tests.crash.s3_proxy import watched_store
from medallion_assets_tests.crash.sweep import differences, everything
from medallion_assets_tests.faults.trial import shop_tables
from medallion_assets_tests.s3_server import BUCKET


class Trials:
    """The lake under trial, and what its store held after each request."""

    def __init__(self, folder, store, spark):
        self.folder, self.spark, self.tables = folder, spark, shop_tables(settle_seconds=0)
        # Not by the storage port, which takes the slash off the name of what stands for a folder.
        self.direct = boto3.client("s3", endpoint_url=store)
        self.house = Lakehouse(path_of(f"s3://{BUCKET}"), lambda: spark)
        self.steps = []

    def prepare(self):
        """Do the work once, recorded; give what the lake holds in the end."""
        recorded = self.folder / "recorded.jsonl"
        recorded.touch()
        for number in range(len(INSTALMENTS)):
            lands(self.house, number)
            self.run()
        found = map(json.loads, recorded.read_text().splitlines())
        recorded.rename(recorded.with_suffix(".done"))
        self.steps = [step for step in found if f"{BUCKET}/lake/" in step[0]]
        return everything(self.house.lake, self.tables)

    def run(self):
        """Run the chain; every table must be well."""
        outcomes = run_tables(self.tables, self.house.lake, self.house._spark)
        wrong = [f"{o.table.key}: {o.error or o.verdicts}" for o in outcomes if not o.is_well]
        assert not wrong, wrong

    def put_back(self, at):
        """Have the store hold what it held after a request; landing zones stay as they are."""
        held = {k: v for k, v in self.steps[at][1].items() if k.startswith("lake/")}
        pages = self.direct.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="lake/")
        there = {found["Key"] for page in pages for found in page.get("Contents", ())}
        # The longest first: SeaweedFS keeps a name that ends in a slash as a folder.
        for key in sorted(there - held.keys(), reverse=True):
            self.direct.delete_object(Bucket=BUCKET, Key=key)
        for key, content in held.items():
            body = (self.folder / "contents" / content).read_bytes()
            self.direct.put_object(Bucket=BUCKET, Key=key, Body=body)
        # The process that died would have taken what it knew with it.
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()

    def trial(self, at, expected):
        """Run on from a state; give what is wrong then, in words."""
        self.put_back(at)
        try:
            self.run()
            self.house.assert_conserved(*self.tables)
        except Exception as error:
            return [f"{type(error).__name__}: {str(error).strip()[:600]}"]
        return differences(everything(self.house.lake, self.tables), expected)


def main(folder, every=1, first=0):
    # A dead run's leases are waited for in each trial.
    leases_expire(0.3, beat=60.0)
    broken = 0
    with watched_store(folder) as (_, store):
        trials = Trials(folder, store, session())
        expected = trials.prepare()
        points = range(first, len(trials.steps), every)
        print(f"{len(trials.steps)} requests, {len(points)} of them tried", flush=True)
        for at in points:
            began = time.monotonic()
            wrong = trials.trial(at, expected)
            broken += bool(wrong)
            where = trials.steps[at][0].replace(f"{BUCKET}/lake/shop/", "")
            took = time.monotonic() - began
            print(f"request {at:3d} {'; '.join(wrong) or 'held'}  ({where}, {took:.1f} s)", flush=True)
        print(f"{len(points) - broken} held, {broken} broken", flush=True)
        trials.spark.stop()
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:])))
