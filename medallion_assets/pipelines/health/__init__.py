"""Health: heart-rate recordings with their patients, averaged by day."""

from medallion_assets.pipelines.health import bronze, gold, silver
from medallion_assets.pipelines.health.pipeline import health

__all__ = ["bronze", "gold", "health", "silver"]
