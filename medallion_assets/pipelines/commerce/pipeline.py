"""The pipeline the commerce tables belong to."""

from medallion_assets import Pipeline

commerce = Pipeline(
    "commerce",
    owners=("team:sales",),
    description="Orders and customers, loaded by Auto Loader, COPY INTO and CTAS.",
)
