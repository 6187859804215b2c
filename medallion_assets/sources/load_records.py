"""Files' records read once, counted, and written: malformed ones to the quarantine, rows by the writer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.commit import Transaction
from medallion_assets.sources.batch_records import records_with_schema
from medallion_assets.sources.evolution import SchemaDiff
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.malformed import refuse_malformed, write_malformed
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import OF_REFUSED
from medallion_assets.sources.reading import partition_keys
from medallion_assets.sources.schema_versions import fact_of
from medallion_assets.sources.staging import Staging
from medallion_assets.sources.table_features import ready_for


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
        untaken: Files that were gone, changed or damaged, each with the reason.
        facts: What later batches have to know (``delta.batches.FACTS``): the schema; files replace old rows.
        columns: Those the files were read with, without the folders'.
    """

    files: int = 0
    malformed: int = 0
    rescued: int = 0
    missing: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    growth: SchemaDiff | None = None
    replaced: dict[str, list[int]] = field(default_factory=dict)
    untaken: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def load_whole(
    spark: SparkSession,
    files: list[Entry],
    known: Loaded,
    place: LoadTarget,
    staging: Staging,
    transaction: Transaction,
    write: Callable[[DataFrame | None, Loaded], Mapping[str, int]],
) -> Loaded:
    """Load files that can all be read: malformed records to the quarantine, then rows through the writer.

    The records are read once and kept: their counts go into the commit that holds them.

    Args:
        spark: The session.
        files: What to read.
        known: What is known of the batch's other files.
        place: Where records go.
        staging: Files cut and repaired for the reader.
        transaction: What is committed.
        write: Commits the rows, and returns its counts.
    """
    if not files:
        return replace(known, counts=write(None, known))
    source = place.source
    growth, records = records_with_schema(spark, files, place, staging, transaction)
    if source.malformed == "FAILFAST":
        refuse_malformed(records, source)
    records = records.persist()
    try:
        facts = {name: int(n) for name, n in records.agg(*_facts(source)).collect()[0].asDict().items()}
        loaded = replace(
            known,
            files=len(files),
            malformed=facts["malformed"],
            rescued=facts["rescued"],
            growth=growth,
            columns=tuple(name for name in growth.schema.names if name not in partition_keys(files, source)),
            facts={**known.facts, "schema": fact_of(place.state / "schemas")},
        )
        if loaded.malformed:
            write_malformed(records, files, place, transaction)
        ready_for(spark, place.path, growth, source)
        return replace(loaded, counts=write(_rows(records, source, transaction), loaded))
    finally:
        records.unpersist()


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
