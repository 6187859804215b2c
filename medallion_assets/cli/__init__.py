"""The command line; commands that only read metadata start no Spark."""

from medallion_assets.cli import loading, running, verbs
from medallion_assets.cli.app import app

__all__ = ["app", "loading", "running", "verbs"]
