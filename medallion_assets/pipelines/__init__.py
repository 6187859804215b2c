"""Where tables are declared, and nothing else: a folder a pipeline, a file a layer."""

from medallion_assets.pipelines.commerce import commerce
from medallion_assets.pipelines.health import health
from medallion_assets.pipelines.school import school

PIPELINES = {pipeline.name: pipeline for pipeline in (school, commerce, health)}
