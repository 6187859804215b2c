"""Parquet, ORC and Avro: files that carry their own columns and types, matched by name."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from medallion_assets.delta.names import quoted
from medallion_assets.sources.evolution import widens
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import NO_FIT
from medallion_assets.sources.rescue import as_json, written
from medallion_assets.sources.staging import Staging


def columnar_frame(
    spark: SparkSession, files: Sequence[Entry], source: Source, staging: Staging
) -> DataFrame:
    """Return the rows of files that share one schema, under their own columns and ``_metadata``."""
    # Avro is staged as Parquet.
    reader = spark.read.format("parquet" if source.format == "avro" else source.format).options(
        **source.reader_options
    )
    return reader.option("recursiveFileLookup", "true").load([staging.readable(file) for file in files])


def columnar_records(
    spark: SparkSession, files: Sequence[Entry], source: Source, schema: StructType, staging: Staging
) -> DataFrame:
    """Return one row per row of the files; the frame's columns are those of ``reading``.

    A column of another type is taken where every value fits (``widens``); else each of its values is
    rescued, or the row quarantined where nothing is rescued.
    """
    frame = columnar_frame(spark, files, source, staging)
    own = {field.name: field for field in frame.schema.fields}
    misfit = [own[f.name] for f in schema.fields if f.name in own and not _fits(own[f.name], f)]
    left = [field for field in own.values() if field.name not in schema.names]
    rescued = []
    if source.rescued:
        parts = F.array_compact(F.array(*map(_part, [*left, *misfit]))) if left or misfit else _no_part()
        rescued = [written(parts, F.col("_source_file")).alias(source.rescued)]
    bad = [F.when(_at(f).isNotNull(), F.lit(f.name)) for f in misfit] if not source.rescues_values else []
    names = F.concat_ws(", ", *bad) if bad else F.lit("")
    reason = F.when(names != "", F.concat(F.lit(f"{NO_FIT}: "), names))
    located = frame.select(
        "*",
        staging.original().alias("_source_file"),
        F.col("_metadata.file_modification_time").alias("_source_modified_at"),
    )
    unfit = {field.name for field in misfit}
    return located.select(
        *(_taken(f, own.get(f.name), f.name in unfit) for f in schema.fields),
        *rescued,
        F.when(reason.isNotNull(), F.to_json(F.struct(*(_at(f) for f in own.values())))).alias("_raw"),
        reason.alias("_reason"),
        "_source_file",
        "_source_modified_at",
    )


def _fits(own: StructField, wanted: StructField) -> bool:
    same = own.dataType == wanted.dataType or own.dataType.simpleString() == wanted.dataType.simpleString()
    return same or isinstance(wanted.dataType, StringType) or widens(own.dataType, wanted.dataType)


def _taken(wanted: StructField, own: StructField | None, unfit: bool) -> Column:
    if own is None or unfit:
        return F.lit(None).cast(wanted.dataType).alias(wanted.name)
    return _at(own).cast(wanted.dataType).alias(wanted.name)


def _part(field: StructField) -> Column:
    # {"v":...} without its wrapping is the value's own JSON, of whatever type.
    wrapped = F.to_json(F.struct(_at(field).alias("v")))
    value = F.substring(wrapped, F.lit(len('{"v":') + 1), F.length(wrapped) - len('{"v":}'))
    text = F.concat(as_json(F.lit(field.name)), F.lit(":"), value)
    return F.when(_at(field).isNotNull(), text)


def _no_part() -> Column:
    return F.array().cast("array<string>")


def _at(field: StructField) -> Column:
    return F.col(quoted(field.name))
