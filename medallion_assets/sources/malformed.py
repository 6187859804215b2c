"""Records that could not be rows: to quarantine with their text, reason and place, or as the source asks."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.commit import Transaction, append
from medallion_assets.sources.bad_records import export
from medallion_assets.sources.deduplicate_files import not_parsed
from medallion_assets.sources.errors import MalformedRecord
from medallion_assets.sources.ledger import Entry
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.sources.options import Source
from medallion_assets.sources.quarantine import OF_REFUSED, from_records


def refuse_malformed(records: DataFrame, source: Source) -> None:
    """Raise a ``MalformedRecord`` that names the first one, where there is any."""
    first = records.where("_reason IS NOT NULL").select("_source_file", "_reason", "_raw").first()
    if first is not None:
        raise MalformedRecord(source.name, first["_source_file"], first["_reason"], first["_raw"] or "")


def write_malformed(
    records: DataFrame, files: Sequence[Entry], place: LoadTarget, transaction: Transaction
) -> None:
    """Write malformed records to where the source wants them besides the table, once."""
    source = place.source
    bad = records.where("_reason IS NOT NULL").select(*OF_REFUSED, "_source_file").persist()
    if source.bad_records_path and source.malformed != "DROPMALFORMED":
        # A relative path lies in the pipeline's folder of the lake.
        export(bad, place.path.parent.parent / source.bad_records_path, files)
    if source.malformed == "QUARANTINE" and not transaction.committed_to(place.quarantine):
        fresh = not_parsed(records.sparkSession, files, transaction, place.quarantine)
        mine = (
            bad.where(F.col("_source_file").isin([f.path for f in fresh])) if len(fresh) < len(files) else bad
        )
        append(from_records(mine, transaction.batch_id, transaction.run_id), place.quarantine, transaction)
    bad.unpersist()
