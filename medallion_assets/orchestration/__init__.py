"""Dagster: assets, checks, sensors, jobs and resources made from declared tables."""
