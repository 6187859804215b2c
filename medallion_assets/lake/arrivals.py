"""Landing files: add them to the ledger, count them again, and clean them up."""

from collections.abc import Collection, Sequence
from datetime import datetime, timezone
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.pipeline import declared_beside
from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.position import position_of
from medallion_assets.lake.paths import Lake
from medallion_assets.sources import discover
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.cleaning import READERS, Reader, clean_source, register
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.kafka_landing import Waiting, land_new, waiting
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.looks import is_due, last_listed
from medallion_assets.sources.quarantine import REPLAYED
from medallion_assets.storage.lease import held


def take_arrivals(table: Table, lake: Lake, again: Collection[str] = ()) -> None:
    """Add a bronze table's new landing files to its ledger, or given files again."""
    if table.source and not is_filled(table, lake):
        folder, ledger = lake.landing(table.pipeline, table.source), lake.ledger(table)
        register(_reader(table, lake), lake.state(table, READERS))
        with held(ledger.parent / f".{ledger.name}-lease", f"the ledger of {table.source.name}"):
            if table.source.kafka and not again:
                land_new(folder, ledger, table.source, _kafka_options(lake))
            look = (
                DiscoveryOptions(0, again, True) if again else DiscoveryOptions(lake.settings.settle_seconds)
            )
            discover(folder, ledger, table.source, look)


def waiting_offsets(table: Table, lake: Lake) -> Waiting | None:
    """Return what waits in a bronze table's Kafka topic, None where nothing does or it reads files."""
    if not table.source or not table.source.kafka or is_filled(table, lake):
        return None
    folder, ledger = lake.landing(table.pipeline, table.source), lake.ledger(table)
    return waiting(folder, ledger, table.source, _kafka_options(lake))


def _kafka_options(lake: Lake) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in lake.settings.kafka_conf.items()}


def is_overdue(table: Table, lake: Lake) -> bool:
    """Return true where the last pass over the landing zone is longer ago than its ``backfill_interval``."""
    source = table.source
    return source is not None and bool(source.backfill) and is_due(lake.ledger(table), source)


def last_pass(table: Table, lake: Lake) -> float:
    """Return when discovery last went over the whole landing zone, in seconds since 1970; 0 for never."""
    return last_listed(lake.ledger(table)).at


def take_away(table: Table, lake: Lake) -> None:
    """Run ``clean_source``: move or delete the landing files that every reading table has committed.

    A declared table that never ran is a reader, too, of whichever pipeline it is.
    """
    if table.source and table.source.clean_source != "OFF":
        declared = [_reader(other, lake) for other in declared_beside(table) if other.source]
        clean_source(load_target_of(table, lake), lake.root, declared)


def _reader(table: Table, lake: Lake) -> Reader:
    place = load_target_of(table, lake)
    return Reader.of(place.source, place.landing, place.ledger)


def load_target_of(table: Table, lake: Lake) -> LoadTarget:
    """Return where a bronze table's records come from and go to."""
    assert table.source is not None
    landing = lake.landing(table.pipeline, table.source)
    tables = (lake.path(table), lake.quarantine(table), lake.ledger(table))
    return LoadTarget(table.key, table.source, landing, *tables, lake.state(table, "."))


def is_filled(table: Table, lake: Lake) -> bool:
    """Return true where a table that is filled once has been."""
    return table.once and 0 <= (log.version(lake.ledger(table)) or 0) <= position_of(
        lake.path(table), table.key
    )


def retell(spark: SparkSession, table: Table, lake: Lake, files: Sequence[str], run_id: str) -> None:
    """Append to the status table how many records of these files are rows now, and how many are held."""
    loaded = _counted(spark, lake.path(table), "_source_file", files)
    held = _counted(spark, lake.quarantine(table), "source_file", files, f"status <> '{REPLAYED}'")
    newest = ledgers.newest_of(lake.ledger(table), files)
    known = outcomes.of_entries(lake.ledger(table), newest.values())
    now = {"processed_time": datetime.now(timezone.utc), "run_id": run_id}
    rows = [
        known[s] | now | {"rows_loaded": loaded.get(f, 0), "rows_quarantined": held.get(f, 0)}
        for f, s in newest.items()
        if s in known
    ]
    outcomes.add(lake.ledger(table), rows)


def _counted(
    spark: SparkSession, path: Path, column: str, files: Sequence[str], condition: str = "true"
) -> dict[str, int]:
    if not log.exists(path):
        return {}
    rows = spark.read.format("delta").load(str(path)).where(condition)
    found = rows.where(F.col(column).isin(list(files))).groupBy(column).count()
    return {row[0]: row[1] for row in found.collect()}
