"""Avro files as Parquet: Spark reads Avro through a jar of its own, which not every Spark release has.

The jar for Spark 4.2 is not on Maven Central; fastavro and pyarrow are on every machine this runs on.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

ROWS_AT_ONCE = 50_000
PRIMITIVE = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(),
}  # fmt: skip
LOGICAL = {
    "date": pa.date32(), "timestamp-millis": pa.timestamp("us", "UTC"), "uuid": pa.string(),
    "timestamp-micros": pa.timestamp("us", "UTC"), "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}  # fmt: skip


def write_as_parquet(avro: Path, parquet: Path) -> None:
    """Write the records of an Avro file as a Parquet file of the same columns."""
    with avro.open("rb") as file:
        records = fastavro.reader(file)
        schema = pa.schema(list(_fields(records.writer_schema)))
        with pq.ParquetWriter(parquet, schema) as writer:
            while chunk := list(islice(records, ROWS_AT_ONCE)):
                writer.write_table(pa.Table.from_pylist(chunk, schema))


def _fields(record: Any) -> Iterator[pa.Field]:
    for field in record["fields"]:
        yield pa.field(field["name"], _type(field["type"]))


def _type(avro: Any) -> pa.DataType:
    """Return the column type of an Avro type; a union of several real types is kept as text."""
    if isinstance(avro, list):
        real = [branch for branch in avro if branch != "null"]
        return _type(real[0]) if len(real) == 1 else pa.string()
    if isinstance(avro, str):
        return PRIMITIVE.get(avro, pa.string())
    if avro.get("logicalType") == "decimal":
        return pa.decimal128(avro["precision"], avro.get("scale", 0))
    if avro.get("logicalType") in LOGICAL:
        return LOGICAL[avro["logicalType"]]
    if avro["type"] == "record":
        return pa.struct(list(_fields(avro)))
    if avro["type"] == "array":
        return pa.list_(_type(avro["items"]))
    if avro["type"] == "map":
        return pa.map_(pa.string(), _type(avro["values"]))
    return pa.binary() if avro["type"] == "fixed" else _type(avro["type"])
