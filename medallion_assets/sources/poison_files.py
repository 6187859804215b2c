"""Files that discovery could count and no reader can take: found by halving the batch, set aside alone.

A Parquet file whose footer is whole and whose pages are not fails its micro-batch at every retry, and
every file beside it would wait with it for ever.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from medallion_assets.delta.commit import Transaction
from medallion_assets.sources.batch_records import noting_nothing, records_with_schema
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.staging import Staging

OF_A_FILE = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "ParquetDecodingException", "MalformedInputException")
"""In Spark's errors about the bytes of a file."""


def is_of_a_file(error: BaseException) -> bool:
    """Return true where what failed was the reading of some file."""
    return isinstance(error, UnreadableFile) or any(word in str(error) for word in OF_A_FILE)


def unreadable(
    spark: SparkSession, files: Sequence[Entry], place: LoadTarget, transaction: Transaction
) -> dict[str, str]:
    """Return the files whose records cannot be read, by path, each with what its reader says."""
    with noting_nothing(place) as aside:
        return dict(_found(spark, files, aside, transaction))


def _found(
    spark: SparkSession, files: Sequence[Entry], place: LoadTarget, transaction: Transaction
) -> Iterator[tuple[str, str]]:
    why = _failure(spark, files, place, transaction)
    if why and len(files) == 1:
        yield files[0].path, why
    elif why:
        middle = len(files) // 2
        yield from _found(spark, files[:middle], place, transaction)
        yield from _found(spark, files[middle:], place, transaction)


def _failure(spark: SparkSession, files: Sequence[Entry], place: LoadTarget, transaction: Transaction) -> str:
    staging = Staging(place.state / "staging", place.source)
    try:
        _, records = records_with_schema(spark, files, place, staging, transaction)
        records.write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not is_of_a_file(error):
            raise
        return str(error).strip().splitlines()[0][:500]
    finally:
        staging.discard()
    return ""
