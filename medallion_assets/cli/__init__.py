"""The command line; what only reads metadata starts no Spark."""

from medallion_assets.cli import landing, loading, looking, new, quarantine, running, verbs
from medallion_assets.cli.app import app

__all__ = ["app", "landing", "loading", "looking", "new", "quarantine", "running", "verbs"]
