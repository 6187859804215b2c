"""A schema's versions as files, and the changes of a Delta table before new columns or types are written."""

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from medallion_assets.delta import log
from medallion_assets.delta.batches import read_json, write_json
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import quoted
from medallion_assets.sources.errors import BatchRefused
from medallion_assets.sources.evolution import SchemaDiff
from medallion_assets.sources.options import Source


def newest(folder: Path) -> StructType | None:
    """Return the last version's columns, None where there is no version yet."""
    found = versions(folder)
    return StructType.fromJson(found[-1]["schema"]) if found else None


def versions(folder: Path) -> list[dict[str, Any]]:
    """Return every version's file that can be read, oldest first."""
    files = sorted(folder.glob("*.json"), key=lambda f: int(f.stem)) if folder.is_dir() else []
    return [said for file in files if (said := read_json(file))]


def write_version(
    folder: Path, growth: SchemaDiff, source: Source, files: list[str], transaction: Transaction
) -> None:
    """Write the next schema version as a file, with the schema changes of its files."""
    known = versions(folder)
    number = int(known[-1]["version"]) + 1 if known else 0
    content = {
        "version": number,
        "columns": growth.schema.simpleString(),
        "hints": source.schema_hints,
        "added": growth.added,
        "widened": growth.widened,
        "retyped": growth.retyped,
        "left_out": growth.left_out,
        "missing": growth.missing,
        "brought_by": growth.brought_by,
        "files": files[:20],
        "run_id": transaction.run_id,
        "batch": transaction.batch_id,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "schema": growth.schema.jsonValue(),
    }
    write_json(folder / f"{number}.json", content)


def fact_of(folder: Path) -> dict[str, Any]:
    """Return the commit metadata of the current schema: ``version`` and ``schema``."""
    known = versions(folder)
    return {name: known[-1][name] for name in ("version", "schema")} if known else {}


def restore(folder: Path, fact: Mapping[str, Any]) -> None:
    """Let the newest version be that of the table's newest commit.

    Later ones were of batches that failed or died: the table has nothing of what such a call declared.
    """
    known = versions(folder) if fact else []
    for version in [said["version"] for said in known if int(said["version"]) > int(fact["version"])]:
        (folder / f"{version}.json").unlink()
    if fact and (not known or int(known[-1]["version"]) < int(fact["version"])):
        columns = StructType.fromJson(fact["schema"]).simpleString()
        nothing: dict[str, Any] = {name: {} for name in ("added", "widened", "retyped", "brought_by")}
        content = {**fact, **nothing, "columns": columns, "left_out": [], "missing": [], "files": []}
        write_json(folder / f"{fact['version']}.json", content)


NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that Delta allows in column names only with column mapping."""

WITHOUT_ZONE = re.compile(r'"(?:type|elementType|keyType|valueType)":"timestamp_ntz"')
"""In a schema as JSON. A new table gets the feature for such a column; an existing table must be given it."""

MAPPING, WIDENING = "delta.columnMapping.mode", "delta.enableTypeWidening"


def ready_for(spark: SparkSession, path: Path, growth: SchemaDiff, source: Source) -> None:
    """Prepare the table for the batch: create it with the needed features, widen columns."""
    takes_columns(spark, path, growth.schema)
    if not _given(spark, path, growth.schema, _features(growth.schema, source)):
        return
    for name, kind in growth.widened.items():
        column = ".".join(map(quoted, name.split(".")))
        spark.sql(f"ALTER TABLE {_table(path)} ALTER COLUMN {column} TYPE {kind}")


def takes_columns(spark: SparkSession, path: Path, schema: StructType) -> None:
    """Give the table the features that some column names or types need.

    Raises:
        BatchRefused: A name has a backtick, which Spark SQL cannot use in later changes of the table.
    """
    if ticked := [name for name in schema.names if "`" in name]:
        raise BatchRefused(
            f"{path}: Delta cannot change or delete rows of a table with a backtick in a column's name: "
            f"{', '.join(ticked)}. Nothing was written and nothing is lost: rename it in the schema or query."
        )
    if _odd_names(schema):
        _given(spark, path, schema, {MAPPING: "name"})
    without_zone = WITHOUT_ZONE.search(schema.json()) and log.exists(path)
    if without_zone and "timestampNtz" not in (log.opened(path).protocol().writer_features or ()):
        asked = "'delta.feature.timestampNtz' = 'supported'"
        spark.sql(f"ALTER TABLE {_table(path)} SET TBLPROPERTIES ({asked})")


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
