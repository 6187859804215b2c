"""Takes files from a landing zone to rows, once each; knows nothing of declared tables or Dagster."""

from medallion_assets.ingestion.autoload import autoload_to_table
from medallion_assets.ingestion.copy_into import CopyResult, copy_into
from medallion_assets.ingestion.ctas import create_table_as
from medallion_assets.ingestion.discovery import Arrivals, discover, unseen_files
from medallion_assets.ingestion.doors import LoadResult
from medallion_assets.ingestion.options import Source

__all__ = [
    "Arrivals",
    "CopyResult",
    "LoadResult",
    "Source",
    "autoload_to_table",
    "copy_into",
    "create_table_as",
    "discover",
    "unseen_files",
]
