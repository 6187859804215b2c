"""Status, history, files and quarantine of tables, read from logs and ledgers without Spark."""

from medallion_assets.reports.show import quarantine_counts, quarantine_rows, result_row
from medallion_assets.reports.state import SHOWN, files_of, history_of, last_files, statuses

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
