"""The reference tables as others read them: no feature that keeps a reader out, and the same rows."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from medallion_assets.declare.pipeline import chosen
from medallion_assets.pipelines import PIPELINES
from medallion_assets.simulators import land
from medallion_assets_tests.examples import seldom

pytestmark = pytest.mark.spark

FEATURES = {"appendOnly", "invariants", "changeDataFeed"}
"""Features of writers only. Whoever reads a table of ours needs no more than the first protocol of Delta."""


def tables(lake):
    """The folder of every table and quarantine."""
    layers = ("bronze", "silver", "gold", "quarantine")
    found = sorted(path.parent for layer in layers for path in lake.root.glob(f"*/{layer}/*/_delta_log"))
    assert len(found) >= 4
    return found


def duckdb_connection():
    """A connection that reads Delta, from the extension that is installed; None where it is not."""
    try:
        import duckdb
        import duckdb_extension_delta as delta
    except ImportError:
        return None
    (file,) = Path(delta.__file__).parent.glob("extensions/*/delta.duckdb_extension")
    # The signature is looked for where DuckDB itself installs extensions.
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{file}'")
    return connection


def rows(table, schema):
    """The rows of an Arrow table as text, in one order."""
    columns = [table.column(field.name).cast(field.type) for field in schema]
    return sorted(map(repr, pa.table(columns, schema).to_pylist()))


@pytest.mark.parametrize("pipeline", ["school", seldom("health"), seldom("commerce")])
def test_reference_tables_read_the_same_in_delta_rs_and_duckdb_as_in_spark(pipeline, lake, refreshed, spark):
    land(pipeline, lake.settings.landing, with_faults=True)
    refreshed(*chosen(PIPELINES, (pipeline,)))
    duck = duckdb_connection()
    for path in tables(lake):
        table = DeltaTable(str(path))
        protocol = table.protocol()
        assert protocol.min_reader_version == 1, path
        assert set(protocol.writer_features or ()) <= FEATURES, path
        found = spark.read.format("delta").load(str(path)).toArrow()
        of_spark = rows(found, found.schema)
        assert of_spark == rows(table.to_pyarrow_table(), found.schema), path
        if duck:
            of_duckdb = duck.execute(f"SELECT * FROM delta_scan('{path}')").to_arrow_table()
            assert of_spark == rows(of_duckdb, found.schema), path
    if not duck:
        pytest.skip("DuckDB's delta extension is not installed; delta-rs read the same as Spark")
