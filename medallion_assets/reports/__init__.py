"""What people read of the lake, from logs and ledgers: no Spark, no write, no Dagster."""

from medallion_assets.reports.copied import result_row
from medallion_assets.reports.files import SHOWN, files_of, last_files
from medallion_assets.reports.quarantine import quarantine_counts, quarantine_rows
from medallion_assets.reports.state import history_of, statuses

__all__ = [
    "SHOWN",
    "files_of",
    "history_of",
    "last_files",
    "quarantine_counts",
    "quarantine_rows",
    "result_row",
    "statuses",
]
