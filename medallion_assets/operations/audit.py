"""``audit``: everything counted once more, over all history: files by Python, rows by Spark."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import newest_batch
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult
from medallion_assets.quality.conservation import balance
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.counting import contents
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.quarantine import REPLAYED

NAMED = 5
NEWEST = (
    "SELECT path, tag, records FROM (SELECT *, row_number() OVER "
    "(PARTITION BY path ORDER BY discovered_at DESC) "
    f"AS turn FROM ledger WHERE status = '{ledgers.ADMITTED}') WHERE turn = 1 ORDER BY path"
)


def audit(table: Table, lake: Lake, spark: Spark, asked: VerbRequest) -> VerbResult:
    """Counts the landing files again outside Spark, and the rows in Spark, and holds them against each other.

    A file that is gone is counted as the ledger has it; one that changed since it was taken is named.
    """
    if not log.exists(lake.path(table)):
        return VerbResult(table.key, "it has no rows yet")
    wrong = list(_of_files(table, lake, spark()) if table.source else _of_rows(table, lake, spark()))
    books = balance(table, lake)
    wrong += [] if books.holds else [str(books)]
    reads = "every landing file, table and quarantine" if table.source else "table and quarantine"
    words = "; ".join(wrong[:NAMED]) or f"every record is accounted for: {books}"
    return VerbResult(
        table.key, words, reads, "", (), not wrong, {"wrong": len(wrong), "balance": str(books)}
    )


def _of_files(table: Table, lake: Lake, spark: SparkSession) -> Iterator[str]:
    """Return what is wrong file by file."""
    found = _committed(spark, lake.path(table), "_source_file", "true")
    found += _committed(spark, lake.quarantine(table), "source_file", f"status <> '{REPLAYED}'")
    became = outcomes.newest(lake.ledger(table))
    # What a rule lets go is counted by batch, not by file.
    drops = any(rule.on_violation == "drop" for rule in table.expectations)
    for row in ledgers.rows(lake.ledger(table), NEWEST):
        path = str(row["path"])
        if became.get(path, {}).get("status") != outcomes.LOADED:
            continue
        physical = _recounted(Path(path), table, row)
        rows = found.pop(path, 0) + int(became[path]["rows_dropped"] or 0)
        if physical is None:
            yield f"{path} changed since it was taken, or cannot be read any more"
        elif rows > physical or (rows < physical and not drops):
            yield f"{path} holds {physical} records, table and quarantine {rows}"
    yield from (f"{count} rows say they came from {path}, which the ledger does not know"
                for path, count in found.items() if count and path)  # fmt: skip


def _of_rows(table: Table, lake: Lake, spark: SparkSession) -> Iterator[str]:
    """Return where the log says another number of rows than are there."""
    for path in (lake.path(table), lake.quarantine(table)):
        if log.exists(path):
            counted = spark.read.format("delta").load(str(path)).count()
            if counted != log.row_count(path):
                yield f"{path} holds {counted} rows, its log says {log.row_count(path)}"
    last = newest_batch(table, lake)
    if last and last.total_missing:
        yield f"{last.total_missing} records were missing when they were to be read"


def _recounted(path: Path, table: Table, row: dict[str, object]) -> int | None:
    """Return the records a file holds now; as the ledger has it where it is gone, None where it changed."""
    assert table.source is not None
    try:
        inside = contents(path, table.source)
    except FileNotFoundError:
        return int(str(row["records"]))
    except (OSError, UnreadableFile):
        return None
    return inside.records if inside.tag == row["tag"] else None


def _committed(spark: SparkSession, path: Path, column: str, condition: str) -> Counter[str]:
    if not log.exists(path):
        return Counter()
    rows = spark.read.format("delta").load(str(path)).where(condition).groupBy(column).agg(F.count("*"))
    return Counter({row[0]: row[1] for row in rows.collect()})
