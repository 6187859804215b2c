"""The versions of a source's schema: a small JSON file each, with what caused it."""

import json
import time
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from medallion_assets.delta.batches import write_json
from medallion_assets.delta.commit import Transaction
from medallion_assets.sources.evolution import SchemaDiff
from medallion_assets.sources.options import Source


def newest(folder: Path) -> StructType | None:
    """Return the last version's columns, None where there is no version yet."""
    found = versions(folder)
    return StructType.fromJson(found[-1]["schema"]) if found else None


def versions(folder: Path) -> list[dict[str, Any]]:
    """Return every version's file, oldest first."""
    files = sorted(folder.glob("*.json"), key=lambda f: int(f.stem)) if folder.is_dir() else []
    return [json.loads(file.read_text()) for file in files]


def write_version(
    folder: Path, growth: SchemaDiff, source: Source, files: list[str], transaction: Transaction
) -> None:
    """Write the next version down, with what the files asked for."""
    number = len(versions(folder))
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
