"""The schema a source's rows have: declared, or inferred from its first files, with hints on top."""

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from medallion_assets.ingestion.errors import SourceError
from medallion_assets.ingestion.ledger import Entry
from medallion_assets.ingestion.options import Source
from medallion_assets.ingestion.staging import Staging

SAMPLE_FILES = 1000


def schema_of(spark: SparkSession, source: Source, files: Sequence[Entry], staging: Staging) -> StructType:
    """Gives the columns and types rows of this source have.

    Without a declared schema the files are sampled: JSON types come from the values, CSV columns
    are text under the header's names. A hint's type wins over either, and may add a column.
    """
    base = _ddl(source.schema) if source.schema else _inferred(spark, source, files[:SAMPLE_FILES], staging)
    return _with_hints(base, _ddl(source.schema_hints))


def _ddl(text: str) -> StructType:
    found = StructType.fromDDL(text) if text else StructType()
    if not isinstance(found, StructType):
        raise SourceError(f"a schema is a list of columns, not {text!r}")
    return found


def _inferred(spark: SparkSession, source: Source, files: Sequence[Entry], staging: Staging) -> StructType:
    paths = [staging.readable(file) for file in files]
    if source.format == "json":
        found = spark.read.option("mode", "DROPMALFORMED").json(paths).schema
    else:
        found = spark.read.options(header="true", **source.reader_options).csv(paths).schema
    return StructType([field for field in found.fields if not field.name.startswith("_")])


def _with_hints(base: StructType, hints: StructType) -> StructType:
    hinted: dict[str, StructField] = {field.name: field for field in hints.fields}
    kept = [hinted.pop(field.name, field) for field in base.fields]
    return StructType([*kept, *hinted.values()])
