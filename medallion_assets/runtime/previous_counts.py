"""How rows were counted before they are recomputed: by judging them again, or by where they stand."""

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from medallion_assets.declare.expectations import expect
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.keys import of_keys
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.static_versions import HELD_AT, at_version
from medallion_assets.quality.judge import counted, judged
from medallion_assets.quarantine.entries import leaving
from medallion_assets.quarantine.quarantined import JUDGED
from medallion_assets.sources.quarantine import TRIED


def as_judged(before: DataFrame, table: Table) -> dict[str, int]:
    """Return how the rows were counted: one that waits in quarantine was no row, whatever rules say now."""
    if TRIED in before.columns:
        waits = expect("waits", f"NOT coalesce({TRIED}, false)")
        then = replace(table, expectations=(*table.expectations, waits))
        return counted(judged(before, then, None), table)
    return counted(judged(before, table, None), table)


def as_found(
    before: DataFrame, table: Table, lake: Lake, keys: DataFrame | None, static_versions: Mapping[str, int]
) -> dict[str, int]:
    """Return how the rows were counted where each met the version of a static input its own batch met.

    Judged again by one version, a row could be good that is held, and its later ones duplicates: so rows
    and entries are counted where they stand, and what is neither, nor let go, was a duplicate.
    """
    counts, own = as_judged(before, table), static_versions.get(table.key)
    if not _met_several_versions(table) or own is None:
        return counts
    spark = before.sparkSession
    rows = at_version(spark, lake.path(table), own)
    if keys is not None:
        rows = of_keys(rows, keys)
    good, held = rows.count(), _held(before, table, lake, keys, static_versions)
    moved = counts["good"] - good + counts["quarantine"] - held
    return counts | {"good": good, "quarantine": held, "duplicate": counts["duplicate"] + moved}


def _held(
    before: DataFrame, table: Table, lake: Lake, keys: DataFrame | None, static_versions: Mapping[str, int]
) -> int:
    version, path = static_versions.get(HELD_AT), lake.quarantine(table)
    if version is None or not log.exists(path):
        return 0
    return leaving(at_version(before.sparkSession, path, version).where(JUDGED), keys).count()


def _met_several_versions(table: Table) -> bool:
    return any(read.unmatched in ("keep", "quarantine") and not read.follow for _, read in table.reads)
