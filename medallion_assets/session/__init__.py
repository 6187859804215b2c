"""The Spark session with Delta: Java, jars, options, tables by name."""

from medallion_assets.session.start import start_session

__all__ = ["start_session"]
