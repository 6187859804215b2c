"""The command line; what only reads metadata starts no Spark."""

from medallion_assets.cli import loading, running, verbs
from medallion_assets.cli.app import app

__all__ = ["app", "loading", "running", "verbs"]
