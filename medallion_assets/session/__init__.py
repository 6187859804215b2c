"""Starts one tuned Spark session with Delta, and knows nothing of tables or Dagster."""

from medallion_assets.session.start import start_session

__all__ = ["start_session"]
