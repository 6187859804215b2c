"""Incremental medallion lakehouses on Spark, Delta Lake and Dagster, with every record accounted for."""
