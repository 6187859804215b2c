"""One Spark session for the whole run, and a lake of its own for each test."""

import os
import shutil
import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from medallion_assets.declare.pipeline import chosen
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.pipelines import PIPELINES
from medallion_assets.pytest_plugin import Lakehouse
from medallion_assets.quality.conservation import balance
from medallion_assets.quality.verdicts import values_conserved
from medallion_assets.runs.run import refresh
from medallion_assets.runtime.query_checks import query_warnings
from medallion_assets.settings import Settings

SHARED = Path(os.environ.get("MEDALLION_SHARED_DATA", "../shared/data"))


@pytest.fixture(autouse=True)
def of_this_test_alone(monkeypatch):
    """Keeps what the machine happens to have set out of the tests."""
    for name in [n for n in os.environ if n.startswith("MEDALLION_") and n != "MEDALLION_SHARED_DATA"]:
        monkeypatch.delenv(name)
    # Commands are run in folders of their own, outside of this repository.
    monkeypatch.setenv("MEDALLION_PIPELINES", "medallion_assets.pipelines")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


@pytest.fixture(scope="session")
def medallion_spark_stays():
    return True


@pytest.fixture(scope="session")
def spark(medallion_spark):
    return medallion_spark()


@pytest.fixture(scope="module", autouse=True)
def logs_let_go():
    """Lets go of what Delta remembers of a module's tables: kept for an hour, they fill the heap."""
    yield
    spark = SparkSession.getActiveSession()
    if spark is not None:
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDALLION_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("MEDALLION_LANDING", str(tmp_path / "landing"))
    return Lake(Settings().resolved())


@pytest.fixture(scope="module")
def s3():
    """The address of a bucket on a server that speaks S3's protocol."""
    server = pytest.importorskip("moto.server", reason="moto[s3] and flask are not installed")
    boto3 = pytest.importorskip("boto3", reason="moto[s3] is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    settings = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ALLOW_HTTP": "true",
                "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test"}  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        bucket = f"bucket-{uuid.uuid4().hex[:12]}"
        boto3.client("s3", endpoint_url=settings["AWS_ENDPOINT_URL"]).create_bucket(Bucket=bucket)
        yield f"s3://{bucket}"
    running.stop()


@pytest.fixture
def lakehouse_here(lake, tmp_path, medallion_spark):
    """The plugin's lakehouse on this test's lake, for what dies."""
    return Lakehouse(tmp_path, medallion_spark)


@pytest.fixture
def no_spark():
    def refuse():
        raise AssertionError("Spark was asked for where the log could have answered")

    return refuse


@pytest.fixture
def run(refreshed, lake):
    """Run a pipeline or a table and gives its refreshes by key, every book balanced, no query warned of."""

    def run_names(*names):
        done = {}
        for table in chosen(PIPELINES, names):
            (done[table.key],) = refreshed(table)
            assert query_warnings(table, lake) == []
        return done

    return run_names


@pytest.fixture
def refreshed(lake, spark):
    """Refreshes tables in order and gives what each did, every book balanced once all are done."""

    def run_all(*tables):
        done = [refresh(table, lake, lambda: spark) for table in tables]
        for table in tables:
            books = balance(table, lake)
            assert books.holds, f"{table.key}: {books}"
            values = values_conserved(table, lake) if table.source else None
            assert values is None or values.passed, f"{table.key}: {values}"
        return done

    return run_all


@pytest.fixture
def do(lake, spark):
    """Does a verb, ``do("plan", table)``."""
    return lambda verb, table, **asked: VERBS[verb](table, lake, lambda: spark, VerbRequest(**asked))


@pytest.fixture
def look(lake, no_spark):
    """Does a verb that must answer from logs alone."""
    return lambda verb, table, **asked: VERBS[verb](table, lake, no_spark, VerbRequest(**asked))


@pytest.fixture
def drop(lake):
    """Put a text or a file into a landing zone, ``drop("school/students", "a.json", text)``."""

    def drop_file(zone, name, content):
        target = lake.settings.landing / zone / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, target)
        else:
            target.write_bytes(content if isinstance(content, bytes) else content.encode())
        return target

    return drop_file


@pytest.fixture
def rows_of(lake):
    """Read a table of the lake, ``rows_of("school/silver/students", sql)``, without Spark."""

    def read(key, sql="SELECT * FROM t"):
        return log.rows(lake.root / key, sql)

    return read


@pytest.fixture
def shared():
    """Return the folder of real files, or skips."""

    def folder(name):
        found = SHARED / name
        if not found.is_dir():
            pytest.skip(f"the real files are not there: {found} (set MEDALLION_SHARED_DATA)")
        return found

    return folder
