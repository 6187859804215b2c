"""Takes files from a landing zone to rows, once each; knows nothing of declared tables or Dagster."""

from medallion_assets.sources.bad_records import bad_records
from medallion_assets.sources.copy_into import CopyResult, autoload_to_table, copy_into
from medallion_assets.sources.create_table import create_table_as
from medallion_assets.sources.discovery import DiscoveryResult, discover, unseen_files
from medallion_assets.sources.load_result import LoadResult
from medallion_assets.sources.options import Source
from medallion_assets.sources.statements import sql

__all__ = [
    "CopyResult",
    "DiscoveryResult",
    "LoadResult",
    "Source",
    "autoload_to_table",
    "bad_records",
    "copy_into",
    "create_table_as",
    "discover",
    "sql",
    "unseen_files",
]
