"""What people read of the lake, from logs and ledgers: no Spark, no write, no Dagster."""

from medallion_assets.reports.quarantine import quarantine_counts, quarantine_rows
from medallion_assets.reports.state import files_of, history_of, statuses

__all__ = ["files_of", "history_of", "quarantine_counts", "quarantine_rows", "statuses"]
