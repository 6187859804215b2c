"""Starts one tuned Spark session with Delta, and knows nothing of tables or Dagster."""

from medallion_assets.session.start import running_session, start_session

__all__ = ["running_session", "start_session"]
