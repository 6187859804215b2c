"""What a table's rules refused, in the quarantine's shape."""

from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.delta.commit import Stamp, append
from medallion_assets.delta.merge import GONE, signed
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
    joins = F.array(*(F.lit(f"{name}_matched") for name, read in table.reads if read.unmatched))
    late = F.arrays_overlap(rules, joins.cast("array<string>"))
    return shaped(refused, row, rules, F.when(late, "join").otherwise("rule"), batch_id, run_id)


def replace_quarantined(
    judged: DataFrame, table: Table, path: Path, keys: DataFrame | None, stamp: Stamp
) -> None:
    """Makes the quarantine hold what the judged rows of these keys leave in it, in one commit."""
    if stamp.committed_to(path):
        return
    refused = from_rules(judged, table, stamp.batch_id, stamp.run_id)
    if not log.exists(path):
        if not refused.isEmpty():
            append(refused, path, stamp)
    elif keys is None:
        append(refused, path, stamp, mode="overwrite")
    elif log.row_count(path) or not refused.isEmpty():
        _exchange(refused, path, keys, stamp)


def _exchange(refused: DataFrame, path: Path, keys: DataFrame, stamp: Stamp) -> None:
    # Parse and print both sides alike: the quarantine holds rows as text.
    shape = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in keys.schema.fields)
    key = F.to_json(F.struct(*(F.col(f"`{c}`") for c in keys.columns))).alias("_key")
    leaving = keys.select(key).withColumn(GONE, F.lit(True))
    coming = refused.withColumn(GONE, F.lit(False))
    rows = coming.unionByName(leaving, allowMissingColumns=True)
    same = f"n.{GONE} AND n._key = to_json(from_json(t.row, '{shape}'))"
    values = {f"`{c}`": f"n.`{c}`" for c in refused.columns}
    with signed(refused.sparkSession, stamp):
        into = DeltaTable.forPath(refused.sparkSession, str(path)).alias("t")
        merge = into.merge(rows.alias("n"), same).whenMatchedDelete()
        merge.whenNotMatchedInsert(condition=f"NOT n.{GONE}", values=values).execute()  # type: ignore[arg-type]
