"""How rows were counted before they are made anew: by judging them again, or by where they stand."""

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from medallion_assets.delta import log
from medallion_assets.delta.keys import of_keys
from medallion_assets.ingestion.quarantine import TRIED
from medallion_assets.tables.declaration.expectations import expect
from medallion_assets.tables.declaration.table import Table
from medallion_assets.tables.judgement.judge import counted, judged
from medallion_assets.tables.quarantine.entries import leaving
from medallion_assets.tables.quarantine.quarantined import JUDGED
from medallion_assets.tables.standing.lake import Lake
from medallion_assets.tables.standing.pins import HELD_AT, at_version


def as_judged(before: DataFrame, table: Table) -> dict[str, int]:
    """Gives how the rows were counted: one that waits in quarantine was no row, whatever rules say now."""
    if TRIED in before.columns:
        waits = expect("waits", f"NOT coalesce({TRIED}, false)")
        then = replace(table, expectations=(*table.expectations, waits))
        return counted(judged(before, then, None), table)
    return counted(judged(before, table, None), table)


def as_found(
    before: DataFrame, table: Table, lake: Lake, keys: DataFrame | None, pins: Mapping[str, int]
) -> dict[str, int]:
    """Gives how the rows were counted where each met the version of a static input its own batch met.

    Judged again by one version, a row could be good that is held, and its later ones duplicates: so rows
    and entries are counted where they stand, and what is neither, nor let go, was a duplicate.
    """
    counts, own = as_judged(before, table), pins.get(table.key)
    if not _met_several_versions(table) or own is None:
        return counts
    spark = before.sparkSession
    rows = at_version(spark, lake.path(table), own)
    if keys is not None:
        rows = of_keys(rows, keys)
    good, held = rows.count(), _held(before, table, lake, keys, pins)
    moved = counts["good"] - good + counts["quarantine"] - held
    return counts | {"good": good, "quarantine": held, "duplicate": counts["duplicate"] + moved}


def _held(
    before: DataFrame, table: Table, lake: Lake, keys: DataFrame | None, pins: Mapping[str, int]
) -> int:
    version, path = pins.get(HELD_AT), lake.quarantine(table)
    if version is None or not log.exists(path):
        return 0
    return leaving(at_version(before.sparkSession, path, version).where(JUDGED), keys).count()


def _met_several_versions(table: Table) -> bool:
    return any(read.unmatched in ("keep", "quarantine") and not read.follow for _, read in table.reads)
