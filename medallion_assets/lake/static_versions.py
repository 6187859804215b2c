"""Which version of everything else a micro-batch was made with, fixed before its first write.

A batch replayed after a crash must judge its rows as it did the first time: with a newer patients
table, a row quarantined before the crash would be good after it, and stand in both tables.
"""

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.declare.table import Table
from medallion_assets.delta import batches, log
from medallion_assets.delta.batches import write_json
from medallion_assets.lake.paths import Lake

KEPT = 20
HELD_AT = "/quarantine"
"""Under this name: the version of the table's quarantine."""


def fixed_static_versions(table: Table, lake: Lake, query: str, batch_id: int) -> dict[str, int]:
    """Return each static input's version for this batch, and the table's own under its name's key."""
    file = lake.state(table, "static_versions") / f"{query}-{batch_id}.json"
    if file.exists():
        return {name: int(v) for name, v in json.loads(file.read_text()).items()}
    own = log.version(lake.path(table))
    held = log.version(lake.quarantine(table))
    static_versions = current_static_versions(table, lake) | ({} if own is None else {table.key: own})
    static_versions |= {} if held is None else {HELD_AT: held}
    write_json(file, static_versions)
    _forget(file.parent, query, batch_id - KEPT)
    return static_versions


def has_fixed_versions(table: Table, lake: Lake, query: str, batch_id: int) -> bool:
    """Return true where an attempt at this batch was made, so that something of it may be written."""
    return (lake.state(table, "static_versions") / f"{query}-{batch_id}.json").exists()


def current_static_versions(table: Table, lake: Lake) -> dict[str, int]:
    """Return the version of each static input that rows meet now: the newest, or that all rows have met.

    Rows of a table that follows a static input stand as one version of it has them. New rows meet the
    same one, or what a change of it moves could not be told from what stood.
    """
    found = {name: log.version(lake.path(t)) for name, t in table.statics.items()}
    return {name: v for name, v in found.items() if v is not None} | followed_statics(table, lake)


def followed_statics(table: Table, lake: Lake) -> dict[str, int]:
    """Return, for each static input with ``retry`` or ``follow``, the version up to which it was taken."""
    file = lake.state(table, "followed.json")
    told = json.loads(file.read_text()) if file.exists() else {}
    return {str(name): int(version) for name, version in told.items()}


def last_static_versions(table: Table, lake: Lake) -> dict[str, int]:
    """Return the versions of static inputs that the last micro-batch was made with."""
    last = batches.newest(lake.state(table, "batches"))
    return dict(last.statics) if last else {}


def at_version(spark: SparkSession, path: Path, version: int) -> DataFrame:
    """Return a Delta table as it was at a version."""
    return spark.read.format("delta").option("versionAsOf", version).load(str(path))


def _forget(folder: Path, query: str, batch_id: int) -> None:
    (folder / f"{query}-{batch_id}.json").unlink(missing_ok=True)
