"""Files' records read once, counted, and written: malformed ones to the quarantine, rows by the writer.

What is looked at early is used only where the micro-batch turns out to ask for just that.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import quoted
from medallion_assets.session.frames import FEW_BYTES, FEW_ROWS, computed, is_local
from medallion_assets.sources.evolution import SchemaDiff
from medallion_assets.sources.formats.json_values import as_read
from medallion_assets.sources.formats.parsed_files import ParsedFiles
from medallion_assets.sources.formats.parsed_frames import parsed_by_spark
from medallion_assets.sources.formats.text_files import are_for_executors, parse_text_files
from medallion_assets.sources.ledger import Entry, admitted_between
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.malformed import refuse_malformed, write_malformed
from medallion_assets.sources.options import Source
from medallion_assets.sources.partitions import own_columns, with_refusals
from medallion_assets.sources.quarantine import OF_REFUSED
from medallion_assets.sources.reading import is_parsed, records_of
from medallion_assets.sources.schema_versions import fact_of, ready_for
from medallion_assets.sources.schemas import schema_beforehand, schema_for
from medallion_assets.sources.select_list import selected
from medallion_assets.sources.staging import Staging
from medallion_assets.storage import ObjectPath, is_object, remove_tree, scratch_of


def records_with_schema(
    spark: SparkSession, files: Sequence[Entry], place: LoadTarget, staging: Staging, transaction: Transaction
) -> tuple[SchemaDiff, DataFrame]:
    """Return the files' schema changes, and their records with the new schema (columns of ``reading``)."""
    growth = schema_for(spark, place.source, files, staging, place.state / "schemas", transaction)
    return growth, records_read(spark, files, place.source, growth, staging)


def records_read(
    spark: SparkSession, files: Sequence[Entry], source: Source, growth: SchemaDiff, staging: Staging
) -> DataFrame:
    """Return the files' records in the columns of ``reading``, through the source's select list."""
    records = records_of(spark, files, source, growth.schema, staging)
    return selected(records, source) if source.select else records


@contextmanager
def with_temporary_state(place: LoadTarget, shared: bool) -> Iterator[LoadTarget]:
    """Return the load target with a temporary copy of its state, so that a dry run changes nothing.

    Args:
        place: The load target.
        shared: Executors are to see the copy: it lies in the state's own folder.
    """
    with _temporary(place.state if shared else None) as folder:
        versions, copied = place.state / "schemas", folder / "schemas"
        copied.mkdir()
        for file in versions.glob("*.json") if versions.is_dir() else ():
            (copied / file.name).write_bytes(file.read_bytes())
        yield replace(place, state=folder)


@contextmanager
def _temporary(parent: Path | None) -> Iterator[Path]:
    """Return a folder, or a prefix of an object store, that is deleted with all below it at the end."""
    if isinstance(parent, ObjectPath):
        prefix = parent / f"temporary-{uuid4().hex}"
        try:
            yield prefix
        finally:
            remove_tree(prefix)
            shutil.rmtree(scratch_of(prefix), ignore_errors=True)
        return
    if parent:
        parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Path(folder)


ParseRequest = tuple[str, tuple[Entry, ...]]
"""What was parsed ahead: a schema as JSON, and the files."""

_BEGUN: dict[Path, tuple[ParseRequest, "Future[ParsedFiles]"]] = {}
"""Parse jobs under way, by the table's state folder; a table has one writer at a time."""


def look_ahead(place: LoadTarget, position: int) -> None:
    """Start to parse the files of the micro-batch after a position, where their schema is known already."""
    drop_ahead(place.state)
    if not is_parsed(place.source) or is_object(place.root):
        return
    files = admitted_between(place.ledger, place.root, position, position + 1)
    schema = schema_beforehand(place.source, files, place.state / "schemas") if files else None
    full = with_refusals([file for file in files if file.records], place.source, schema) if schema else []
    if schema is None or not full or are_for_executors(full):
        return
    own = own_columns(schema, (file.path for file in files), place.source)
    thread = ThreadPoolExecutor(1)
    future = thread.submit(parse_text_files, full, own, place.source, _folder(place.state))
    thread.shutdown(wait=False)
    _BEGUN[place.state] = (_asked(full, own), future)


def looked_ahead(state: Path, files: Sequence[Entry], schema: StructType) -> ParsedFiles | None:
    """Wait for and return the files parsed ahead; None where other files or another schema were parsed."""
    asked, future = _BEGUN.get(state, (None, None))
    return future.result() if future and asked == _asked(files, schema) else None


def drop_ahead(state: Path) -> None:
    """Delete the files parsed ahead; call it when nobody reads them."""
    _, future = _BEGUN.pop(state, (None, None))
    if future:
        future.exception()
    shutil.rmtree(_folder(state), ignore_errors=True)


def _folder(state: Path) -> Path:
    return scratch_of(state) / "ahead"


def _asked(files: Sequence[Entry], schema: StructType) -> ParseRequest:
    return schema.json(), tuple(files)


@dataclass(frozen=True)
class Loaded:
    """The result of a batch of files, in records except for ``files``.

    Attributes:
        files: Files read.
        malformed: Records that could not be rows: quarantined, or dropped where the source says so.
        rescued: Rows written with rescued data.
        missing: Records of files that were gone, changed or damaged when they were to be read.
        counts: Further counts of the writer.
        growth: The files' schema changes.
        replaced: For changed files that were loaded again: records before, records now.
        untaken: Files that were gone, changed or damaged, each with the reason.
        facts: Commit metadata for later batches (``delta.batches.FACTS``): schema; files replace old rows.
        columns: The columns the files were read with, without partition columns.
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

    The records are kept, since their counts go into the commit that holds them: small batches as values,
    others in Spark's cache, or as the files they were parsed into.

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
    is_small = sum(f.size for f in files) <= FEW_BYTES and sum(f.records for f in files) <= FEW_ROWS
    values = computed(records) if is_small else None
    if values is not None:
        records = values
    elif not _is_staged(source, growth.schema):
        records = records.persist()
    try:
        facts = _facts(records, source)
        loaded = replace(
            known,
            files=len(files),
            malformed=facts["malformed"],
            rescued=facts["rescued"],
            growth=growth,
            columns=tuple(own_columns(growth.schema, (file.path for file in files), source).names),
            facts={**known.facts, "schema": fact_of(place.state / "schemas")},
        )
        if loaded.malformed:
            write_malformed(records, place, transaction)
        ready_for(spark, place.path, growth, source)
        return replace(loaded, counts=write(_rows(records, source, transaction), loaded))
    finally:
        records.unpersist()


def _is_staged(source: Source, schema: StructType) -> bool:
    """Return true where records lie typed in files of ours: reading those again costs less than a cache.

    200 MB of JSON took 14 s of the JVM's time through the cache, and 8 without.
    """
    by_spark = bool(source.select) or bool(parsed_by_spark(as_read(schema, source)))
    return is_parsed(source) and not by_spark


def kept_records(records: DataFrame, source: Source) -> DataFrame:
    """Return the records that go on, without what ``reading`` says of the others."""
    if source.malformed == "PERMISSIVE":
        return records.withColumnRenamed("_raw", source.corrupt_column).drop(*OF_REFUSED[1:])
    return records.where("_reason IS NULL").drop(*OF_REFUSED)


def _facts(records: DataFrame, source: Source) -> dict[str, int]:
    """Return how many records could not be rows, and how many have rescued data."""
    facts = {"malformed": F.col("_reason").isNotNull(), "rescued": F.lit(False)}
    if source.rescued:
        facts["rescued"] = F.col(quoted(source.rescued)).isNotNull()
    if is_local(records):
        rows = records.select(*(value.alias(name) for name, value in facts.items())).collect()
        return {name: sum(row[name] for row in rows) for name in facts}
    counted = records.agg(*(F.count_if(value).alias(name) for name, value in facts.items()))
    return {name: int(n) for name, n in counted.collect()[0].asDict().items()}


def _rows(records: DataFrame, source: Source, transaction: Transaction) -> DataFrame:
    """Return the rows for the table, with where they came from at their end."""
    return (
        kept_records(records, source)
        .withColumn("_ingested_at", F.lit(datetime.now(timezone.utc)))
        .withColumn("_batch_id", F.lit(transaction.batch_id).cast("bigint"))
    )
