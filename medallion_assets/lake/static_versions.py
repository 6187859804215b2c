"""Which version of every static input a micro-batch reads, and up to which version a followed one was taken.

Every commit of a table names them, so that nothing else has to be kept: a batch that dies before its commit
has done nothing, and is taken again with the versions there are by then.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.position import static_app_id
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import epoch, newest_batch

HELD_AT = "/quarantine"
"""Under this name: the version of the table's quarantine."""


def batch_versions(table: Table, lake: Lake, quarantine: int | None) -> dict[str, int]:
    """Return the Delta version of every static input (and of the table and its quarantine) a batch reads.

    Args:
        table: The table.
        lake: Where it is.
        quarantine: The quarantine's version before the batch, None where there is none.
    """
    own = log.version(lake.path(table))
    versions = current_static_versions(table, lake) | ({} if own is None else {table.key: own})
    return versions | ({} if quarantine is None else {HELD_AT: quarantine})


def current_static_versions(table: Table, lake: Lake) -> dict[str, int]:
    """Return the version of each static input that rows meet now: the newest, or the one followed so far.

    The rows of a table that follows a static input are as one version of it has them. New rows meet the
    same version, or a change of it could not be told from what is there.
    """
    found = {name: log.version(lake.path(t)) for name, t in table.statics.items()}
    return {name: v for name, v in found.items() if v is not None} | followed_statics(table, lake)


def followed_statics(table: Table, lake: Lake) -> dict[str, int]:
    """Return, for each static input with ``retry`` or ``follow``, the version up to which it was taken."""
    wanted = [n for n, read in table.reads if read.table and (read.follow or read.unmatched == "retry")]
    if not wanted or not log.exists(lake.path(table)):
        return {}
    last, number = newest_batch(table, lake), epoch(table, lake)
    told = dict(last.statics) if last else {}
    for name in wanted:
        app = static_app_id(table.key, number, name, table.flow)
        told[name] = max(told.get(name, -1), log.committed_version(lake.path(table), app))
    return {name: told[name] for name in wanted if told[name] >= 0}


def last_static_versions(table: Table, lake: Lake) -> dict[str, int]:
    """Return the versions of static inputs that the last micro-batch was made with."""
    last = newest_batch(table, lake)
    return dict(last.statics) if last else {}


def at_version(spark: SparkSession, path: Path, version: int) -> DataFrame:
    """Return a Delta table as it was at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(str(path))
