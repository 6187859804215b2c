"""A Spark cluster has the rows of one machine, whoever dies; what it lacks is said before any write."""

import importlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.pipelines import PIPELINES
from medallion_assets.session import cluster as clusters
from medallion_assets.session.cluster import BY_CORES, NEEDED, ExecutorsUnfit, fit_to_cores, not_shared
from medallion_assets.session.start import OF_FEW_ROWS
from medallion_assets.settings import Settings
from medallion_assets.simulators import land
from medallion_assets.storage import path_of, storage_of
from medallion_assets_tests.cluster import PROJECT, Cluster, end, land_bulk, until
from medallion_assets_tests.crash.sweep import differences, everything, rounded
from medallion_assets_tests.in_s3 import needs_jars

DRIVER = "medallion_assets_tests.cluster"
DOMAINS = ("school", "health", "commerce")


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    running = Cluster(folder)
    try:
        running.start_worker("one")
        running.start_worker("two")
        yield running
    finally:
        running.stop()


def started(cluster, folder, *command, place=None, **environment):
    """Start a driver on a lake in its folder or another place; its words go to a file."""
    with (folder / "driver.log").open("w") as said:
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=cluster.environment(place or folder, **environment),
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def said(folder):
    return (folder / "driver.log").read_text()


@pytest.fixture(params=["on a disk", pytest.param("in S3", marks=[needs_jars, pytest.mark.thorough])])
def place(request, tmp_path):
    """The folder of a lake and its landing zones, or a prefix in S3."""
    in_s3 = request.param == "in S3"
    return path_of(request.getfixturevalue("s3")) / tmp_path.name if in_s3 else tmp_path


@pytest.mark.spark
def test_a_worker_that_dies_in_the_midst_of_a_batch_changes_nothing(cluster, place, tmp_path):
    (tmp_path / "shop_of_cluster.py").write_text(PROJECT.format(folder=str(tmp_path)))
    (tmp_path / "rates_of_cluster.py").write_text("RATE = 2\n")
    quick = OF_FEW_ROWS | {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    settings = {"MEDALLION_PIPELINES": "shop_of_cluster", "MEDALLION_PARSE_ON_EXECUTORS_BYTES": "0",
                "MEDALLION_SPARK_CONF": json.dumps(quick)}  # fmt: skip
    command = "-m", DRIVER, str(place), "instalments"
    driver = started(cluster, tmp_path, *command, place=place, **settings)
    try:
        at_work = tmp_path / "at_work"
        until(lambda: at_work.exists() or driver.poll() is not None, 300)
        assert at_work.exists(), said(tmp_path)[-3000:]
        # An executor's Python works in a folder of its worker.
        cluster.kill(until(lambda: Path(at_work.read_text()).relative_to(cluster.folder).parts[0]))
        (tmp_path / "hold").unlink()
        assert driver.wait(300) == 0, said(tmp_path)[-3000:]
    finally:
        end(driver)
    held = json.loads(said(tmp_path).splitlines()[-1])
    assert held["silver/sales"] == [[0, 10], [2, 14], [10, 6], [20, 4]]
    assert (held["gold/totals"], held["sales"], held["orders"]) == ([[34]], 2, 3)
    for number, (name, content, micros) in enumerate(held["bronze/pictures"]):
        assert (name, content) == (f"{number} %.jpg", f"picture {number}")
        landed = storage_of(str(place)).stat(f"{place}/landing/shop/pictures/{name}")
        assert micros // 1000 == landed.modified_at // 1000, "the time of a copy"
    left = [*(place / "lake").glob(f"{clusters.PROBE}*"), *(place / "lake").rglob("staging/*")]
    assert not left, "a batch left its copies behind"


@pytest.mark.thorough
def test_the_reference_pipelines_equal_those_of_one_machine_when_a_worker_and_a_driver_die(cluster, tmp_path):
    here, there = (tmp_path / name for name in ("here", "there"))
    for folder in (here, there):
        folder.mkdir()
        (folder / "landing").symlink_to(tmp_path / "landing")
    command = ("-m", "medallion_assets.cli", "run")

    def run(folder, **settings):
        driver = started(cluster, folder, *command, **settings)
        assert driver.wait(1200) == 0, said(folder)[-3000:]

    def run_until_commits(count):
        before = commits(there)
        driver = started(cluster, there, *command, MEDALLION_PARSE_ON_EXECUTORS_BYTES="0")
        until(lambda: commits(there) >= before + count or driver.poll() is not None, 600)
        assert driver.poll() is None, said(there)[-3000:]
        return driver

    for instalment in range(3):
        for domain in DOMAINS:
            land(domain, tmp_path / "landing", 2 if instalment == 0 else 1, with_faults=domain != "commerce")
        run(here, MEDALLION_SPARK_MASTER="local[2]")
        if instalment == 1:
            driver = run_until_commits(6)
            cluster.kill("one")
            assert driver.wait(1200) == 0, said(there)[-3000:]
            cluster.start_worker("three")
        elif instalment == 2:
            end(run_until_commits(8))
            run(there)
        else:
            run(there)
    tables = [table for pipeline in PIPELINES.values() for table in pipeline.tables.values()]
    of_one, of_cluster = (
        everything(Lake(Settings(lake=folder / "lake").resolved()), tables) for folder in (here, there)
    )
    assert not differences(rounded(of_cluster), rounded(of_one))


def commits(folder):
    return len(list((folder / "lake").glob("*/*/*/_delta_log/*.json")))


@pytest.mark.thorough
def test_a_load_of_a_gigabyte_does_not_pass_through_the_drivers_memory(cluster, tmp_path):
    records = land_bulk(tmp_path / "landing", 8, 16)
    small = json.dumps({"spark.driver.memory": "600m"})
    driver = started(cluster, tmp_path, "-m", DRIVER, str(tmp_path), "bulk", MEDALLION_SPARK_CONF=small)
    assert driver.wait(2400) == 0, said(tmp_path)[-3000:]
    took = json.loads(said(tmp_path).splitlines()[-1])
    assert log.row_count(tmp_path / "lake/shop/silver/sales") == records
    # Seen with 1.1 GB: 94 MB of the old generation, and 290 MB of Python at its largest.
    assert took["heap"] < 300 << 20, took
    assert took["python"] < 700 << 20, took


@pytest.mark.thorough
def test_packages_that_executors_lack_are_named_and_nothing_is_written(cluster, tmp_path):
    bare = cluster.folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    land("school", tmp_path / "landing", 1)
    driver = started(cluster, tmp_path, "-m", "medallion_assets.cli", "run", "school",
                     PYSPARK_PYTHON=str(bare / "bin/python"), COLUMNS="10000")  # fmt: skip
    assert driver.wait(300) == 1
    text = said(tmp_path)
    assert f"cannot import {', '.join(sorted(NEEDED))}: their Python is {bare}" in text, text[-3000:]
    assert not list((tmp_path / "lake").glob("school/bronze/*"))


def test_what_executors_import_is_what_they_are_asked_for():
    code = (
        "import sys, medallion_assets.sources.formats.text_files, medallion_assets.sources.value_counts;"
        "import medallion_assets.sources.malformed, medallion_assets.sources.rescued_data;"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(NEEDED) - {"pandas"} <= set(done.stdout.split())
    known = {"annotated_types", "arro3", "cython_runtime", "dotenv", "medallion_assets", "mypy_extensions",
             "py4j", "pydantic_core", "pyspark", "typing_extensions", "typing_inspection"}  # fmt: skip
    others = {n for n in done.stdout.split() if not n.startswith("_")} - set(sys.stdlib_module_names)
    assert others - known <= set(NEEDED)


def test_the_package_and_the_project_are_shipped_without_their_caches(tmp_path, monkeypatch):
    project = tmp_path / "shoes"
    (project / "__pycache__").mkdir(parents=True)
    for name in ("__init__.py", "rules.py", "__pycache__/rules.pyc"):
        (project / name).touch()
    monkeypatch.chdir(tmp_path)
    for name in ("laces_beside", "polish_beside"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("laces_beside")
    whole = clusters._shipped(Settings(pipelines="shoes.rules"), tmp_path)
    names = zipfile.ZipFile(whole).namelist()
    assert {n for n in names if "beside" in n} == {"laces_beside.py"}
    assert {n for n in names if n.startswith("shoes")} == {"shoes/__init__.py", "shoes/rules.py"}
    assert "medallion_assets/sources/formats/text_files.py" in names


class SessionOfCores:
    """What ``fit_to_cores`` asks of a session."""

    def __init__(self, cores):
        self.set = {}
        self.sparkContext = type("Context", (), {"defaultParallelism": cores})
        self.conf = type("Conf", (), {"set": self.set.__setitem__})


def test_numbers_of_partitions_follow_the_clusters_cores_and_the_users_settings_win():
    session = SessionOfCores(64)
    fit_to_cores(session, Settings(spark_conf={"spark.sql.shuffle.partitions": "400"}))
    assert session.set == {name: str(min(64, most)) for name, most in BY_CORES.items()
                           if name != "spark.sql.shuffle.partitions"}  # fmt: skip


def test_an_executor_without_the_lake_is_told_by_the_lakes_folder():
    spark = "Job aborted: Task 0 lost: java.nio.file.NoSuchFileException: /mnt/lake/"
    error = not_shared(RuntimeError(f"{spark}{clusters.PROBE}1f.jar (executor 2)"))
    assert isinstance(error, ExecutorsUnfit)
    assert "sees in /mnt/lake:" in str(error)
    assert not_shared(RuntimeError("another thing failed")) is None


def test_a_spark_connect_server_is_refused_by_name():
    with pytest.raises(ValueError, match=r"sc://host:15002 is a Spark Connect server.*Name the cluster"):
        Settings(spark_master="sc://host:15002")


def test_a_cluster_of_processes_on_this_machine_is_no_local_master():
    masters = ("local", "local[*]", "local[2,3]", "local-cluster[2,1,1024]", "spark://host:7077", "yarn")
    found = [Settings(spark_master=master).is_one_machine for master in masters]
    assert found == [True, True, True, False, False, False]
