"""What a table's rules refused, in the quarantine's shape."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.ingestion.quarantine import shaped
from medallion_assets.tables.judge import written_columns
from medallion_assets.tables.table import Table


def from_rules(judged: DataFrame, table: Table, batch_id: int, run_id: str) -> DataFrame:
    """Gives the quarantine rows of a judged frame, each with every rule it broke that quarantines."""
    names = [F.lit(e.name) for e in table.expectations if e.otherwise == "quarantine"]
    refused = judged.where(F.col("_outcome") == "quarantine")
    columns = [F.col(f"`{c}`") for c in written_columns(judged)]
    row = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    rules = F.array_intersect("_broken", F.array(*names)) if names else F.col("_broken")
    return shaped(refused, row, rules, F.lit("rule"), batch_id, run_id)
