"""The pipeline the health tables belong to."""

from medallion_assets import Pipeline

health = Pipeline(
    "health",
    owners=("team:cardiology",),
    description="Heart-rate recordings with their patients, averaged by patient and day.",
)
