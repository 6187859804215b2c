"""The result of a notebook load: what its files held, by the ledger, and where the tables are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medallion_assets.delta import log
from medallion_assets.sources import file_status as outcomes
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.load_target import LoadTarget


@dataclass(frozen=True)
class LoadResult:
    """The result of one call of a notebook loader.

    Attributes:
        files: Files read.
        rows_read: Records those files hold, counted outside Spark.
        rows_loaded: Rows committed to the table.
        rows_quarantined: Records committed to the quarantine.
        rows_rescued: Rows loaded with something in the rescued data column.
        rows_dropped: Malformed records that were dropped, where the source says ``DROPMALFORMED``.
        files_refused: Files that discovery refused, now or before: links, damaged or changed files.
        files_missing: Files removed or changed between discovery and reading;
            loaded once seen again.
        values_unaccounted: By landing file and column, values that were read and are missing; empty unless
            the load lost values.
        path, quarantine, ledger: Where the tables are.
        version: The table's Delta version afterwards, None where there is none yet.
    """

    files: int
    rows_read: int
    rows_loaded: int
    rows_quarantined: int
    rows_rescued: int
    rows_dropped: int
    files_refused: int
    files_missing: int
    values_unaccounted: dict[str, dict[str, int]]
    path: Path
    quarantine: Path
    ledger: Path
    version: int | None

    @property
    def rows_unaccounted(self) -> int:
        """Records that were read and are missing; 0 unless the load lost records."""
        return self.rows_read - self.rows_loaded - self.rows_quarantined - self.rows_dropped


def rows_of_load(run_id: str, ledger: Path) -> list[dict[str, Any]]:
    """Return the newest status of each file that a load decided on."""
    return list(outcomes.newest(ledger, f"run_id = '{run_id}'").values())


def result_of(place: LoadTarget, run_id: str) -> LoadResult:
    """Return the result of the load with this run id."""
    rows = rows_of_load(run_id, place.ledger)
    loaded = [row for row in rows if row["status"] == outcomes.LOADED]

    def total(column: str) -> int:
        return sum(row[column] or 0 for row in loaded)

    dropped = total("rows_dropped")
    refused = ledgers.not_loaded(place.ledger) + outcomes.corrupt(place.ledger)
    return LoadResult(
        files=len(loaded),
        rows_read=total("rows_read"),
        rows_loaded=total("rows_loaded"),
        rows_quarantined=total("rows_quarantined"),
        rows_rescued=total("rows_rescued"),
        rows_dropped=dropped,
        files_refused=len(refused),
        files_missing=sum(row["status"] == outcomes.MISSING for row in rows),
        values_unaccounted=outcomes.unaccounted_values(place.ledger),
        path=place.path,
        quarantine=place.quarantine,
        ledger=place.ledger,
        version=log.version(place.path),
    )
