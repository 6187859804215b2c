"""A bronze micro-batch: the ledger's files through the table's query and rules into the table."""

import time
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import quoted
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.quality.judge import counters, judged
from medallion_assets.quarantine.poison import without_poison
from medallion_assets.runtime.columns import refuse_changed_columns
from medallion_assets.runtime.write import write_judged
from medallion_assets.sources.deduplicate_files import PROVENANCE
from medallion_assets.sources.load import admitted, load_files
from medallion_assets.sources.load_records import POISON, Loaded
from medallion_assets.sources.quarantine import OF_REFUSED

STAMPED = (*PROVENANCE, "_ingested_at", "_batch_id")


def write_files(ledger_rows: DataFrame, table: Table, lake: Lake, transaction: Transaction) -> Batch:
    """Loads the files a micro-batch of the ledger names; gives what became of their records."""
    started = time.monotonic()

    path, quarantine = lake.path(table), lake.quarantine(table)

    kept: frozenset[str] = frozenset()

    def write(rows: DataFrame, instead_of: str) -> dict[str, int]:
        nonlocal kept
        shaped = shaped_records(rows, table, transaction)
        # A schema that is learned may not know a column of before; where files have it, the query dropped it.
        learns = table.source is not None and table.source.learns
        unknown = {name for name, _ in log.schema(path)} - {*rows.columns} if learns else ()
        refuse_changed_columns(shaped, table, lake, unknown)
        kept = unchanged_columns(rows, shaped)
        return write_judged(shaped, table, path, quarantine, None, transaction, instead_of)

    def write_sound(rows: DataFrame, instead_of: str) -> dict[str, int]:
        try:
            return write(rows, instead_of)
        except Exception as error:
            query = partial(shaped_records, table=table, transaction=transaction)
            found = without_poison(rows, query, error, table, lake, transaction)
            if found is None:
                raise
        counts = write(found.rest, instead_of)
        return counts | {"quarantine": counts["quarantine"] + found.held, POISON: found.held}

    place = load_target_of(table, lake)
    files = admitted(ledger_rows, place.root)
    loaded = load_files(ledger_rows.sparkSession, files, place, transaction, write_sound, lambda: kept)
    return _batch(loaded, table, transaction, time.monotonic() - started)


def judged_records(records: DataFrame, table: Table) -> dict[str, int]:
    """Return how many of these records, in the columns of ``reading``, break each rule of the table."""
    rows = shaped_records(records.drop(*OF_REFUSED), table, Transaction("", -1, {"run_id": ""}))
    found = judged(rows, table, None).agg(*counters(table)).first()
    counts = found.asDict() if found else {}
    return {e.name: int(counts[f"rule:{e.name}"] or 0) for e in table.expectations}


def shaped_records(records: DataFrame, table: Table, transaction: Transaction) -> DataFrame:
    """Return what the table's query makes of records, with where each came from at its end."""
    return with_provenance(table(records.drop(*STAMPED[2:])), transaction)


def unchanged_columns(records: DataFrame, shaped: DataFrame) -> frozenset[str]:
    """Return the columns of the records that a query passes on under their names, with their very values."""
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
        F.current_timestamp().alias("_ingested_at"),
        F.lit(transaction.batch_id).cast("bigint").alias("_batch_id"),
    )


def _batch(loaded: Loaded, table: Table, transaction: Transaction, seconds: float) -> Batch:
    counts = {"good": 0, "quarantine": 0, "drop": 0, "duplicate": 0, **loaded.counts}
    mode = table.source.malformed if table.source else ""
    refused = counts["quarantine"] + (loaded.malformed if mode == "QUARANTINE" else 0)
    dropped = counts["drop"] + (loaded.malformed if mode == "DROPMALFORMED" else 0)
    return Batch(
        number=transaction.batch_id,
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
        strategy="files replaced their old rows" if loaded.replaced else "appended",
        seconds=seconds,
        run_id=transaction.run_id,
    )
