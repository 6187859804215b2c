"""Declarations of pipelines, tables, inputs and rules; they run nothing."""

from medallion_assets.declare.expectations import (
    accepted_values,
    expect,
    null_rate,
    references,
    row_count,
    unique,
)
from medallion_assets.declare.layout import Layout
from medallion_assets.declare.pipeline import Pipeline
from medallion_assets.declare.scd import keep_changes
from medallion_assets.declare.table import Table, static, stream

__all__ = [
    "Layout",
    "Pipeline",
    "Table",
    "accepted_values",
    "expect",
    "keep_changes",
    "null_rate",
    "references",
    "row_count",
    "static",
    "stream",
    "unique",
]
