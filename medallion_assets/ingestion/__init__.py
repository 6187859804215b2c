"""Takes files from a landing zone to rows, once each; knows nothing of tables or Dagster."""

from medallion_assets.ingestion.discovery import Arrivals, discover, unseen_files
from medallion_assets.ingestion.options import Source

__all__ = ["Arrivals", "Source", "discover", "unseen_files"]
