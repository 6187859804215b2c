"""The quarantine's rows: one shape for every table, so that one reader shows them all.

Columns: ``row`` STRING (the raw record, or the row as JSON), ``rules`` ARRAY<STRING>, ``reason_class``
STRING (``parse``, ``rule``, ``key``), ``source_file`` STRING, ``batch_id`` BIGINT, ``run_id`` STRING,
``quarantined_at`` TIMESTAMP, ``status`` STRING (``open``), ``attempts`` INT.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812


def from_records(records: DataFrame, batch_id: int, run_id: str) -> DataFrame:
    """Gives the quarantine rows of records that could not be rows."""
    refused = records.where(F.col("_reason").isNotNull())
    return shaped(refused, F.col("_raw"), F.array("_reason"), F.lit("parse"), batch_id, run_id)


def shaped(
    refused: DataFrame, row: Column, rules: Column, reason_class: Column, batch_id: int, run_id: str
) -> DataFrame:
    """Gives refused rows in the quarantine's shape; ``row`` is their text, ``rules`` what they broke."""
    file = F.col("_source_file") if "_source_file" in refused.columns else F.lit(None).cast("string")
    return refused.select(
        row.alias("row"),
        rules.alias("rules"),
        reason_class.alias("reason_class"),
        file.alias("source_file"),
        F.lit(batch_id).cast("bigint").alias("batch_id"),
        F.lit(run_id).alias("run_id"),
        F.current_timestamp().alias("quarantined_at"),
        F.lit("open").alias("status"),
        F.lit(1).alias("attempts"),
    )
