"""Files landed by their contents, loaded by the notebook's door, read back without Spark where it can be."""

import json
import sys

import pytest
from deltalake import DeltaTable

from medallion_assets.sources import autoload_to_table


@pytest.fixture
def landed(tmp_path):
    """Return a function that lands files, by name and contents, and the folder they are in."""
    folder = tmp_path / "landing" / "web"

    def land(**files):
        for name, contents in files.items():
            path = folder / name.replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return folder

    return land


@pytest.fixture
def autoload(tmp_path, lake, spark):
    """Return a function that loads a folder into ``web.bronze.<table>``."""

    def load(folder, source_format, table="t", **options):
        checkpoint = tmp_path / "checkpoints" / table
        done = autoload_to_table(
            folder, source_format, f"web.bronze.{table}", checkpoint, spark=spark, **options
        )
        assert done.values_unaccounted == {}
        return done

    return load


@pytest.fixture
def rows(spark):
    """Return a function that reads a load's rows, without what the engine adds."""

    def read(result, *columns):
        frame = spark.read.format("delta").load(str(result.path))
        ours = ("_source_file", "_source_modified_at", "_ingested_at", "_batch_id")
        kept = frame.select(*columns) if columns else frame.drop(*ours)
        return [row.asDict(recursive=True) for row in kept.collect()]

    return read


@pytest.fixture
def refused():
    """Return a function that reads a load's quarantine as pairs of record and reason."""

    def read(result):
        if not result.quarantine.exists():
            return []
        found = DeltaTable(str(result.quarantine)).to_pyarrow_dataset().to_table().to_pylist()
        return sorted((row["row"], row["rules"][0]) for row in found)

    return read


def rescued(row):
    """Return a row's rescued fields, without the file they came from."""
    limit = sys.getrecursionlimit()
    # Python's reader stops at 1,000 levels; landed records may be nested deeper.
    sys.setrecursionlimit(10_000)
    try:
        found = json.loads(row["_rescued_data"] or "{}")
    finally:
        sys.setrecursionlimit(limit)
    found.pop("_file_path", None)
    return found
