"""Start the process's Spark session, or return the running one; each option with its reason."""

import hashlib
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from medallion_assets.session.catalog import metastore_options, name_tables
from medallion_assets.session.cluster import fit_to_cores, join_cluster, unreachable
from medallion_assets.session.java import (
    delta_jars,
    java_command,
    put_if_absent_jar,
    s3_jars,
    spark_jars_folder,
)
from medallion_assets.session.object_store import s3_options
from medallion_assets.settings import Settings
from medallion_assets.storage import ObjectPath

UTC_JVM = "-Duser.timezone=UTC"
"""Spark reads the times of ORC files in the zone of its Java, whatever the session's: by the machine's."""

OF_JAVA = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")

SAFE = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": UTC_JVM,
    "spark.executor.extraJavaOptions": UTC_JVM,
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

DRIVER = {
    # By default 100 generated classes are kept: a chain of three tables has 300, compiled again each round.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.driver.memory": "2g",
    # What Spark's own UI would show: without it, plans and tasks of the last thousand queries fill the heap.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    # Each job broadcasts its task: by default into chunks of 4 MB.
    "spark.broadcast.blockSize": "256k",
}
"""Options for this process, wherever the executors are."""

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
    # By default 32 MB with this heap, as an array for each task that sorts, joins or groups a few rows.
    "spark.buffer.pageSize": "1m",
    "spark.sql.autoBroadcastJoinThreshold": "64m",
}
"""Options for one machine only; a cluster's numbers of partitions follow its cores (``cluster.BY_CORES``)."""

OF_FEW_ROWS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For the tables of tests: evaluating a few rows costs less than compiling code for them."""

ONE_MACHINE_JVM = [
    "-XX:+UseParallelGC",
    # As a URI: a folder's name may hold a space. Without it Spark greets each run with lines of its own.
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').resolve().as_uri()}",
    # A heap that starts small is collected several times before the first batch; so is a small metaspace.
    "-Xms1g", "-Xmn600m", "-XX:MetaspaceSize=256m", "-XX:-UsePerfData",
    # One compiler alone reserves 48 MB for its code; ten tables filled them, and the rest ran uncompiled. A
    # suite of tests filled the half of 256 MB that each of two compilers has, after which both began again.
    "-XX:ReservedCodeCacheSize=512m",
]  # fmt: skip
"""A cold chain took 14 s with these and ``SHORT_RUN_JVM``, 33 s stock."""

SHORT_RUN_JVM = ["-XX:TieredStopAtLevel=1"]
"""Short runs never earn back the second compiler. A session that stays does: its rounds took 22 s, not 29."""

STAYING_JVM = [
    "-XX:Tier4InvocationThreshold=50000", "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000", "-XX:Tier4BackEdgeThreshold=400000",
]  # fmt: skip
"""Ten times what Java asks before it compiles again: planning runs most code a few thousand times, and the
second compiler took half of the first eight rounds' processor time, 75 of 150 s."""


def session_options(
    one_machine: bool, jars: list[Path], jvm: list[str], user_options: dict[str, str]
) -> dict[str, str]:
    """Return the options of a session; ``user_options`` wins over ours, but for Java's time zone."""
    # Hadoop asks the machine for no umask: all it makes would be for everyone to read.
    modes = {"spark.hadoop.fs.permissions.umask-mode": f"{_umask():03o}"}
    class_path = {"spark.driver.extraClassPath": ":".join(map(str, jars))}
    java = {"spark.driver.extraJavaOptions": " ".join([UTC_JVM, *jvm])}
    # Executors fetch the jars from this process.
    where = TUNED if one_machine else {"spark.jars": ",".join(map(str, jars))}
    ours = SAFE | DRIVER | where | class_path | modes | java
    theirs = {
        name: f"{UTC_JVM} {value}" if name in OF_JAVA else value for name, value in user_options.items()
    }
    return ours | theirs


def _umask() -> int:
    # It can only be read by setting it; what another thread makes in between is its owner's alone.
    found = os.umask(0o077)
    os.umask(found)
    return found


WHOLE_BYTES = 150 << 20
"""A whole chain's classes take 200 MB, a bare session's 95: an archive below this lacks most of Delta."""

ATTEMPTS = 3
"""Writing one takes seconds at exit; a machine whose runs stay small is not to pay them for ever."""

QUIET = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def archive_flags(cache: Path, java: str, class_path: Iterable[Path]) -> list[str]:
    """Return the JVM flags that make the archive on first use and map it in afterwards.

    An archive fits one Java and one class path only, so its name holds both; one that does not
    fit is ignored by the JVM. It takes a session's start from about 10 s to 3.5 s. What the first
    session did not load, its archive lacks: one made by a session that did little is recomputed.
    """
    name = f"classes-{_fingerprint(java, class_path)}"
    made = [cache / f"{name}-{attempt}.jsa" for attempt in range(ATTEMPTS)]
    made = [archive for archive in made if archive.exists()]
    if made and (made[-1].stat().st_size >= WHOLE_BYTES or len(made) == ATTEMPTS):
        # `auto` falls back to plain loading where the file is damaged.
        return [f"-XX:SharedArchiveFile={made[-1]}", "-Xshare:auto", *QUIET]
    cache.mkdir(parents=True, exist_ok=True)
    return [f"-XX:ArchiveClassesAtExit={cache / f'{name}-{len(made)}.jsa'}", *QUIET]


def _fingerprint(java: str, class_path: Iterable[Path]) -> str:
    parts = [str(Path(java).resolve()), *(f"{p}:{p.stat().st_mtime_ns}" for p in class_path)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


REPEATING_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""pyspark prints each error that it also raises, with 4 KB of Java stack, up to forty times a batch."""

_OURS: list[tuple[Settings, SparkSession]] = []
"""The session that was started last, and its options."""


def spark_options(settings: Settings, stays: bool = False) -> dict[str, str]:
    """Return every option a session is started with, fetching Delta's jars on first use.

    Args:
        settings: The deployment's.
        stays: The session is kept for many runs, as a stream's is, rather than for one.

    Raises:
        JavaMissing: No Java of a usable version.
        JarsMissing: Delta's jars could not be fetched.
        NotCompiled: The lake is in S3, and the classes for it could not be compiled.
    """
    java = java_command()
    jars, options = delta_jars(settings.cache, java), settings.spark_conf
    if isinstance(settings.lake, ObjectPath):
        # Landing zones in an object store are read by the storage port alone.
        jars, options = [*jars, *s3_jars(settings.cache, java)], s3_options(os.environ) | options
        jars.append(put_if_absent_jar(settings.cache, java, jars))
    options = metastore_options(settings.catalog) | options
    compilers = STAYING_JVM if stays else SHORT_RUN_JVM
    jvm = ONE_MACHINE_JVM + compilers + archive_flags(settings.cache, java, [*jars, spark_jars_folder()])
    if "spark.driver.memory" in options:
        # A heap that starts larger than it may become ends Java.
        jvm = [flag for flag in jvm if not flag.startswith(("-Xms", "-Xmn"))]
    return session_options(settings.is_one_machine, jars, jvm, options)


def start_session(settings: Settings, stays: bool = False) -> SparkSession:
    """Return the process's Spark session with Delta, tuned for one machine or for the cluster's cores.

    Raises:
        ExecutorsUnfit: The master is a cluster, and its executors lack a package or do not see the lake.
    """
    ours = [spark for asked, spark in _OURS if asked == settings and _is_up(spark)]
    # A run asks for each of its tables: Java's version and each option again took 0.2 s a time.
    spark = ours[0] if ours else _started(settings, stays)
    if not settings.is_one_machine:
        # Executors come and go.
        fit_to_cores(spark, settings)
    name_tables(spark, settings.lake)
    return spark


def _is_up(spark: SparkSession) -> bool:
    java: Any = spark.sparkContext._jsc
    if java is None:
        return False
    if java.sc().isStopped():
        # Its cluster gave it up; a session that stays goes on with another.
        spark.stop()
        return False
    return True


def _started(settings: Settings, stays: bool) -> SparkSession:
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.appName("medallion").master(settings.spark_master)
    for name, value in spark_options(settings, stays).items():
        builder = builder.config(name, value)
    if settings.is_one_machine:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # A query's Python functions would else run in whichever python3 is first on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    elif "spark.pyspark.python" in settings.spark_conf:
        # Only spark-submit reads it.
        os.environ["PYSPARK_PYTHON"] = settings.spark_conf["spark.pyspark.python"]
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        if settings.is_one_machine:
            raise
        raise unreachable(settings.spark_master, error) from error
    # A failed stream is raised to its caller in words; Spark's log would add hundreds of lines of stack.
    spark.sparkContext.setLogLevel("FATAL")
    for name in REPEATING_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    if not settings.is_one_machine:
        join_cluster(spark, settings)
    _OURS[:] = [(settings, spark)]
    return spark
