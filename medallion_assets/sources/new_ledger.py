"""A ledger that was lost with its checkpoint's folder and begun again: the table knows which files it has."""

from datetime import datetime

from pyspark.sql import SparkSession

from medallion_assets.delta import log
from medallion_assets.delta.batches import UPSTREAM, newest_flows
from medallion_assets.delta.position import position_of
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.load_target import PROVENANCE, LoadTarget


def has_new_ledger(place: LoadTarget) -> bool:
    """Return true where the table's newest batch was of another ledger than the one there is."""
    known = newest_flows(place.path).get("", {}).get(UPSTREAM)
    return bool(known) and log.table_id(place.ledger) not in ("", known)


def ledger_position(place: LoadTarget) -> int:
    """Return the ledger's version up to which files are committed; a ledger that is new begins at none."""
    return -1 if has_new_ledger(place) else position_of(place.path, place.key)


def not_loaded(spark: SparkSession, files: list[Entry], place: LoadTarget) -> list[Entry]:
    """Return the files of which neither table nor quarantine has a record: a new ledger lists all again."""
    known = spark.read.format("delta").load(str(place.path)).select(*PROVENANCE).distinct().collect()
    loaded = {(row[0], _milliseconds(row[1])) for row in known}
    there = {path for path, _ in loaded}
    held = {row["f"] for row in log.rows(place.quarantine, "SELECT DISTINCT source_file AS f FROM t")}
    # An entry says nothing of its file's time: it tells of files that gave the table no row.
    return [
        file
        for file in files
        if (file.path, _milliseconds(file.modified_at)) not in loaded
        and (file.path in there or file.path not in held)
    ]


def _milliseconds(time: datetime) -> int:
    # Spark tells a file's time no finer.
    return int(time.timestamp() * 1000)
