"""Commerce: orders and customers through each of the three doors."""

from medallion_assets.pipelines.commerce import bronze
from medallion_assets.pipelines.commerce.pipeline import commerce

__all__ = ["bronze", "commerce"]
