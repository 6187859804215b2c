"""A bronze micro-batch: the ledger's files through the table's query and rules into the table."""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.commit import Transaction, with_metadata
from medallion_assets.delta.names import quoted
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.judge import counters, judged
from medallion_assets.quarantine.poison import without_poison
from medallion_assets.runtime.query_checks import refuse_unsound_query
from medallion_assets.runtime.write import Context, Prepared, commit, prepare_rows, refuse_changed_columns
from medallion_assets.session.frames import is_local
from medallion_assets.sources.load import explain_type_conflicts, files_of, load_files
from medallion_assets.sources.load_records import Loaded
from medallion_assets.sources.load_target import PROVENANCE
from medallion_assets.sources.quarantine import OF_REFUSED

STAMPED = (*PROVENANCE, "_ingested_at", "_batch_id")


def write_files(
    ledger_rows: DataFrame, table: Table, lake: Lake, versions: VersionRange, transaction: Transaction
) -> Batch:
    """Load the files that the ledger's commits of a batch name; return the batch's numbers."""
    started, spark = time.monotonic(), ledger_rows.sparkSession
    done: list[Batch] = []
    kept: frozenset[str] = frozenset()

    def write(rows: DataFrame | None, loaded: Loaded, replace_where: str) -> Mapping[str, int]:
        nonlocal kept
        prepared = _prepared(rows, table, lake, transaction, replace_where)
        shaped = shaped_records(rows, table, transaction) if rows is not None else None
        kept = unchanged_columns(rows, shaped) if rows is not None and shaped is not None else kept
        batch = _batch(loaded, prepared.counts, table, versions.upto, time.monotonic() - started)
        batch = replace(batch, kept=sorted(kept), run_id=transaction.run_id)
        signed = with_metadata(transaction, loaded.facts)
        with explain_type_conflicts(shaped, place) if shaped is not None else nullcontext():
            done.append(commit(prepared, batch, Context(table, lake, spark), signed))
        return prepared.counts

    place = load_target_of(table, lake)
    files = files_of(ledger_rows, place, versions.after, versions.upto)
    load_files(spark, files, place, transaction, write, lambda: kept)
    return done[-1]


def _prepared(
    rows: DataFrame | None, table: Table, lake: Lake, transaction: Transaction, replace_where: str
) -> Prepared:
    """Judge a batch's records; records that the query fails on go to quarantine, the others are written."""
    if rows is None:
        return Prepared({}, "no file to read", lambda lake, transaction: None)
    refuse_unsound_query(rows.drop(*STAMPED[2:]), table, lake)
    try:
        shaped = shaped_records(rows, table, transaction)
        # An inferred schema may lack an older column; if the files have it, the query dropped it.
        learns = table.source is not None and table.source.learns
        unknown = {name for name, _ in log.schema(lake.path(table))} - {*rows.columns} if learns else ()
        refuse_changed_columns(shaped, table, lake, unknown)
        return prepare_rows(shaped, table, None, is_local(rows), replace_where)
    except Exception as error:
        query = partial(shaped_records, table=table, transaction=transaction)
        isolated = without_poison(rows, query, error, table, lake, transaction)
        if isolated is None:
            raise
    rest = prepare_rows(shaped_records(isolated.rest, table, transaction), table, None, False, replace_where)
    counts = {**rest.counts, "quarantine": rest.counts["quarantine"] + isolated.held}
    return rest._replace(counts=counts)


def judged_records(records: DataFrame, table: Table) -> dict[str, int]:
    """Return how many of these records, in the columns of ``reading``, break each rule of the table."""
    rows = shaped_records(records.drop(*OF_REFUSED), table, Transaction("", -1, {"run_id": ""}))
    found = judged(rows, table, None).agg(*counters(table)).first()
    counts = found.asDict() if found else {}
    return {e.name: int(counts[f"rule:{e.name}"] or 0) for e in table.expectations}


def shaped_records(records: DataFrame, table: Table, transaction: Transaction) -> DataFrame:
    """Return the table's query applied to records, with the provenance columns at the end."""
    return with_provenance(table(records.drop(*STAMPED[2:])), transaction)


def unchanged_columns(records: DataFrame, shaped: DataFrame) -> frozenset[str]:
    """Return the columns of the records that a query returns unchanged, under the same name."""
    before, after = (_attributes(frame) for frame in (records, shaped))
    return frozenset(name for name, attribute in after.items() if before.get(name) == attribute)


def _attributes(frame: DataFrame) -> dict[str, int]:
    """Return Spark's id of each column: an expression over a column has another id than the column."""
    output = frame._jdf.queryExecution().analyzed().output()
    columns = [output.apply(i) for i in range(output.size())]
    return {column.name(): column.exprId().id() for column in columns}


def with_provenance(rows: DataFrame, transaction: Transaction) -> DataFrame:
    """Return the query's rows with where each came from, when and in which batch at their end."""
    kept = [quoted(c) for c in rows.columns if c not in STAMPED]
    return rows.select(
        *kept,
        *PROVENANCE,
        F.lit(datetime.now(timezone.utc)).alias("_ingested_at"),
        F.lit(transaction.version).cast("bigint").alias("_batch_id"),
    )


def _batch(loaded: Loaded, judged: Mapping[str, int], table: Table, position: int, seconds: float) -> Batch:
    counts = {"good": 0, "quarantine": 0, "drop": 0, "duplicate": 0, **judged}
    mode = table.source.malformed if table.source else ""
    refused = counts["quarantine"] + (loaded.malformed if mode == "QUARANTINE" else 0)
    dropped = counts["drop"] + (loaded.malformed if mode == "DROPMALFORMED" else 0)
    return Batch(
        position=position,
        read=counts["good"] + refused + dropped + counts["duplicate"],
        written=counts["good"],
        quarantined=refused,
        dropped=dropped,
        rules={e.name: counts.get(f"rule:{e.name}", 0) for e in table.expectations},
        files=loaded.files,
        rescued=loaded.rescued,
        missing=loaded.missing,
        drift=loaded.growth.drift() if loaded.growth else {},
        replaced=loaded.replaced,
        untaken=loaded.untaken,
        columns=list(loaded.columns),
        strategy="files replaced their old rows" if loaded.replaced else "appended",
        seconds=seconds,
    )
