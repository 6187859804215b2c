"""The columns and types that files bring, read from their records, headers or footers."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.evolution import grown, is_column
from medallion_assets.sources.formats.columnar import columnar_frame
from medallion_assets.sources.formats.csv_dialect import column_names
from medallion_assets.sources.formats.csv_rows import csv_types
from medallion_assets.sources.formats.json_inference import counted_keys, inferred
from medallion_assets.sources.formats.text_files import TEXT
from medallion_assets.sources.formats.whole_files import BINARY
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source, split_columns
from medallion_assets.sources.reading import groups
from medallion_assets.sources.staging import Staging


def seen_schema(spark: SparkSession, source: Source, files: Sequence[Entry], staging: Staging) -> StructType:
    """Return what these files' sound records have: json's, csv's and xml's columns as strings unless
    ``infer_column_types``, the files' own types for formats that carry them.
    """
    if source.format in ("text", "binaryFile"):
        return TEXT if source.format == "text" else BINARY
    if source.format == "csv":
        return _of_headers(source, files)
    if source.format in ("json", "xml"):
        if source.infer_column_types:
            return storable_columns(inferred(files, source))
        return StructType([StructField(key, StringType()) for key in counted_keys(files, source)])
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
    for hint in split_columns(hints):
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


def _of_headers(source: Source, files: Sequence[Entry]) -> StructType:
    names = {name: None for file in files for name in column_names(file.header, source)}
    strings = StructType([StructField(name, StringType()) for name in names])
    if not source.infer_column_types or not names:
        return strings
    return csv_types(files, source, list(names))


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
