"""Starts the process's one Spark session, or gives the one that runs."""

import logging
import os
import sys

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from medallion_assets.session.archive import archive_flags
from medallion_assets.session.catalog import name_tables
from medallion_assets.session.jars import delta_jars, spark_jars_folder
from medallion_assets.session.java import java_command
from medallion_assets.session.options import ONE_MACHINE_JVM, SHORT_RUN_JVM, session_options
from medallion_assets.settings import Settings

REPEATING_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""pyspark prints each error that it also raises, with 4 KB of Java stack, up to forty times a batch."""

_OURS: list[tuple[Settings, SparkSession]] = []
"""The session that was started last, and what it was started with."""


def spark_options(settings: Settings, stays: bool = False) -> dict[str, str]:
    """Return every option a session is started with, fetching Delta's jars on first use.

    Args:
        settings: The deployment's.
        stays: The session is kept for many runs, as a stream's is, rather than for one.

    Raises:
        JavaMissing: No Java of a usable version.
        JarsMissing: Delta's jars could not be fetched.
    """
    java = java_command()
    jars = delta_jars(settings.cache, java)
    compilers = [] if stays else SHORT_RUN_JVM
    jvm = ONE_MACHINE_JVM + compilers + archive_flags(settings.cache, java, [*jars, spark_jars_folder()])
    return session_options(settings.is_one_machine, jars, jvm, settings.spark_conf)


def start_session(settings: Settings, stays: bool = False) -> SparkSession:
    """Return the process's Spark session with Delta, tuned for one machine where the master is local."""
    ours = [spark for asked, spark in _OURS if asked == settings and spark.sparkContext._jsc is not None]
    # A run asks for each of its tables: Java's version and each option again took 0.2 s a time.
    spark = ours[0] if ours else _started(settings, stays)
    name_tables(spark, settings.lake)
    return spark


def _started(settings: Settings, stays: bool) -> SparkSession:
    builder: SparkSession.Builder = SparkSession.builder
    builder = builder.appName("medallion").master(settings.spark_master)
    for name, value in spark_options(settings, stays).items():
        builder = builder.config(name, value)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if settings.is_one_machine:
        # A query's Python functions would else run in whichever python3 is first on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = builder.getOrCreate()
    # A failed stream is raised to its caller in words; Spark's log would add hundreds of lines of stack.
    spark.sparkContext.setLogLevel("FATAL")
    for name in REPEATING_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    _OURS[:] = [(settings, spark)]
    return spark
