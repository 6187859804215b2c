"""The versions of a source's schema: columns and types inferred from new files, with the files as cause."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import folded
from medallion_assets.sources.errors import NewColumns, SourceError
from medallion_assets.sources.evolution import SchemaDiff, grown, is_column
from medallion_assets.sources.formats.columnar import BINARY, columnar_frame
from medallion_assets.sources.formats.csv_records import column_names
from medallion_assets.sources.formats.csv_rows import csv_types
from medallion_assets.sources.formats.json_inference import counted_keys, files_with_keys, inferred
from medallion_assets.sources.formats.messages import COLUMNS as OF_MESSAGES
from medallion_assets.sources.formats.text_files import TEXT
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.partitions import partition_keys
from medallion_assets.sources.reading import groups
from medallion_assets.sources.schema_versions import newest, write_version
from medallion_assets.sources.select_list import split_columns
from medallion_assets.sources.staging import Staging


def seen_schema(spark: SparkSession, source: Source, files: Sequence[Entry], staging: Staging) -> StructType:
    """Return what these files' sound records have: json's, csv's and xml's columns as strings unless
    ``infer_column_types``, the files' own types for formats that carry them.
    """
    if source.format in ("text", "binaryFile"):
        values = StructType([StructField("value", BinaryType())]) if source.kafka else BINARY
        return TEXT if source.format == "text" else values
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
    return _of_files(_ddl(source.schema), source)


def _of_files(schema: StructType, source: Source) -> StructType:
    """Return the schema without the columns the engine fills itself, which Spark's readers have in it.

    A field of such a name in a file goes to the rescued data.
    """
    ours = {source.rescued.lower(), source.corrupt_column.lower() if source.malformed == "PERMISSIVE" else ""}
    ours |= {name.lower() for name in OF_MESSAGES.names} if source.kafka else set()
    return StructType([field for field in schema.fields if field.name.lower() not in ours - {""}])


def with_hints(base: StructType, hints: str) -> StructType:
    """Return the schema with the hints' types; a hint may name a nested field, or add a column."""
    nested: dict[tuple[str, ...], DataType] = {}
    for hint in split_columns(hints):
        path, kind = hint_of(hint)
        nested[path] = _ddl(f"c {kind}")["c"].dataType
    for path, wanted in nested.items():
        base = _hinted(base, list(path), wanted)
    return base


NAME = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^\s:.`]+))\s*")


def hint_of(hint: str) -> tuple[tuple[str, ...], str]:
    """Return the names that lead to a hint's field, and its type; in backticks a name has any characters."""
    names, at = [], 0
    while found := NAME.match(hint, at):
        names.append(found[2] or found[1].replace("``", "`"))
        at = found.end()
        if hint[at : at + 1] != ".":
            break
        at += 1
    return tuple(names), hint[at:].removeprefix(":").strip()


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
    # A file without a byte has no header; one of a single nameless column has '""'.
    headers = [file.header for file in files if file.header]
    names = {name: None for header in headers for name in column_names(header, source)}
    strings = StructType([StructField(name, StringType()) for name in names])
    if not source.infer_column_types or not names:
        return strings
    return csv_types(files, source, list(names))


def storable_columns(schema: StructType) -> StructType:
    """Return the schema with nested types that a table can hold; other nested fields are left out."""
    return StructType([StructField(f.name, _storable(f.dataType)) for f in schema.fields])


def _storable(kind: DataType) -> DataType:
    if isinstance(kind, NullType):
        return StringType()
    if isinstance(kind, ArrayType):
        return ArrayType(_storable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _storable(kind.valueType))
    if isinstance(kind, StructType):
        by_case = {folded(f.name): f for f in reversed(kind.fields) if is_column(f.name)}
        kept = [
            StructField(f.name, _storable(f.dataType))
            for f in kind.fields
            if by_case.get(folded(f.name)) is f
        ]
        return StructType(kept) if kept else StringType()
    return kind


SAMPLE_FILES, SAMPLE_BYTES = 1000, 50 << 30
"""Limits of the sample that a first schema is inferred from, as in Auto Loader."""

FROZEN = ("none", "rescue")
"""Modes in which a schema never changes."""

CARRY_TYPES = ("parquet", "orc", "avro")


def schema_for(
    spark: SparkSession,
    source: Source,
    files: Sequence[Entry],
    staging: Staging,
    folder: Path,
    transaction: Transaction,
) -> SchemaDiff:
    """Return the schema this batch is read with, with the new columns and types that the mode allows.

    A new version is stored before the batch is read, so that a retry reads with the same schema.

    Raises:
        NewColumns: Files have new columns in the mode ``failOnNewColumns``; nothing was written.
    """
    base = newest(folder)
    growth = _growth(spark, source, files, staging, base)
    schema = _whole(growth.schema, source, files)
    known = base is not None or bool(source.schema)
    brought = _brought_by(source, files, growth.added) if known else {}
    if known and growth.added and source.evolution == "failOnNewColumns":
        raise NewColumns(source.name, growth.added, {*brought.values()} or [file.path for file in files])
    # The first schema is no change.
    whole = replace(growth, schema=schema, brought_by=brought) if known else SchemaDiff(schema)
    # Files without a record may name no column, and are not to fix the schema at none.
    if schema != base and schema.fields:
        write_version(folder, whole, source, [file.path for file in files], transaction)
    return whole


def schema_beforehand(source: Source, files: Sequence[Entry], folder: Path) -> StructType | None:
    """Return the schema this batch will be read with, None where it depends on the files' contents."""
    fixed = _fixed(source, newest(folder))
    return None if fixed is None else _whole(fixed, source, files)


def _whole(schema: StructType, source: Source, files: Sequence[Entry]) -> StructType:
    """Return the schema with the folders' columns and the hints' types."""
    lower = {name.lower() for name in schema.names}
    folders = partition_keys((file.path for file in files), source)
    keys = [key for key in folders if key.lower() not in lower]
    columns = [*schema.fields, *(StructField(key, StringType()) for key in keys)]
    return _of_files(with_hints(StructType(columns), source.schema_hints), source)


def _fixed(source: Source, base: StructType | None) -> StructType | None:
    """Return the columns where no file can change them, else None."""
    if source.evolution not in FROZEN:
        return None
    return _as_declared_now(source, base) if source.schema else base


def _growth(
    spark: SparkSession, source: Source, files: Sequence[Entry], staging: Staging, base: StructType | None
) -> SchemaDiff:
    fixed = _fixed(source, base)
    if fixed is not None:
        return SchemaDiff(fixed)
    if source.schema:
        base = _as_declared_now(source, base)
    sample = sampled(files) if source.evolution in FROZEN else files
    seen = _of_files(seen_schema(spark, source, sample, staging), source)
    if base is None:
        return grown(StructType(), with_hints(seen, source.schema_hints), max_columns=source.max_columns)
    widening = source.evolution == "addNewColumnsWithTypeWidening"
    return grown(base, _with_known_types(seen, base, source), widening, source.max_columns)


def _as_declared_now(source: Source, base: StructType | None) -> StructType:
    """Return the columns as declared now, followed by the columns that evolution added."""
    columns = declared(source)
    if base is None or source.evolution in FROZEN:
        return columns
    known = {field.name: field for field in base.fields}
    widened = source.evolution == "addNewColumnsWithTypeWidening"
    current = [known.get(f.name, f) if widened else f for f in columns.fields]
    return StructType([*current, *(f for f in base.fields if f.name not in columns.names)])


def _brought_by(source: Source, files: Sequence[Entry], added: dict[str, str]) -> dict[str, str]:
    """Return a file for each new column, found by its header, its schema or the records' keys."""
    tops = {name.split(".")[0] for name in added}
    if source.format in ("json", "xml") and tops:
        return files_with_keys(files, source, tops)
    if source.format == "csv":
        headers = {file.path: column_names(file.header, source) for file in reversed(files)}
        return {name: path for name in tops for path, names in headers.items() if name in names}
    return {name: file.path for name in tops for file in reversed(files) if name in file.header}


def _with_known_types(seen: StructType, base: StructType, source: Source) -> StructType:
    """Return the inferred columns; known columns keep their type where the files carry no types."""
    if source.infer_column_types or source.format in CARRY_TYPES:
        hinted = {h.name: h for h in with_hints(StructType(), source.schema_hints).fields}
        return StructType([hinted.get(f.name, f) for f in seen.fields])
    known = {f.name: f for f in base.fields}
    return StructType([known.get(f.name, f) for f in seen.fields])


def sampled(files: Sequence[Entry]) -> list[Entry]:
    """Return the files a first schema is inferred from."""
    chosen: list[Entry] = []
    for file in files[:SAMPLE_FILES]:
        if chosen and sum(f.size for f in chosen) + file.size > SAMPLE_BYTES:
            break
        chosen.append(file)
    return chosen
