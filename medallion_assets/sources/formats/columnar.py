"""Parquet, ORC, Avro and binary files: read with their own columns and types, matched by exact name."""

import json
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from medallion_assets.delta.names import RESERVED, quoted
from medallion_assets.session.frames import frame_of
from medallion_assets.sources.errors import UnreadableFile, cause_of, some_of
from medallion_assets.sources.evolution import widens
from medallion_assets.sources.formats.exact_copy import MISFITS, names_of
from medallion_assets.sources.formats.json_values import types_in
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import NO_FIT, POSITION, as_json, written
from medallion_assets.sources.row_json import json_of, row_json, with_parts
from medallion_assets.sources.staging import Staging

BINARY = StructType(
    [
        StructField("path", StringType()),
        StructField("modificationTime", TimestampType()),
        StructField("length", LongType()),
        StructField("content", BinaryType()),
    ]
)
"""Spark's own columns for this format; they never change."""

FROM_FILE = (StructField("_source_file", StringType()), StructField("_source_modified_at", TimestampType()))


def binary_records(spark: SparkSession, files: Sequence[Entry], staging: Staging) -> DataFrame:
    """Return one row per file, with its bytes; columns of ``reading``."""
    # Spark passes over files without a byte.
    empty = [(f.path, f.modified_at, 0, b"", f.path, f.modified_at) for f in files if not f.size]
    frames = [frame_of(spark, empty, StructType([*BINARY.fields, *FROM_FILE]))] if empty else []
    if paths := [staging.readable(file) for file in files if file.size]:
        found = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(paths)
        path, modified = staging.original(), staging.modified()
        own = (path.alias("path"), modified.alias("modificationTime"), "length", "content")
        origin = path.alias("_source_file"), modified.alias("_source_modified_at")
        frames.append(found.select(*own, *origin))
    return reduce(DataFrame.unionByName, frames).withColumns(
        {
            "_raw": F.lit(None).cast("string"),
            "_reason": F.lit(None).cast("string"),
            POSITION: F.lit("whole file"),
        }
    )


class Columnar(NamedTuple):
    """The rows of files that share one schema.

    Attributes:
        rows: Columns ``c0``, ``c1`` ...; ``MISFITS`` where a copy was read; ``POSITION`` (NULL where Spark's
            reader does not number rows: ORC and Avro), ``_source_file`` and ``_source_modified_at``.
        fields: The files' own columns in that order, by their own names.
    """

    rows: DataFrame
    fields: list[StructField]


def columnar_frame(spark: SparkSession, files: Sequence[Entry], source: Source, staging: Staging) -> Columnar:
    """Return the rows of files that share one schema.

    Raises:
        UnreadableFile: Spark does not take their schema.
    """
    paths, copied = [staging.readable(file) for file in files], files[0].layout == "rows"
    reader = spark.read.format("parquet" if copied else source.format).options(**source.reader_options)
    try:
        frame = reader.option("recursiveFileLookup", "true").load(paths)
    except (AnalysisException, SparkRuntimeException) as error:
        why = cause_of(error)
        raise UnreadableFile(f"{some_of([file.path for file in files])} cannot be read: {why}") from error
    fields = list(frame.schema.fields)
    if copied:
        names = names_of(staging.folder / Path(paths[0]).name)
        fields = [
            StructField(name, NullType() if untyped else field.dataType)
            for (name, untyped), field in zip(names, fields, strict=False)
        ]
    number = F.col("_metadata.row_index") + 1 if copied or source.format == "parquet" else F.lit(None)
    rows = frame.select(
        *(F.col(quoted(name)).alias(f"c{place}") for place, name in enumerate(frame.columns[: len(fields)])),
        *([F.col(MISFITS)] if copied else []),
        F.concat(F.lit("record "), number.cast("string")).alias(POSITION),
        staging.original().alias("_source_file"),
        staging.modified().alias("_source_modified_at"),
    )
    return Columnar(rows, fields)


def columnar_records(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Return one row per row of the files; the frame's columns are those of ``reading``.

    A column of another type is taken where every value fits (``_holds``); else each of its values is
    rescued, or the row quarantined where nothing is rescued.
    """
    rows, fields = columnar_frame(spark, files, source, staging)
    columns = {f"c{place}": field for place, field in enumerate(fields)}
    # Of two columns of one name the first is the column, as in JSON.
    places = {field.name: place for place, field in reversed(columns.items()) if field.name in schema.names}
    left = {place: f for place, f in columns.items() if places.get(f.name) != place}
    taken = {f.name: _taken(places[f.name], columns[places[f.name]].dataType, f.dataType)
             for f in schema.fields if f.name in places}  # fmt: skip
    misfits = {name: misfit for name, (_, misfit) in taken.items() if misfit is not None}
    by_file = F.map_entries(MISFITS) if MISFITS in rows.columns else F.array()
    by_file = by_file.cast("array<struct<key: string, value: string>>")
    parts = [_part(place, field, F.col(place).isNotNull()) for place, field in left.items()]
    parts += [_part(places[name], columns[places[name]], misfit) for name, misfit in misfits.items()]
    every = [_part(place, field, F.col(place).isNotNull()) for place, field in columns.items()]
    reason = F.lit(None).cast("string") if source.rescues_values else _reason(misfits, by_file, schema)
    if any(file.refusal for file in files):
        reason = F.coalesce(reason, _refusal(files))
    rescued = [written(_parts(parts, by_file), F.col("_source_file"))] if source.rescued else []
    raw = F.concat(F.lit("{"), F.concat_ws(",", _parts(every, by_file)), F.lit("}"))
    return rows.withColumn(f"{RESERVED}reason", reason).select(
        *(_value(taken[f.name][0] if f.name in taken else None, f) for f in schema.fields),
        *(column.alias(source.rescued) for column in rescued),
        F.when(F.col(f"{RESERVED}reason").isNotNull(), raw).alias("_raw"),
        F.col(f"{RESERVED}reason").alias("_reason"),
        F.when(F.col(f"{RESERVED}reason").isNotNull(), F.col(POSITION)).alias(POSITION),
        "_source_file",
        "_source_modified_at",
    )


def _refusal(files: Sequence[Entry]) -> Column:
    """Return why no record of a row's file can be a row."""
    # As one text: a literal for each of a thousand names takes the JVM gateway a second.
    whys = json.dumps({file.path: file.refusal for file in files if file.refusal})
    return F.try_element_at(F.from_json(F.lit(whys), "map<string,string>"), F.col("_source_file"))


def _taken(place: str, own: DataType, wanted: DataType) -> tuple[Column | None, Column | None]:
    """Return a column in the wanted type, and which of its values do not fit it (None for none)."""
    value, there = F.col(place), F.col(place).isNotNull()
    if isinstance(own, NullType):
        return None, None
    if isinstance(own, BinaryType) and isinstance(wanted, StringType):
        value, own = value.cast("string"), wanted
    if not _holds(own, wanted):
        return None, there
    if not _has_text(own):
        return _typed(value, own, wanted), None
    # Bytes that are no UTF-8 would break what reads the table after Spark.
    broken = _is_broken(value, own)
    return F.when(~broken, _typed(value, own, wanted)), broken


def _has_text(kind: DataType) -> bool:
    return any(isinstance(inner, StringType) for inner in types_in(kind))


def _is_broken(value: Column, kind: DataType) -> Column:
    """Return true where a text in a value, at any depth, is no UTF-8."""
    found = F.lit(False)
    if not _has_text(kind):
        return found
    if isinstance(kind, StringType):
        found = ~F.is_valid_utf8(value)
    elif isinstance(kind, StructType):
        for field in kind.fields:
            found = found | _is_broken(value[field.name], field.dataType)
    elif isinstance(kind, ArrayType):
        found = F.exists(value, lambda each: _is_broken(each, kind.elementType))
    elif isinstance(kind, MapType):
        for items, inner in ((F.map_keys(value), kind.keyType), (F.map_values(value), kind.valueType)):
            found = found | _is_broken(items, ArrayType(inner))
    return F.coalesce(found, F.lit(False))


def _with_bytes_as_text(value: Column, kind: DataType) -> Column:
    """Return a value whose texts that are no UTF-8 are base64 of their bytes."""
    if isinstance(kind, StringType):
        return F.when(F.is_valid_utf8(value), value).otherwise(F.base64(value.cast("binary")))
    change = _with_bytes_as_text
    return with_parts(value, kind, change, change) if _has_text(kind) else value


def _holds(own: DataType, wanted: DataType) -> bool:
    """Return true where every value of one type is one of the other; fields of structs go by their names."""
    if isinstance(own, StructType) and isinstance(wanted, StructType):
        kinds = {field.name: field.dataType for field in wanted.fields}
        return all(field.name in kinds and _holds(field.dataType, kinds[field.name]) for field in own.fields)
    if isinstance(own, ArrayType) and isinstance(wanted, ArrayType):
        return _holds(own.elementType, wanted.elementType)
    if isinstance(own, MapType) and isinstance(wanted, MapType):
        same_keys = own.keyType.simpleString() == wanted.keyType.simpleString()
        return same_keys and _holds(own.valueType, wanted.valueType)
    if isinstance(wanted, StringType):
        return not isinstance(own, BinaryType)
    return own.simpleString() == wanted.simpleString() or widens(own, wanted)


def _typed(value: Column, own: DataType, wanted: DataType) -> Column:
    if own.simpleString() == wanted.simpleString():
        return value
    if isinstance(own, StructType) and isinstance(wanted, StructType):
        # By name: a cast between structs goes by place.
        kinds = {field.name: field.dataType for field in own.fields}
        members = [
            _typed(value[f.name], kinds[f.name], f.dataType) if f.name in kinds else F.lit(None)
            for f in wanted.fields
        ]
        members = [m.cast(f.dataType).alias(f.name) for m, f in zip(members, wanted.fields, strict=True)]
        return F.when(value.isNotNull(), F.struct(*members))
    if isinstance(own, ArrayType) and isinstance(wanted, ArrayType):
        kinds_of = (own.elementType, wanted.elementType)
        return F.transform(value, lambda element: _typed(element, *kinds_of))
    if isinstance(own, MapType) and isinstance(wanted, MapType):
        values_of = (own.valueType, wanted.valueType)
        return F.transform_values(value, lambda _, each: _typed(each, *values_of))
    if isinstance(own, (StructType, ArrayType, MapType)):
        return json_of(value, own)
    return value.cast(wanted)


def _value(taken: Column | None, wanted: StructField) -> Column:
    return (F.lit(None) if taken is None else taken).cast(wanted.dataType).alias(wanted.name)


def _part(place: str, field: StructField, chosen: Column) -> Column:
    if isinstance(field.dataType, NullType):
        return F.lit(None).cast("string")
    value, kind = F.col(place), field.dataType
    if _has_text(kind):
        value = F.when(_is_broken(value, kind), _with_bytes_as_text(value, kind)).otherwise(value)
    # {"v":...} without its wrapping is the value's own JSON, of whatever type.
    wrapped = row_json({"v": value}, StructType([StructField("v", kind)]))
    inner = F.substring(wrapped, F.lit(len('{"v":') + 1), F.length(wrapped) - len('{"v":}'))
    return F.when(chosen, F.concat(as_json(F.lit(field.name)), F.lit(":"), inner))


def _parts(parts: list[Column], by_file: Column) -> Column:
    texts = F.transform(by_file, lambda e: F.concat(as_json(e["key"]), F.lit(":"), e["value"]))
    return F.concat(F.array_compact(F.array(*parts)), texts) if parts else texts


def _reason(misfits: dict[str, Column], by_file: Column, schema: StructType) -> Column:
    names = [F.lit(name) for name in schema.names]
    unheld = F.transform(F.filter(by_file, lambda e: e["key"].isin(*names)), lambda e: e["key"])
    found = [F.when(misfit, F.lit(name)) for name, misfit in misfits.items()]
    text = F.concat_ws(", ", F.concat(F.array_compact(F.array(*found)), unheld) if found else unheld)
    return F.when(text != "", F.concat(F.lit(f"{NO_FIT}: "), text))
