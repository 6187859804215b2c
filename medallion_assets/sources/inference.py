"""The columns and types that files bring, read from their records, headers or footers."""

from collections.abc import Iterator, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.evolution import grown
from medallion_assets.sources.formats.columnar import columnar_frame
from medallion_assets.sources.formats.csv import csv_records
from medallion_assets.sources.formats.csv_header import column_names
from medallion_assets.sources.formats.objects import of_objects, storable_columns
from medallion_assets.sources.formats.whole_files import BINARY, TEXT
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.reading import groups
from medallion_assets.sources.staging import Staging

GUESSES = ("bigint", "double", "boolean", "date", "timestamp")
"""Types a CSV column may turn out to have, the first that every value fits."""


def seen_schema(spark: SparkSession, source: Source, files: Sequence[Entry], staging: Staging) -> StructType:
    """Return what these files' sound records have: json's, csv's and xml's columns as strings unless
    ``infer_column_types``, the files' own types for formats that carry them.
    """
    if source.format in ("text", "binaryFile"):
        return TEXT if source.format == "text" else BINARY
    if source.format == "csv":
        return _of_headers(spark, source, files, staging)
    if source.format in ("json", "xml"):
        return of_objects(spark, source, files, staging)
    # A file without a row has columns, too.
    frames = [columnar_frame(spark, group, source, staging) for group in groups(files, also_empty=True)]
    schemas = [StructType(frame.fields) for frame in frames]
    most = source.max_columns
    whole = reduce(lambda a, b: grown(a, b, widening=True, max_columns=most).schema, schemas, StructType())
    return storable_columns(whole)


def declared(source: Source) -> StructType:
    """Return the declared columns, none where they are to be inferred.

    Raises:
        SourceError: The text is a type, but no list of columns.
    """
    return _ddl(source.schema)


def with_hints(base: StructType, hints: str) -> StructType:
    """Return the schema with the hints' types; a hint may name a nested field, or add a column."""
    nested: dict[str, DataType] = {}
    for hint in _split(hints):
        name, _, kind = hint.strip().partition(" ")
        nested[name.strip("`")] = _ddl(f"c {kind}")["c"].dataType
    for path, wanted in nested.items():
        base = _hinted(base, path.split("."), wanted)
    return base


def _ddl(text: str) -> StructType:
    found = StructType.fromDDL(text) if text else StructType()
    if not isinstance(found, StructType):
        raise SourceError(f"a schema is a list of columns, not {text!r}")
    return found


def _split(hints: str) -> list[str]:
    """Cuts a column list at its outer commas."""
    parts, depth = [""], 0
    for mark in hints:
        depth += (mark in "<(") - (mark in ">)")
        if mark == "," and not depth:
            parts.append("")
        else:
            parts[-1] += mark
    return [part for part in parts if part.strip()]


def _hinted(base: StructType, at: list[str], kind: DataType) -> StructType:
    head, rest = at[0], at[1:]
    fields = {field.name: field for field in base.fields}
    old = fields[head].dataType if head in fields else StructType()
    fields[head] = StructField(head, _inside(old, rest, kind) if rest else kind)
    return StructType(list(fields.values()))


def _inside(old: DataType, at: list[str], kind: DataType) -> DataType:
    if isinstance(old, ArrayType) and at[0] == "element":
        return ArrayType(_inside(old.elementType, at[1:], kind) if at[1:] else kind)
    if isinstance(old, MapType) and at[0] == "value":
        return MapType(old.keyType, _inside(old.valueType, at[1:], kind) if at[1:] else kind)
    return _hinted(old if isinstance(old, StructType) else StructType(), at, kind)


def _of_headers(spark: SparkSession, source: Source, files: Sequence[Entry], staging: Staging) -> StructType:
    names = {name: None for file in files for name in column_names(file.header, source)}
    strings = StructType([StructField(name, StringType()) for name in names])
    if not source.infer_column_types or not names:
        return strings
    text = grown(StructType(), strings).schema
    records = reduce(
        DataFrame.unionByName, (csv_records(spark, g, source, text, staging) for g in groups(files))
    )
    return StructType([StructField(name, kind) for name, kind in _guessed(records, text)])


def _guessed(records: DataFrame, text: StructType) -> Iterator[tuple[str, DataType]]:
    cells = {name: F.trim(records[f"`{name.replace('`', '``')}`"]) for name in text.names}
    counts = [F.count(cell).alias(f"{i}") for i, cell in enumerate(cells.values())]
    fits = [
        F.count(cell.try_cast(kind)).alias(f"{i}:{kind}")
        for i, cell in enumerate(cells.values())
        for kind in GUESSES
    ]
    found = records.where("_reason IS NULL").agg(*counts, *fits).first()
    assert found is not None
    for i, name in enumerate(cells):
        kind = next((k for k in GUESSES if found[f"{i}"] and found[f"{i}:{k}"] == found[f"{i}"]), "string")
        yield name, _ddl(f"c {kind}")["c"].dataType
