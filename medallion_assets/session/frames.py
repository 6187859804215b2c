"""Small frames of rows that Python holds."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def frame_of(spark: SparkSession, rows: Iterable[Sequence[object]], columns: str) -> DataFrame:
    """Return the rows as a frame.

    As Arrow: rows handed over one by one go through a Python worker, which took 3.5 s in a new process
    and 0.4 s in a warm one, where this takes 0.6 and 0.05.

    Args:
        spark: The session.
        rows: Each a sequence of as many values as there are columns.
        columns: Their names and types as SQL declares them, ``name STRING, age INT``.
    """
    declared = StructType.fromDDL(columns)
    assert isinstance(declared, StructType)
    schema = to_arrow_schema(declared, timezone="UTC")
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return frame_of_table(spark, pa.Table.from_arrays(arrays, schema=schema))


def frame_of_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return an Arrow table as a frame."""
    return spark.createDataFrame(table)
