"""The columns of JSON and XML objects, and what of inferred types a table can hold."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructField, StructType

from medallion_assets.session.frames import frame_of
from medallion_assets.sources.evolution import is_column
from medallion_assets.sources.formats.json import json_lines
from medallion_assets.sources.formats.json_examples import examples
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.staging import Staging


def of_objects(spark: SparkSession, source: Source, files: Sequence[Entry], staging: Staging) -> StructType:
    """Return what the sound records have: strings, or with ``infer_column_types`` what Spark infers."""
    told, others = examples(files) if source.format == "json" else ([], files)
    lines = _sound_lines(spark, told, others, staging)
    if source.infer_column_types:
        with _case_sensitive(spark):
            return storable_columns(spark.read.json(lines).schema)
    counts = _counted_keys(lines)
    if told and len({key.lower() for key in counts}) < len(counts):
        # An example says that a file has a key, and not how often.
        counts = _counted_keys(_sound_lines(spark, [], files, staging))
    # Of names that differ in case only the more frequent one is first, and becomes the column.
    keys = sorted(counts, key=lambda key: (key.lower(), -counts[key], key))
    return StructType([StructField(key, StringType()) for key in keys])


def _sound_lines(
    spark: SparkSession, told: Sequence[str], files: Sequence[Entry], staging: Staging
) -> DataFrame:
    """Return ``value`` STRING: the lines told, and the sound ones of the files."""
    frames = [frame_of(spark, [(line,) for line in told], "value STRING")] if told else []
    if files or not told:
        frames.append(json_lines(spark, files, staging).where("_why IS NULL").select("value"))
    return reduce(DataFrame.unionByName, frames)


def _counted_keys(lines: DataFrame) -> dict[str, int]:
    keys = lines.select(F.explode(F.array_distinct(F.json_object_keys("value"))).alias("key"))
    return {row["key"]: row["count"] for row in keys.groupBy("key").count().collect()}


@contextmanager
def _case_sensitive(spark: SparkSession) -> Iterator[None]:
    # Keys that differ in case only would else make inference fail as a whole.
    before = spark.conf.get("spark.sql.caseSensitive", "false")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        yield
    finally:
        spark.conf.set("spark.sql.caseSensitive", str(before))


def storable_columns(schema: StructType) -> StructType:
    """Return the schema with only what a table can hold below its top level."""
    return StructType([StructField(f.name, _storable(f.dataType)) for f in schema.fields])


def _storable(kind: DataType) -> DataType:
    if isinstance(kind, NullType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_storable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _storable(kind.valueType))
    if isinstance(kind, StructType):
        by_case = {f.name.lower(): f for f in reversed(kind.fields) if is_column(f.name)}
        kept = [
            StructField(f.name, _storable(f.dataType))
            for f in kind.fields
            if by_case.get(f.name.lower()) is f
        ]
        return StructType(kept) if kept else StringType()
    return kind
