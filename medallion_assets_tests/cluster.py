"""A standalone Spark cluster on this machine, whose executors have no copy of the project.

    python -m medallion_assets_tests.cluster FOLDER|s3://BUCKET/PREFIX instalments|bulk

is a driver: it fills a shop's tables in three instalments, in the second of which executors hold still, and
prints what they hold; or loads what has landed, and prints the memory that took. Both as a line of JSON.
"""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

import pyspark

from medallion_assets.delta import log
from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.session import start_session
from medallion_assets.storage import path_of
from medallion_assets_tests.shop import chain, json_lines, totals_file

HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"

PROJECT = '''
"""A shop whose query calls Python on the executors, where it waits as long as there is a file."""

import os
import time
from pathlib import Path

from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

from medallion_assets import Pipeline, expect, stream
from rates_of_cluster import RATE

FOLDER = Path({folder!r})
shop = Pipeline("shop")


def held_still():
    while (FOLDER / "hold").exists():
        (FOLDER / "at_work").write_text(os.getcwd())
        time.sleep(0.1)


@F.udf(IntegerType())
def doubled(total):
    held_still()
    return RATE * total


@shop.bronze()
def orders(files=shop.landing("orders", format="json", schema="id INT, total INT")):
    """One row per order."""
    return files


@shop.bronze()
def pictures(files=shop.landing("pictures", format="binaryFile")):
    """One row per picture."""
    return files


@shop.silver(unique_by="id", expectations=[expect("above_zero", "total > 0")])
def sales(orders=stream(orders)):
    """One row per sale."""
    return orders.select("id", doubled("total").alias("total"))


@shop.gold(output_mode="incremental", row_count_column="sales")
def totals(sales=stream(sales)):
    """One row in all."""
    sums = F.sum("total").alias("total"), F.count("*").alias("sales")
    return sales.groupBy(F.lit("all").alias("of")).agg(*sums)
'''


def until(what, seconds=120):
    """Wait for what a function returns, until it is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.1)
    return found


class Cluster:
    """A master and its workers, each a process group of its own."""

    def __init__(self, folder):
        self.folder, self.processes = folder, {}
        self.python = python_without_project(folder / "python")
        self.start("master", f"{DEPLOY}.master.Master", "--port", "0")
        log = folder / "master.log"
        pattern = re.compile(r"Starting Spark master at (spark://\S+)")
        self.master = until(lambda: pattern.search(log.read_text()))[1]

    def start_worker(self, name):
        work = ("--work-dir", str(self.folder / name), self.master)
        self.start(name, f"{DEPLOY}.worker.Worker", "--cores", "1", "--memory", "1g", *work)

    def start(self, name, main, *options):
        own = self.folder / f"cwd-{name}"
        own.mkdir()
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_PYTHON")}
        env = kept | {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [HOME / "bin/spark-class", main, "--host", "127.0.0.1", "--webui-port", "0", *options]
        with (self.folder / f"{name}.log").open("w") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=own, env=env, stdout=log, stderr=log, start_new_session=True
            )

    def environment(self, folder, **others):
        """Return the variables of a driver whose lake is in a folder."""
        ours = {"PYTHONPATH": str(Path(__file__).parents[1]), "MEDALLION_SPARK_MASTER": self.master,
                "PYSPARK_PYTHON": str(self.python), "SPARK_LOCAL_IP": "127.0.0.1",
                "MEDALLION_LAKE": f"{folder}/lake", "MEDALLION_LANDING": f"{folder}/landing"}  # fmt: skip
        return os.environ | ours | others

    def kill(self, name):
        """End a process with all of its children, as a machine does that loses its power."""
        process = self.processes.pop(name)
        end(process)

    def stop(self):
        for name in list(self.processes):
            self.kill(name)


def end(process):
    """Kill a process and its group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def python_without_project(folder):
    """Return a Python with this one's packages, but for those that are installed as editable."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(HOME.parent)}
    # Paths that a path file adds are not looked through for further path files.
    (site / "others.pth").write_text("\n".join(sorted(packages)))
    return folder / "bin/python"


def bulk(folder):
    tables = bulk_chain()
    house = Lakehouse(folder, lambda: start_session(house.lake.settings))
    house.run(*tables)
    house.assert_conserved(*tables)
    beans = house._spark()._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    old = max(bean.getPeakUsage().getUsed() for bean in beans if "Old Gen" in bean.getName())
    (python,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    sys.stdout.write(json.dumps({"heap": old, "python": int(python) << 10}) + "\n")


def bulk_chain():
    return chain(keys=(), schema="id INT, total INT, at TIMESTAMP, note STRING")


def land_bulk(landing, files, blocks):
    """Land so many files with so many times 8 MB of records."""
    lines = (
        {"id": n, "total": n % 7 + 1, "at": "2026-01-01T00:00:00Z", "note": os.urandom(200).hex()}
        for n in range((8 << 20) // 460)
    )
    block, zone = json_lines(*lines), landing / "shop/orders"
    zone.mkdir(parents=True)
    for number in range(files):
        with (zone / f"{number}.json").open("w") as file:
            file.writelines([block] * blocks)
    return block.count("\n") * files * blocks


def instalments(folder):
    project = importlib.import_module("shop_of_cluster")
    tables = project.orders, project.pictures, project.sales, project.totals
    house = Lakehouse(folder, lambda: start_session(house.lake.settings, stays=True))
    for number, totals in enumerate([(5, -1, 7), (3, -4), (2,)]):
        house.land("shop/orders", f"{number}.json", totals_file(*totals, start=10 * number) + '{"id": \n')
        house.land("shop/pictures", f"{number} %.jpg", f"picture {number}")
        if number == 1:
            (project.FOLDER / "hold").touch()
        for table, done in zip(tables, house.run(*tables).values(), strict=True):
            assert done.batches, f"{table.key} took nothing"
    house.assert_conserved(*tables)
    house.assert_exactly_once(*tables)
    lake = house.lake.root / "shop"
    asked = {
        "silver/sales": "SELECT id, total FROM t ORDER BY id",
        "gold/totals": "SELECT total FROM t",
        "bronze/pictures": "SELECT path, CAST(content AS STRING) AS content, "
        "CAST(modificationTime AS BIGINT) AS micros FROM t ORDER BY path",
    }
    found = {name: [[*row.values()] for row in log.rows(lake / name, sql)] for name, sql in asked.items()}
    refused = {name: log.row_count(lake / "quarantine" / name) for name in ("sales", "orders")}
    sys.stdout.write(json.dumps(found | refused) + "\n")


if __name__ == "__main__":
    {"instalments": instalments, "bulk": bulk}[sys.argv[2]](path_of(sys.argv[1]))
