"""Tables registered in a Hive metastore by setting, for whoever asks there."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest
from pydantic import ValidationError

from medallion_assets.session.catalog import metastore_options
from medallion_assets.session.java import java_command
from medallion_assets.settings import Settings

LOADS_AND_ASKS = """
import json, sys
from medallion_assets import autoload_to_table
from medallion_assets.session import start_session
from medallion_assets.settings import current_settings
for name in ("shop.bronze.orders", "more"):
    autoload_to_table(sys.argv[1], "json", name, f"{sys.argv[2]}-{name}")
spark = start_session(current_settings())
found = {}
for name in ("shop_bronze.orders", "default_bronze.more", "shop.bronze.orders"):
    said = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect()}
    found[name] = [spark.table(name).count(), said["Type"], said["Location"]]
print(json.dumps(found))
"""
SITE = """<configuration>
<property><name>javax.jdo.option.ConnectionURL</name>
<value>jdbc:derby:;databaseName={folder}/meta;create=true</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>hive.metastore.schema.verification</name><value>false</value></property>
<property><name>hive.metastore.warehouse.dir</name><value>{folder}/warehouse</value></property>
<property><name>hive.async.log.enabled</name><value>false</value></property>
</configuration>"""
LOGS = "rootLogger.level = off\n"


def test_only_a_hive_metastore_is_a_catalog():
    with pytest.raises(ValidationError, match="Unity Catalog, were not tried"):
        Settings(catalog="unity://host:8080")
    assert metastore_options(Settings().catalog) == {}
    assert metastore_options("thrift://host:9083")["spark.sql.catalogImplementation"] == "hive"


@pytest.fixture
def metastore(tmp_path):
    """The address of a metastore: Hive's own, which comes with Spark, on Derby."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "hive-site.xml").write_text(SITE.format(folder=tmp_path))
    (tmp_path / "hive-log4j2.properties").write_text(LOGS)
    jars = Path(pyspark.__file__).parent / "jars"
    asked = [java_command(), "-cp", f"{tmp_path}:{jars}/*", "org.apache.hadoop.hive.metastore.HiveMetaStore"]
    with (tmp_path / "metastore.log").open("wb") as said:
        running = subprocess.Popen([*asked, "-p", str(port)], stdout=said, stderr=said, cwd=tmp_path)
    for _ in range(300):
        with socket.socket() as asks:
            if running.poll() is not None or asks.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.3)
    if running.poll() is not None:
        pytest.skip("Hive's metastore does not start here")
    yield f"thrift://127.0.0.1:{port}"
    running.terminate()
    running.wait(30)


@pytest.mark.spark
@pytest.mark.thorough
def test_tables_are_registered_as_external_ones_in_a_real_metastore(metastore, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n{"id": 2}\n')

    def asked(lake):
        settings = {"MEDALLION_LAKE": str(tmp_path / lake), "MEDALLION_CATALOG": metastore}
        command = [sys.executable, "-c", LOADS_AND_ASKS, str(tmp_path / "in"), str(tmp_path / f"of-{lake}")]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1]), done.stderr

    found, said = asked("lake")
    place = f"file:{tmp_path}/lake"
    assert found["shop_bronze.orders"] == [2, "EXTERNAL", f"{place}/shop/bronze/orders"]
    assert found["default_bronze.more"] == [2, "EXTERNAL", f"{place}/default/bronze/more"]
    assert found["shop.bronze.orders"][0] == 2
    assert "is registered at" not in said
    other, said = asked("other")
    assert other["shop_bronze.orders"][2] == f"{place}/shop/bronze/orders"
    assert "shop_bronze.orders is registered at" in said
