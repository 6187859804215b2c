"""Late and changed rows of a static input: what they bring through, and what they change, exactly once."""

import json
import time
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Read, Table
from medallion_assets.delta import changes, log
from medallion_assets.delta.batches import Batch, write_json
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import stands_for
from medallion_assets.lake.static_versions import followed_statics, last_static_versions
from medallion_assets.quarantine.quarantined import JUDGED
from medallion_assets.runtime.correct import RecomputeScope, recomputed
from medallion_assets.runtime.flow import batch_of
from medallion_assets.sources.quarantine import JOIN, OPEN


def begin_to_follow(table: Table, lake: Lake) -> None:
    """Notes which versions the first rows will meet at least, before they do."""
    known = followed_statics(table, lake)
    new = {name: log.version(lake.path(up)) for name, up in _followed(table) if name not in known}
    if new:
        write_json(lake.state(table, "followed.json"), known | {n: v or 0 for n, v in new.items()})


class Moved(NamedTuple):
    """A static input, and the versions of it that were not taken yet."""

    name: str
    read: Read
    versions: VersionRange


def moved_statics(table: Table, lake: Lake) -> Iterator[Moved]:
    """Return the static inputs with ``retry`` or ``follow`` that changed since they were taken; no JVM."""
    known, reads = followed_statics(table, lake), dict(table.reads)
    for name, upstream in _followed(table):
        now = log.version(lake.path(upstream))
        if name in known and now is not None and now > known[name]:
            yield Moved(name, reads[name], VersionRange(known[name], now))


def _followed(table: Table) -> Iterator[tuple[str, Table]]:
    for name, read in table.reads:
        if read.table and (read.follow or read.unmatched == "retry"):
            yield name, read.table


def take_statics(table: Table, lake: Lake, spark: SparkSession, note: dict[str, object]) -> Iterator[Batch]:
    """Make anew the rows that changed static rows reach; gives a batch for each input.

    A version counts as taken once the caller, who puts the batch on record, asks for the next.
    """
    for moved in list(moved_statics(table, lake)) if stands_for(table, lake) >= 0 else ():
        begun = moved._replace(versions=_begun(table, lake, moved))
        yield _taken(table, lake, spark, begun, note)
        taken = followed_statics(table, lake) | {begun.name: begun.versions.upto}
        write_json(lake.state(table, "followed.json"), taken)


def _taken(table: Table, lake: Lake, spark: SparkSession, moved: Moved, note: dict[str, object]) -> Batch:
    started, upto = time.monotonic(), stands_for(table, lake)
    old_static_versions = last_static_versions(table, lake) | followed_statics(table, lake)
    static_versions = old_static_versions | {moved.name: moved.versions.upto}
    transaction = Transaction(f"{table.key}/static/{moved.name}/{note['query']}", moved.versions.upto, note)
    keys = _reached(spark, table, lake, moved.read, moved.versions)
    counts = recomputed(
        spark,
        table,
        lake,
        RecomputeScope(keys, VersionRange(upto, upto), static_versions, old_static_versions),
        transaction,
    )
    words = f"recomputed for the rows that {moved.name} now knows otherwise"
    return batch_of(counts, table, transaction, static_versions, words, time.monotonic() - started)


def _begun(table: Table, lake: Lake, moved: Moved) -> VersionRange:
    """Return the versions to take: after a death those that were begun, though there are newer ones."""
    file = lake.state(table, "following.json")
    told = json.loads(file.read_text()) if file.exists() else {}
    if told.get(moved.name, -1) <= moved.versions.after:
        told[moved.name] = moved.versions.upto
        write_json(file, told)
    return VersionRange(moved.versions.after, int(told[moved.name]))


def _reached(spark: SparkSession, table: Table, lake: Lake, read: Read, versions: VersionRange) -> DataFrame:
    """Return the table's keys whose rows, waiting or written, are joined with a changed static row."""
    assert read.table is not None
    moved = changes.changed(spark, lake.path(read.table), versions).select(*read.on).distinct()
    found = _waiting(spark, table, lake, read, moved)
    if read.follow:
        stands = spark.read.format("delta").load(str(lake.path(table)))
        rejoined = stands.join(moved, list(read.on), "left_semi").select(*table.unique_by)
        found = rejoined if found is None else found.union(rejoined)
    if found is None:
        found = spark.read.format("delta").load(str(lake.path(table))).select(*table.unique_by).limit(0)
    # Not persisted: Spark reads a cached frame anew when its tables are written, and these will be.
    return found.distinct().localCheckpoint()


def _waiting(spark: SparkSession, table: Table, lake: Lake, read: Read, moved: DataFrame) -> DataFrame | None:
    path = lake.quarantine(table)
    if not log.exists(path):
        return None
    wanted = spark.read.format("delta").load(str(lake.path(table))).select(*table.unique_by)
    fields = [*wanted.schema.fields, *(f for f in moved.schema.fields if f.name not in wanted.columns)]
    shape = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in fields)
    # A rule may have refused a row for what the static row said: where the table follows, it is judged again.
    which = JUDGED if read.follow else f"reason_class = '{JOIN}'"
    held = spark.read.format("delta").load(str(path)).where(f"{which} AND status = '{OPEN}'")
    rows = held.select(F.from_json("row", shape).alias("r")).select("r.*")
    return rows.join(moved, list(read.on), "left_semi").select(*table.unique_by)
