"""What a session is started with, each option with its reason."""

import os
from pathlib import Path

SAFE = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Others read INT96, Spark's own choice, as nanoseconds, which overflow: the year 1 becomes 1754.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Dying while writing offsets/0 would else block the stream until a person deletes the checkpoint.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    # Corrections reach a table downstream as changes; a table that only appends pays nothing for it.
    "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
    # State beside the heap: open windows and old keys do not end a run for want of memory.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.ui.showConsoleProgress": "false",
    # The Spark UI has no login.
    "spark.ui.enabled": "false",
}
"""Holds on any master: without these a run loses data, sticks, or opens a port."""

TUNED = {
    # 200 shuffle partitions cost a table of 1,000 rows seconds; so do Delta's 50 snapshot partitions.
    "spark.sql.shuffle.partitions": "2",
    # VACUUM lists a table's folders in this many tasks: by default 10,000, and a minute for nothing.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Planning again after each shuffle of two partitions: a warm chain's three tables took 5.5 s, not 4.3.
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.autoBroadcastJoinThreshold": "64m",
}
"""For one machine only; a named master is left as its owner set it."""

ONE_MACHINE_JVM = [
    "-XX:+UseParallelGC",
    # As a URI: a folder's name may hold a space. Without it Spark greets each run with lines of its own.
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').resolve().as_uri()}",
    # A heap that starts small is collected several times before the first batch; so is a small metaspace.
    "-Xms1g", "-Xmn600m", "-XX:MetaspaceSize=256m", "-XX:-UsePerfData",
    # One compiler alone reserves 48 MB for its code; ten tables filled them, and the rest ran uncompiled.
    "-XX:ReservedCodeCacheSize=256m",
]  # fmt: skip
"""A cold chain took 14 s with these and ``SHORT_RUN_JVM``, 33 s stock."""

SHORT_RUN_JVM = ["-XX:TieredStopAtLevel=1"]
"""Short runs never earn back the second compiler. A session that stays does: its rounds took 22 s, not 29."""


def session_options(
    one_machine: bool, jars: list[Path], jvm: list[str], mine: dict[str, str]
) -> dict[str, str]:
    """Return the options of a session; ``mine`` wins over all of ours."""
    if one_machine:
        class_path = {"spark.driver.extraClassPath": ":".join(map(str, jars))}
        # Hadoop asks the machine for no umask: all it makes would be for everyone to read.
        modes = {"spark.hadoop.fs.permissions.umask-mode": f"{_umask():03o}"}
        ours = SAFE | TUNED | class_path | modes | {"spark.driver.extraJavaOptions": " ".join(jvm)}
    else:
        ours = SAFE | {"spark.jars": ",".join(map(str, jars))}
    return ours | mine


def _umask() -> int:
    # It can only be read by setting it; what another thread makes in between is its owner's alone.
    found = os.umask(0o077)
    os.umask(found)
    return found
