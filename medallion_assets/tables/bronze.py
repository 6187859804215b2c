"""A bronze micro-batch: the ledger's files through the table's query and rules into the table."""

import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.batches import Batch
from medallion_assets.delta.commit import Stamp
from medallion_assets.delta.names import quoted
from medallion_assets.ingestion.load import Loaded, admitted, load_files
from medallion_assets.ingestion.met_again import PROVENANCE
from medallion_assets.ingestion.places import Place
from medallion_assets.tables.judge import counters, judged
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.table import Table
from medallion_assets.tables.write import write_judged

STAMPED = (*PROVENANCE, "_ingested_at", "_batch_id")


def write_files(ledger_rows: DataFrame, table: Table, lake: Lake, stamp: Stamp) -> Batch:
    """Loads the files a micro-batch of the ledger names; gives what became of their records."""
    started = time.monotonic()

    def write(rows: DataFrame, instead_of: str) -> dict[str, int]:
        shaped = with_provenance(table(rows.drop(*STAMPED[2:])), stamp)
        return write_judged(shaped, table, lake.path(table), lake.quarantine(table), None, stamp, instead_of)

    files = admitted(ledger_rows)
    loaded = load_files(ledger_rows.sparkSession, files, place_of(table, lake), stamp, write)
    return _batch(loaded, table, stamp, time.monotonic() - started)


def place_of(table: Table, lake: Lake) -> Place:
    """Gives where a bronze table's records go."""
    assert table.source is not None
    ledger = lake.ledger(table)
    return Place(
        table.key, table.source, lake.path(table), lake.quarantine(table), ledger, lake.state(table, ".")
    )


def judged_records(records: DataFrame, table: Table) -> dict[str, int]:
    """Gives how many of these records, in the columns of ``reading``, break each rule of the table."""
    stamp = Stamp("", -1, {"run_id": ""})
    rows = with_provenance(table(records.drop("_raw", "_reason")), stamp)
    found = judged(rows, table, None).agg(*counters(table)).first()
    counts = found.asDict() if found else {}
    return {e.name: int(counts[f"rule:{e.name}"] or 0) for e in table.expectations}


def with_provenance(rows: DataFrame, stamp: Stamp) -> DataFrame:
    """Gives the query's rows with where each came from, when and in which batch at their end."""
    kept = [quoted(c) for c in rows.columns if c not in STAMPED]
    return rows.select(
        *kept,
        *PROVENANCE,
        F.current_timestamp().alias("_ingested_at"),
        F.lit(stamp.batch_id).cast("bigint").alias("_batch_id"),
    )


def _batch(loaded: Loaded, table: Table, stamp: Stamp, seconds: float) -> Batch:
    counts = {"good": 0, "quarantine": 0, "drop": 0, "duplicate": 0, **loaded.counts}
    mode = table.source.malformed if table.source else ""
    refused = counts["quarantine"] + (loaded.malformed if mode == "QUARANTINE" else 0)
    dropped = counts["drop"] + (loaded.malformed if mode == "DROPMALFORMED" else 0)
    return Batch(
        number=stamp.batch_id,
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
        run_id=stamp.run_id,
    )
