"""School: enrollments with their students, by day; courses by instructor."""

from medallion_assets.pipelines.school import bronze, gold, silver
from medallion_assets.pipelines.school.pipeline import school

__all__ = ["bronze", "gold", "school", "silver"]
