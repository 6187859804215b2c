"""A micro-batch of files: each record to the table or its quarantine, each file to the status table."""

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.commit import Stamp
from medallion_assets.delta.names import among
from medallion_assets.ingestion import outcomes
from medallion_assets.ingestion.evolution import Growth
from medallion_assets.ingestion.ledger import ADMITTED, Entry
from medallion_assets.ingestion.malformed import refuse_malformed, write_malformed
from medallion_assets.ingestion.met_again import not_loaded
from medallion_assets.ingestion.options import Source
from medallion_assets.ingestion.places import Place
from medallion_assets.ingestion.reading import records_of
from medallion_assets.ingestion.replacing import (
    clear_quarantine,
    come_again,
    replaces_files,
    rows_before,
    superseded,
)
from medallion_assets.ingestion.schemas import schema_for
from medallion_assets.ingestion.select_list import selected
from medallion_assets.ingestion.staging import Staging
from medallion_assets.ingestion.table_features import ready_for


@dataclass(frozen=True)
class Loaded:
    """What became of a batch, in records but for the files.

    Attributes:
        files: Files read.
        malformed: Records that could not be rows: quarantined, or dropped where the source says so.
        rescued: Rows written with rescued data.
        missing: Records of files that were gone or changed when they were to be read.
        counts: What the writer counted besides.
        growth: What the files asked of the schema.
        replaced: For files that came again changed: records before, records now.
    """

    files: int = 0
    malformed: int = 0
    rescued: int = 0
    missing: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    growth: Growth | None = None
    replaced: dict[str, list[int]] = field(default_factory=dict)


Writer = Callable[[DataFrame, str], Mapping[str, int]]
"""Takes good rows, and SQL true of rows they stand in for (empty for none)."""


def load_files(
    spark: SparkSession, files: Sequence[Entry], place: Place, stamp: Stamp, write: Writer
) -> Loaded:
    """Loads the files of a micro-batch and says what became of their records.

    A file whose records stand in the table already (its checkpoint was lost) is left out; one that is
    gone, or is not what discovery counted, is left out too and taken up again when it is found.

    Args:
        spark: The session.
        files: The files of the batch.
        place: Where they go.
        stamp: Who writes, and which batch.
        write: Writes good rows; gives counts of its own.

    Raises:
        BatchRefused: The source's mode stops at what the files bring; nothing was written.
    """
    started, source = datetime.now(timezone.utc), place.source
    parse = replace(stamp, app_id=f"{stamp.app_id}/parse")
    replaces = replaces_files(source, place.state)
    old = superseded(place.ledger, files) if replaces else set()
    mine = [file for file in files if (file.path, file.modified_at) not in old]
    there = [file for file in mine if _is_as_counted(file)]
    missing = [file for file in mine if file not in there]
    again = come_again(place.ledger, there) if replaces else []
    # What stands of a file that came again is no sign that it was loaded: it is replaced in any case.
    once = [file for file in there if file.path not in again]
    fresh = not_loaded(spark, once, stamp, place.path, place.quarantine) + [
        file for file in there if file.path in again
    ]
    before = rows_before(place.ledger, again)
    clear_quarantine(spark, again, place.quarantine, stamp, parse)
    staging = Staging(place.state / "staging", source)
    # Delta wants every row it writes to be one of those it may stand in for: new files' too.
    instead_of = among("_source_file", [file.path for file in fresh]) if again else ""
    loaded = _load(spark, fresh, place, staging, stamp, lambda rows: write(rows, instead_of))
    if loaded.malformed and loaded.growth is not None:
        write_malformed(_records(spark, fresh, source, loaded.growth, staging), fresh, place, parse)
    staging.discard()
    _record(place, fresh, missing, stamp, parse, started)
    now = {file.path: file.records for file in fresh}
    replaced = {path: [count, now[path]] for path, count in before.items()}
    return replace(loaded, missing=sum(file.records for file in missing), replaced=replaced)


def admitted(ledger_rows: DataFrame) -> list[Entry]:
    """Gives the files of a micro-batch of the ledger that are for loading, oldest first."""
    chosen = ledger_rows.where(F.col("status") == ADMITTED).orderBy("modified_at", "path").collect()
    return [Entry(**_utc(row.asDict())) for row in chosen]


def _utc(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v.astimezone() if isinstance(v, datetime) else v for k, v in row.items()}


def _load(
    spark: SparkSession,
    files: list[Entry],
    place: Place,
    staging: Staging,
    stamp: Stamp,
    write: Callable[[DataFrame], Mapping[str, int]],
) -> Loaded:
    if not files:
        return Loaded()
    source = place.source
    growth, records = records_with_schema(spark, files, place, staging, stamp)
    if source.malformed == "FAILFAST":
        refuse_malformed(records, source)
    seen = Observation(f"{place.key}-{time.monotonic_ns()}")
    ready_for(spark, place.path, growth, source)
    counts = write(_rows(records.observe(seen, *_facts(source)), source, stamp))
    facts = {name: int(count) for name, count in seen.get.items()}
    return Loaded(len(files), facts["malformed"], facts["rescued"], 0, counts, growth)


def records_with_schema(
    spark: SparkSession, files: list[Entry], place: Place, staging: Staging, stamp: Stamp
) -> tuple[Growth, DataFrame]:
    """Gives what the files ask of the schema, and their records read with it (columns of ``reading``)."""
    growth = schema_for(spark, place.source, files, staging, place.state / "schemas", stamp)
    return growth, _records(spark, files, place.source, growth, staging)


def _records(
    spark: SparkSession, files: list[Entry], source: Source, growth: Growth, staging: Staging
) -> DataFrame:
    records = records_of(spark, files, source, growth.schema, staging)
    return selected(records, source) if source.select else records


def _facts(source: Source) -> list[Column]:
    rescued = F.count(source.rescued) if source.rescued else F.count_if(F.lit(False))
    return [F.count_if(F.col("_reason").isNotNull()).alias("malformed"), rescued.alias("rescued")]


def _rows(records: DataFrame, source: Source, stamp: Stamp) -> DataFrame:
    """Gives the rows for the table, with where they came from at their end."""
    if source.malformed == "PERMISSIVE":
        kept = records.withColumnRenamed("_raw", source.corrupt_column).drop("_reason")
    else:
        kept = records.where("_reason IS NULL").drop("_raw", "_reason")
    return kept.withColumn("_ingested_at", F.current_timestamp()).withColumn(
        "_batch_id", F.lit(stamp.batch_id).cast("bigint")
    )


def _is_as_counted(file: Entry) -> bool:
    try:
        found = os.lstat(file.path)
    except OSError:
        return False
    return found.st_size == file.size and found.st_mtime_ns // 1000 / 1e6 == file.modified_at.timestamp()


def _record(
    place: Place, files: list[Entry], missing: list[Entry], stamp: Stamp, parse: Stamp, started: datetime
) -> None:
    number = stamp.batch_id
    good = outcomes.committed_rows(place.path, stamp.app_id, number, "_source_file", place.source.rescued)
    refused: Counter[str] = Counter()
    for app_id in (stamp.app_id, parse.app_id):
        refused += outcomes.committed_rows(place.quarantine, app_id, number, "source_file").rows
    found = outcomes.Found(good.rows, refused, good.rescued)
    drops = place.source.malformed == "DROPMALFORMED"
    outcomes.record(place.ledger, files, found, stamp, started, missing, drops)
