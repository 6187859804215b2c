"""The versions of a source's schema: a small JSON file each, with what caused it."""

import json
import time
from collections.abc import Mapping
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
    """Return what a commit says of the schema its rows were read with: ``version`` and ``schema``."""
    known = versions(folder)
    return {name: known[-1][name] for name in ("version", "schema")} if known else {}


def restore(folder: Path, fact: Mapping[str, Any]) -> None:
    """Write the version down that the table's newest commit names, where the folder is lost or older."""
    known = versions(folder)
    if fact and (not known or int(known[-1]["version"]) < int(fact["version"])):
        columns = StructType.fromJson(fact["schema"]).simpleString()
        nothing: dict[str, Any] = {name: {} for name in ("added", "widened", "retyped", "brought_by")}
        told = {**fact, **nothing, "columns": columns, "left_out": [], "missing": [], "files": []}
        write_json(folder / f"{fact['version']}.json", told)
