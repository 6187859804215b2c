"""Commerce: orders and customers through each of the three doors, joined, windowed and summed."""

from medallion_assets.pipelines.commerce import bronze, gold, silver
from medallion_assets.pipelines.commerce.pipeline import commerce

__all__ = ["bronze", "commerce", "gold", "silver"]
