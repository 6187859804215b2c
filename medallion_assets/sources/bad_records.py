"""Malformed records as files, in the layout Databricks' ``badRecordsPath`` has."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from medallion_assets.sources.ledger import Entry


def export(records: DataFrame, folder: Path, files: Sequence[Entry]) -> None:
    """Write ``<folder>/<yyyyMMddTHHmmss>/bad_records/part-*``: JSON lines of path, record and reason.

    The time is when discovery saw the batch's last file, so that a replayed batch writes the same folder.
    """
    seen = max(file.discovered_at for file in files)
    target = folder / f"{seen:%Y%m%dT%H%M%S}" / "bad_records"
    bad = records.where("_reason IS NOT NULL")
    bad = bad.selectExpr("_source_file AS path", "_raw AS record", "_reason AS reason")
    bad.write.mode("overwrite").json(str(target))
