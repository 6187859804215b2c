"""The pipeline the school's tables belong to."""

from medallion_assets import Pipeline

school = Pipeline(
    "school",
    owners=("team:registrar",),
    description="Enrollments with their students, by day, and courses by instructor.",
)
