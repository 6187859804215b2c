"""Rescued fields put into their columns, once the schema knows them."""

from collections.abc import Sequence
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, NumericType, StructField

from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.merge import signed
from medallion_assets.delta.names import literal, quoted
from medallion_assets.sources.load_target import PROVENANCE
from medallion_assets.sources.quarantine import named_as
from medallion_assets.sources.rescue import FIELDS

OURS = (*PROVENANCE, "_ingested_at", "_batch_id")
KEPT = "'_file_path'"
EXACT = "DECIMAL(38, 18)"
"""What numbers are compared in; those with more digits stay rescued."""


def unrescue(
    spark: SparkSession,
    path: Path,
    rescued: str,
    files: Sequence[str],
    transaction: Transaction,
    dry_run: bool,
) -> int:
    """Fills columns that are NULL from their row's rescued data where the value fits; gives how many rows.

    A field that went into its column leaves the rescued data; a row that has none left has NULL there.

    Args:
        spark: The session.
        path: The table.
        rescued: Its rescued data column.
        files: Ends of the paths of the landing files concerned; all where there are none.
        transaction: Who writes.
        dry_run: Only count.
    """
    table = DeltaTable.forPath(spark, str(path))
    fields = [f for f in table.toDF().schema.fields if f.name not in (*OURS, rescued)]
    told = f"from_json({quoted(rescued)}, '{FIELDS}')"
    placed = F.expr(f"array_compact(array({', '.join(_placed(f, told) for f in fields)}))")
    ends = [F.expr(named_as("_source_file", name)) for name in files]
    # A map holds one value of a key: what has a key twice would lose one by being written again.
    keys = F.json_object_keys(quoted(rescued))
    single = F.size(F.array_distinct(keys)) == F.size(keys)
    chosen = F.col(quoted(rescued)).isNotNull() & single & (F.size(placed) > 0)
    if ends:
        chosen = chosen & F.greatest(F.lit(False), *ends)
    rows = table.toDF().where(chosen).count()
    if rows and not dry_run:
        left = f"map_filter({told}, (k, v) -> NOT array_contains(array_compact(array("
        left += f"{', '.join(_placed(f, told) for f in fields)})), k))"
        empty = f"size(map_filter({left}, (k, v) -> k <> {KEPT})) = 0"
        sets: dict[str, str | Column] = {quoted(f.name): F.expr(_value(f, told)) for f in fields}
        sets[quoted(rescued)] = F.expr(f"if({empty}, NULL, to_json({left}))")
        with signed(spark, transaction):
            table.update(chosen, sets)
    return rows


def _placed(field: StructField, told: str) -> str:
    name = literal(field.name)
    return f"if({quoted(field.name)} IS NULL AND {_fitting(field, told)} IS NOT NULL, {name}, NULL)"


def _value(field: StructField, told: str) -> str:
    return f"coalesce({quoted(field.name)}, {_fitting(field, told)})"


def _fitting(field: StructField, told: str) -> str:
    """Return the SQL of the rescued value in the column's type, NULL where that would be another value."""
    found = f"try_element_at({told}, {literal(field.name)})"
    value = f"try_variant_get({found}, '$', '{field.dataType.simpleString()}')"
    text = f"try_variant_get({found}, '$', 'string')"
    if isinstance(field.dataType, NumericType):
        # A variant's cast cuts 1.9 to 1 and rounds what has too many digits.
        return f"if(try_cast({text} AS {EXACT}) = try_cast({value} AS {EXACT}), {value}, NULL)"
    if isinstance(field.dataType, BooleanType):
        return f"if(lower({text}) IN ('true', 'false'), {value}, NULL)"
    return value
