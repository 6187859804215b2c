"""A dry run of a load: unseen files against schema and mode, nothing written."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.commit import Transaction
from medallion_assets.session.cluster import is_cluster
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.discovery import DiscoveryOptions, entries_of
from medallion_assets.sources.fetched import at_hand, fetched_in
from medallion_assets.sources.ledger import ADMITTED, Entry
from medallion_assets.sources.load import refuse_new_columns
from medallion_assets.sources.load_records import records_with_schema, with_temporary_state
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.loaders import chosen_paths
from medallion_assets.sources.quarantine import OF_REFUSED
from medallion_assets.sources.staging import staging_of

PREVIEW = 50
"""The largest number of preview rows, as in VALIDATE n ROWS."""


@dataclass(frozen=True)
class Validation:
    """The result of a dry run of a load.

    Attributes:
        files, corrupt_files: Files that a load would read, and files that it could not read.
        good, bad: Records that would become rows, and records that would be quarantined.
        columns: The schema the rows would have, as DDL.
        reasons: Why records would be quarantined, with their number.
        preview: The first rows.
    """

    files: int
    corrupt_files: int
    good: int
    bad: int
    columns: str
    reasons: dict[str, int]
    preview: tuple[dict[str, Any], ...] = ()


def validated(
    place: LoadTarget,
    look: DiscoveryOptions,
    rows: int,
    start: Callable[[], SparkSession],
    judge: Callable[[DataFrame], None] | None = None,
) -> Validation:
    """Read and judge the files that a load would read; ``rows`` below 0 reads all, else at most that many.

    Args:
        place: The load target.
        look: Options of the discovery.
        rows: Records to read at most; below 0 for all.
        start: Returns the session; called only where there are files to read.
        judge: Called with the good records, in the columns of ``reading``.

    Raises:
        BatchRefused: The load itself would be refused with the same message.
    """
    entries = entries_of(place.landing, place.ledger, place.source, look)
    files = [entry for entry in entries if entry.status == ADMITTED]
    corrupt = len(entries) - len(files)
    files = [*_pending(place, look), *files]
    if not files:
        return Validation(0, corrupt, 0, 0, "", {})
    spark = start()
    with with_temporary_state(place, is_cluster(spark)) as temporary:
        return _judged(spark, at_hand(files, fetched_in(temporary.state)), temporary, rows, corrupt, judge)


def _pending(place: LoadTarget, look: DiscoveryOptions) -> list[Entry]:
    """Return the chosen files that are in the ledger but not loaded, because their load failed."""
    admitted = ledgers.rows(
        place.ledger, f"SELECT * FROM ledger WHERE status = '{ADMITTED}' ORDER BY sequence"
    )
    known = outcomes.newest(place.ledger)
    newest = {row["path"]: row for row in admitted if row["sequence"] not in known}
    chosen = chosen_paths(place, look) if newest else set()
    pending = [row for path, row in newest.items() if path in chosen]
    return [Entry(**row, root=place.root) for row in pending]  # type: ignore[arg-type]


def _judged(
    spark: SparkSession,
    files: list[Entry],
    place: LoadTarget,
    rows: int,
    corrupt: int,
    judge: Callable[[DataFrame], None] | None,
) -> Validation:
    transaction = Transaction("validate", 0, {"run_id": "validate"})
    staging = staging_of(spark, place)
    growth, records = records_with_schema(spark, files, place, staging, transaction)
    if judge is None:
        # A declared table's columns are its query's.
        refuse_new_columns(records, place)
    looked = records if rows < 0 else records.limit(rows)
    looked = looked.cache()
    counts = Counter(
        {r["_reason"]: r["n"] for r in looked.groupBy("_reason").agg(F.count("*").alias("n")).collect()}
    )
    good = counts.pop(None, 0)
    shown = (
        looked.where("_reason IS NULL").drop(*OF_REFUSED).limit(PREVIEW if rows < 0 else min(rows, PREVIEW))
    )
    preview = tuple(row.asDict() for row in shown.collect())
    if judge:
        judge(looked.where("_reason IS NULL"))
    looked.unpersist()
    columns = growth.schema.simpleString()
    return Validation(len(files), corrupt, good, sum(counts.values()), columns, dict(counts), preview)
