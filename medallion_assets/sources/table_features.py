"""What a Delta table must be told before a batch with new columns or types can be written to it."""

import re
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from medallion_assets.delta import log
from medallion_assets.delta.names import quoted
from medallion_assets.sources.evolution import SchemaDiff
from medallion_assets.sources.options import Source

NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
"""Delta refuses these in a column's name unless the table maps names."""

MAPPING, WIDENING = "delta.columnMapping.mode", "delta.enableTypeWidening"


def ready_for(spark: SparkSession, path: Path, growth: SchemaDiff, source: Source) -> None:
    """Make the table take the batch: created with what it needs from its start, widened where asked."""
    if not _given(spark, path, growth.schema, _features(growth.schema, source)):
        return
    for name, kind in growth.widened.items():
        column = ".".join(map(quoted, name.split(".")))
        spark.sql(f"ALTER TABLE {_table(path)} ALTER COLUMN {column} TYPE {kind}")


def takes_names(spark: SparkSession, path: Path, schema: StructType) -> None:
    """Make the table take columns whose names Delta refuses unless it maps them."""
    if _odd_names(schema):
        _given(spark, path, schema, {MAPPING: "name"})


def _given(spark: SparkSession, path: Path, schema: StructType, wanted: dict[str, str]) -> bool:
    """Return the table these properties; False where it is new, and so has them from its start."""
    if not log.exists(path):
        if wanted:
            _create(spark, path, schema, wanted)
        return False
    missing = {k: v for k, v in wanted.items() if k not in log.properties(path)}
    if missing:
        pairs = ", ".join(f"'{k}' = '{v}'" for k, v in missing.items())
        spark.sql(f"ALTER TABLE {_table(path)} SET TBLPROPERTIES ({pairs})")
    return True


def _features(schema: StructType, source: Source) -> dict[str, str]:
    wanted = {}
    if _odd_names(schema):
        wanted[MAPPING] = "name"
    if source.evolution == "addNewColumnsWithTypeWidening":
        wanted[WIDENING] = "true"
    return wanted


def _odd_names(schema: StructType) -> bool:
    return any(
        NEEDS_MAPPING.search(name) for name in re.findall(r'"name":"((?:[^"\\]|\\.)*)"', schema.json())
    )


def _create(spark: SparkSession, path: Path, schema: StructType, properties: dict[str, str]) -> None:
    builder = DeltaTable.createIfNotExists(spark).location(str(path)).addColumns(schema)
    for name, value in properties.items():
        builder = builder.property(name, value)
    builder.execute()


def _table(path: Path) -> str:
    return f"delta.{quoted(str(path))}"
