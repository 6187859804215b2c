"""Records that could not be rows: to quarantine with their text, reason and place, or as the source asks."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta.commit import Stamp, append
from medallion_assets.ingestion.bad_records import export
from medallion_assets.ingestion.errors import MalformedRecord
from medallion_assets.ingestion.ledger import Entry
from medallion_assets.ingestion.met_again import not_parsed
from medallion_assets.ingestion.options import Source
from medallion_assets.ingestion.places import Place
from medallion_assets.ingestion.positions import with_positions
from medallion_assets.ingestion.quarantine import from_records


def refuse_malformed(records: DataFrame, source: Source) -> None:
    """Raises a ``MalformedRecord`` that names the first one, where there is any."""
    first = records.where("_reason IS NOT NULL").select("_source_file", "_reason", "_raw").first()
    if first is not None:
        raise MalformedRecord(source.name, first["_source_file"], first["_reason"], first["_raw"] or "")


def write_malformed(records: DataFrame, files: Sequence[Entry], place: Place, stamp: Stamp) -> None:
    """Writes malformed records to where the source wants them besides the table, once."""
    source = place.source
    bad = records.where("_reason IS NOT NULL").select("_raw", "_reason", "_source_file").persist()
    if source.bad_records_path and source.malformed != "DROPMALFORMED":
        # A relative path lies in the pipeline's folder of the lake.
        export(bad, place.path.parent.parent / source.bad_records_path, files)
    if source.malformed == "QUARANTINE" and not stamp.committed_to(place.quarantine):
        fresh = not_parsed(records.sparkSession, files, stamp, place.quarantine)
        mine = (
            bad.where(F.col("_source_file").isin([f.path for f in fresh])) if len(fresh) < len(files) else bad
        )
        placed = with_positions(mine, fresh, source)
        append(from_records(placed, stamp.batch_id, stamp.run_id), place.quarantine, stamp)
    bad.unpersist()
