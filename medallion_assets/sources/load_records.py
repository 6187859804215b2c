"""Files' records through a writer in one pass, counted on the way; where one fails, those beside it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.commit import Transaction
from medallion_assets.sources.batch_records import records_with_schema
from medallion_assets.sources.evolution import SchemaDiff
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.malformed import refuse_malformed
from medallion_assets.sources.options import Source
from medallion_assets.sources.poison_files import is_of_a_file, unreadable
from medallion_assets.sources.quarantine import OF_REFUSED
from medallion_assets.sources.staging import Staging
from medallion_assets.sources.table_features import ready_for

POISON = "poison"
"""In a writer's counts: rows it put aside since the query failed on them."""


@dataclass(frozen=True)
class Loaded:
    """What became of a batch, in records but for the files.

    Attributes:
        files: Files read.
        malformed: Records that could not be rows: quarantined, or dropped where the source says so.
        rescued: Rows written with rescued data.
        missing: Records of files that were gone, changed or damaged when they were to be read.
        counts: What the writer counted besides.
        growth: What the files asked of the schema.
        replaced: For files that came again changed: records before, records now.
    """

    files: int = 0
    malformed: int = 0
    rescued: int = 0
    missing: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    growth: SchemaDiff | None = None
    replaced: dict[str, list[int]] = field(default_factory=dict)


def load_readable(
    load: Callable[[list[Entry]], Loaded],
    files: list[Entry],
    spark: SparkSession,
    place: LoadTarget,
    transaction: Transaction,
) -> tuple[Loaded, dict[str, str]]:
    """Loads the files; where one cannot be read, those beside it. Gives each such path, and why."""
    try:
        return load(files), {}
    except Exception as error:
        corrupt = unreadable(spark, files, place, transaction) if is_of_a_file(error) else {}
        if not corrupt:
            raise
    return load([file for file in files if file.path not in corrupt]), corrupt


def load_whole(
    spark: SparkSession,
    files: list[Entry],
    place: LoadTarget,
    staging: Staging,
    transaction: Transaction,
    write: Callable[[DataFrame], Mapping[str, int]],
) -> Loaded:
    """Loads files that can all be read.

    Args:
        spark: The session.
        files: What to read.
        place: Where records go.
        staging: Files cut and repaired for the reader.
        transaction: Who writes.
        write: Writes rows and gives its counts.
    """
    if not files:
        return Loaded()
    source = place.source
    growth, records = records_with_schema(spark, files, place, staging, transaction)
    if source.malformed == "FAILFAST":
        refuse_malformed(records, source)
    seen = Observation(f"{place.key}-{time.monotonic_ns()}")
    ready_for(spark, place.path, growth, source)
    counts = write(_rows(records.observe(seen, *_facts(source)), source, transaction))
    # A write that failed on some record has observed an unknown part of the others.
    told = seen.get if not counts.get(POISON) else records.agg(*_facts(source)).collect()[0].asDict()
    facts = {name: int(count) for name, count in told.items()}
    return Loaded(len(files), facts["malformed"], facts["rescued"], 0, counts, growth)


def kept_records(records: DataFrame, source: Source) -> DataFrame:
    """Return the records that go on, without what ``reading`` says of the others."""
    if source.malformed == "PERMISSIVE":
        return records.withColumnRenamed("_raw", source.corrupt_column).drop(*OF_REFUSED[1:])
    return records.where("_reason IS NULL").drop(*OF_REFUSED)


def _facts(source: Source) -> list[Column]:
    rescued = F.count(source.rescued) if source.rescued else F.count_if(F.lit(False))
    return [F.count_if(F.col("_reason").isNotNull()).alias("malformed"), rescued.alias("rescued")]


def _rows(records: DataFrame, source: Source, transaction: Transaction) -> DataFrame:
    """Return the rows for the table, with where they came from at their end."""
    return (
        kept_records(records, source)
        .withColumn("_ingested_at", F.current_timestamp())
        .withColumn("_batch_id", F.lit(transaction.batch_id).cast("bigint"))
    )
