"""``python -m medallion_assets.cli``: the command line of this Python environment."""

from medallion_assets.cli import app

app()
