"""Find the files of a new ledger that an earlier, lost ledger had already loaded, from the file status."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from math import floor
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import among
from medallion_assets.session.cluster import is_cluster
from medallion_assets.sources.ledger import NONE, OTHER_LEDGER, Entry
from medallion_assets.sources.load import is_of_a_file
from medallion_assets.sources.load_records import records_with_schema, with_temporary_state
from medallion_assets.sources.load_target import PROVENANCE, LoadTarget
from medallion_assets.sources.quarantine import BYTES
from medallion_assets.sources.staging import staging_of


class Held(NamedTuple):
    """A fingerprint of records that ignores their order: their number, and two sums over their texts."""

    records: int
    total: int
    mixed: int


def loaded_before(
    spark: SparkSession,
    files: Sequence[Entry],
    place: LoadTarget,
    transaction: Transaction,
    listed_again: bool,
) -> tuple[list[Entry], list[Entry]]:
    """Return the files that an earlier ledger loaded already, and the other files, ready to load.

    A new ledger lists every file as new. Only the first contents of a path in the new ledger are looked up in
    table and quarantine; the ledger knows later contents itself. With ``allow_overwrites="ignore"``, the path
    decides, as in the ledger. Otherwise, contents with another time than the table's rows of that path are
    new contents, which with ``"replace"`` replace the path's old rows. For a path that is only in quarantine,
    the contents are the same if their records are.

    Args:
        spark: The session.
        files: The files of a batch.
        place: The load target.
        transaction: What is committed.
        listed_again: True where the new ledger lists all files for the first time: all may be loaded.
    """
    asked = [file for file in files if listed_again or file.supersedes == NONE]
    first = [file.path for file in asked]
    rows = spark.read.format("delta").load(str(place.path)).where(among(PROVENANCE[0], first))
    loaded: dict[str, set[int | None]] = defaultdict(set)
    # Of a path's earlier contents, of which there may be any number, only that there are some.
    times = ", ".join({str(_milliseconds(file.modified_at)) for file in asked})
    time = f"CASE WHEN unix_millis({PROVENANCE[1]}) IN ({times}) THEN unix_millis({PROVENANCE[1]}) END"
    for path, same_time in rows.select(PROVENANCE[0], F.expr(time)).distinct().collect() if first else ():
        loaded[path].add(same_time)
    held = _held(spark, place, [path for path in first if path not in loaded])
    same = {file for file in asked if _milliseconds(file.modified_at) in loaded.get(file.path, ())}
    if place.source.allow_overwrites == "ignore":
        same = {file for file in asked if file.path in loaded or file.path in held}
    else:
        same |= _of_records(spark, [file for file in asked if file.path in held], held, place, transaction)
    there = loaded.keys() | held.keys()
    others = [replace(file, supersedes=OTHER_LEDGER) if file in asked and file.path in there else file
              for file in files if file not in same]  # fmt: skip
    return [file for file in files if file in same], others


def _held(spark: SparkSession, place: LoadTarget, paths: Sequence[str]) -> dict[str, Held]:
    """Return the records of these files that are in quarantine, by path."""
    if not paths or not log.exists(place.quarantine):
        return {}
    there = spark.read.format("delta").load(str(place.quarantine)).where(among("source_file", paths))
    return _summed(there.select("source_file", "row", "raw_base64"))


def _of_records(
    spark: SparkSession,
    files: Sequence[Entry],
    held: dict[str, Held],
    place: LoadTarget,
    transaction: Transaction,
) -> set[Entry]:
    """Return the files all of whose records are refused again, and are those that are held."""
    files = [file for file in files if file.records == held[file.path].records]
    if not files:
        return set()
    with with_temporary_state(place, is_cluster(spark)) as temporary:
        staging = staging_of(spark, temporary)
        try:
            _, records = records_with_schema(spark, files, temporary, staging, transaction)
            refused = records.where("_reason IS NOT NULL").select("_source_file", "_raw", BYTES)
            found = _summed(refused)
        except Exception as error:
            if not is_of_a_file(error):
                raise
            # What cannot be read is what the load itself will say of it.
            alone = [[file] for file in files] if len(files) > 1 else []
            return set().union(*(_of_records(spark, one, held, place, transaction) for one in alone))
        finally:
            staging.discard()
    return {file for file in files if found.get(file.path) == held[file.path]}


def _summed(records: DataFrame) -> dict[str, Held]:
    """Return what records are by file; columns: the file, their text, their bytes."""
    file, *texts = records.columns
    # In no order, and without holding a file's million refused records here.
    total = F.sum(F.xxhash64(*texts).cast("decimal(38,0)"))
    mixed = F.bit_xor(F.xxhash64(F.lit(1), *(F.col(text) for text in texts)))
    found = records.groupBy(file).agg(F.count("*"), total, mixed).collect()
    return {path: Held(count, int(summed), mix) for path, count, summed, mix in found}


def _milliseconds(time: datetime) -> int:
    # Spark tells a file's time no finer.
    return floor(time.timestamp() * 1000)
