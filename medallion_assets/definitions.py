"""The code location of the three reference pipelines; a project of your own has one just like it."""

from medallion_assets import build_definitions
from medallion_assets.pipelines import PIPELINES

defs = build_definitions(PIPELINES.values())
