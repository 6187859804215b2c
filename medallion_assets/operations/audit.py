"""``audit``: every landing file counted again by Python, every row counted again by Spark."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare.table import Table
from medallion_assets.delta import log
from medallion_assets.lake.arrivals import load_target_of
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.position import newest_batch
from medallion_assets.operations.requests import Spark, VerbRequest, VerbResult
from medallion_assets.quality.conservation import balance
from medallion_assets.sources import file_status
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.counting import contents
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.known_files import replaces_files
from medallion_assets.sources.ledger import address
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.quarantine import REPLAYED
from medallion_assets.storage import is_still
from medallion_assets.storage.copies import local_copy

NAMED = 5


def audit(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Count the records of all landing files outside Spark, count the rows in Spark, and compare.

    A deleted file counts as the ledger recorded it. A file that changed since it was loaded is reported,
    with the command that loads the change where discovery cannot see it.
    """
    if not log.exists(lake.path(table)):
        return VerbResult(table.key, "not audited: it has no rows yet")
    wrong = list(_of_files(table, lake, spark()) if table.source else _of_rows(table, lake, spark()))
    books = balance(table, lake)
    wrong += [] if books.holds else [str(books)]
    reads = "every landing file, table and quarantine" if table.source else "table and quarantine"
    words = "; ".join(wrong[:NAMED]) or f"every record is accounted for: {books}"
    return VerbResult(
        table.key, words, reads, "", (), not wrong, {"wrong": len(wrong), "balance": str(books)}
    )


def _of_files(table: Table, lake: Lake, spark: SparkSession) -> Iterator[str]:
    """Return a message for each file whose records and rows differ."""
    place = load_target_of(table, lake)
    found = _committed(spark, place.path, "_source_file", "true")
    found += _committed(spark, place.quarantine, "source_file", f"status <> '{REPLAYED}'")
    # Rows a rule drops are counted by batch, not by file.
    drops = any(rule.on_violation == "drop" for rule in table.expectations)
    root, differing = place.root, {}
    for path, contents_of in _loaded_contents(place).items():
        newest = contents_of[-1]
        changed = _change(address(root, path), path, place, newest)
        if changed:
            yield changed
        records = sum(row["records"] for row in contents_of)
        rows = found.pop(path, 0) + sum(row["rows_dropped"] or 0 for row in contents_of)
        if rows > records or (rows < records and not drops):
            differing[path] = records, rows
    # Accepted changes by hand are counted by table, not by file.
    last, missing = newest_batch(table, lake), [records - rows for records, rows in differing.values()] or [0]
    if min(missing) < 0 < max(missing) or sum(missing) != (last.total_by_hand if last else 0):
        for path, (records, rows) in differing.items():
            yield f"{path} held {records} records when it was loaded, table and quarantine hold {rows}"
    yield from (f"{count} rows say they came from {path}, which the ledger does not know"
                for path, count in found.items() if count and path)  # fmt: skip


def _loaded_contents(place: LoadTarget) -> dict[str, list[dict[str, Any]]]:
    """Return, by path, the contents the table holds, oldest first; only the newest where contents replace."""
    admitted = f"SELECT * FROM ledger WHERE status = '{ledgers.ADMITTED}' ORDER BY sequence"
    became, replaces = file_status.newest(place.ledger), replaces_files(place.source, place.path)
    loaded: dict[str, list[dict[str, Any]]] = {}
    for entry in ledgers.rows(place.ledger, admitted):
        row = became.get(int(str(entry["sequence"])))
        if row and row["status"] == file_status.LOADED:
            others = [] if replaces else loaded.get(str(entry["path"]), [])
            loaded[str(entry["path"])] = [*others, entry | {"rows_dropped": row["rows_dropped"]}]
    return loaded


def _change(file: str, path: str, place: LoadTarget, taken: dict[str, Any]) -> str:
    """Return how a file differs from the loaded contents; empty where it does not, or was deleted."""
    try:
        with local_copy(file) as copy:
            inside = contents(copy, place.source)
    except FileNotFoundError:
        return ""
    except (OSError, UnreadableFile) as problem:
        return f"{path} cannot be read any more: {problem}"
    if inside.tag == taken["tag"]:
        same = inside.records == taken["records"]
        held = f"{path} held {taken['records']} records when it was loaded"
        return "" if same else f"{held}, and {inside.records} now"
    if not is_still(file, taken["size"], taken["modified_at"]):
        return f"{path} changed since it was loaded"
    again = f"`medallion reprocess {place.key} --file {path}` loads it"
    if place.source.allow_overwrites == "append":
        again = "`touch` it to have it loaded"
    return (
        f"{path} has other bytes than were loaded, with the same size and time, so discovery misses it: "
        f'{again}, and change_detection="content" finds such changes'
    )


def _of_rows(table: Table, lake: Lake, spark: SparkSession) -> Iterator[str]:
    """Return a message where a Delta log counts other rows than Spark reads."""
    for path in (lake.path(table), lake.quarantine(table)):
        if log.exists(path):
            counted = spark.read.format("delta").load(str(path)).count()
            if counted != log.row_count(path):
                yield f"{path} holds {counted} rows, its log says {log.row_count(path)}"
    last = newest_batch(table, lake)
    if last and last.total_missing:
        yield f"{last.total_missing} records were in files that had disappeared before they were read"


def _committed(spark: SparkSession, path: Path, column: str, condition: str) -> Counter[str]:
    if not log.exists(path):
        return Counter()
    rows = spark.read.format("delta").load(str(path)).where(condition).groupBy(column).agg(F.count("*"))
    return Counter({row[0]: row[1] for row in rows.collect()})
