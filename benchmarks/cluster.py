"""Megabytes a second through bronze, silver and gold on one worker and on two, from a disk and from S3.

    python -m benchmarks.cluster [MEGABYTES]

A standalone Spark cluster of this machine, with one core a worker, parses JSON files on its executors (64 MB
where nothing is said). A driver for each cluster and place loads as much twice: the first load meets code the
JVMs never ran, the second is what a session that stays takes. The store is an S3 server of this machine
(``medallion_assets_tests/s3_server.py``). All of them share its cores.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.session import start_session
from medallion_assets.storage import path_of, storage_of
from medallion_assets_tests.cluster import Cluster, bulk_chain, land_bulk
from medallion_assets_tests.s3_server import BUCKET, KEYS, running_s3

FILES, BLOCK = 4, 8
"""Files of a load, and the megabytes a file is a multiple of."""


def main(megabytes: int = 64) -> None:
    """Print what each cluster does."""
    for workers in (1, 2):
        for place in ("a disk", "S3"):
            with tempfile.TemporaryDirectory(prefix="cluster-") as folder, ExitStack() as stack:
                root, own = f"{folder}/shop", dict(KEYS)
                if place == "S3":
                    os.environ |= KEYS
                    own["AWS_ENDPOINT_URL"] = stack.enter_context(running_s3())
                    root = f"s3://{BUCKET}/shop"
                (Path(folder) / "cluster").mkdir()
                cluster = Cluster(Path(folder) / "cluster")
                stack.callback(cluster.stop)
                for number in range(workers):
                    cluster.start_worker(f"worker-{number}")
                print(f"{workers} workers of one core, lake and landing zone in {place}:", flush=True)
                own["MEDALLION_PARSE_ON_EXECUTORS_BYTES"] = "0"
                command = [sys.executable, "-m", "benchmarks.cluster", root, str(megabytes)]
                subprocess.run(command, env=cluster.environment(root, **own), check=True)


def load(root: str, megabytes: int) -> None:
    """Load files of so many megabytes twice; print the seconds of each table."""
    house = Lakehouse(path_of(root), lambda: start_session(house.lake.settings, stays=True))
    house._spark()
    tables = bulk_chain()
    for turn in ("first", "second"):
        size = land(house, turn, megabytes)
        words, began = [], time.monotonic()
        for table in tables:
            before = time.monotonic()
            house.run(table)
            words.append(f"{table.layer} {time.monotonic() - before:.1f} s")
        took = time.monotonic() - began
        print(f"    {turn} load: {', '.join(words)}; {size / took / 1e6:.1f} MB/s", flush=True)
    house.assert_conserved(*tables)


def land(house: Lakehouse, turn: str, megabytes: int) -> int:
    """Land files, and return their bytes."""
    with tempfile.TemporaryDirectory() as folder:
        land_bulk(Path(folder), FILES, max(1, megabytes // (FILES * BLOCK)))
        files = sorted(Path(folder).rglob("*.json"))
        for file in files:
            target = house.lake.settings.landing / "shop/orders" / f"{turn}-{file.name}"
            with file.open("rb") as content:
                storage_of(str(target)).put(str(target), content)
        return sum(file.stat().st_size for file in files)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        load(sys.argv[1], int(sys.argv[2]))
    else:
        main(*map(int, sys.argv[1:]))
