"""Write bad records as files beside the quarantine, a folder for each micro-batch, and read them."""

from datetime import datetime, timezone
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.delta.commit import Transaction
from medallion_assets.delta.names import no_pattern
from medallion_assets.session import start_session
from medallion_assets.session.frames import frame_of
from medallion_assets.settings import current_settings, user_of
from medallion_assets.sources.load_target import LoadTarget
from medallion_assets.storage import path_of, port, storage_of

FOLDER = "bad_records"
COLUMNS = "path STRING, record STRING, reason STRING"


def write_bad_records(bad: DataFrame, place: LoadTarget, transaction: Transaction) -> None:
    """Write ``<bad_records_path>/<batch>/bad_records/part-*``: JSON lines of path, record and reason.

    The batch's folder is named by when its last files entered the ledger (``yyyyMMddTHHmmss``), the user's
    schema where there is one, the table, and the version of the ledger the batch ends at: no other batch
    writes it, and a batch that is repeated after a crash overwrites it, whichever of its files are left.
    """
    # An entry of the log that is gone must not keep the batch from being written.
    committed = next(log.newest_commits(place.ledger, transaction.version), {}).get("timestamp", 0)
    seen = datetime.fromtimestamp(committed / 1000, timezone.utc)
    owner = ".".join(filter(None, (user_of(place.path.parents[2]), *place.key.split("/"))))
    batch = f"{seen:%Y%m%dT%H%M%S}-{owner}-{transaction.version}"
    # A relative path lies in the pipeline's folder of the lake.
    target = place.path.parent.parent / place.source.bad_records_path / batch / FOLDER
    records = bad.selectExpr("_source_file AS path", "_raw AS record", "_reason AS reason")
    records.write.mode("overwrite").json(str(target))


def bad_records(folder: str | Path, spark: SparkSession | None = None) -> DataFrame:
    """Return the records that loads wrote to a ``bad_records_path``, none where there is no such folder.

    ``bad_records(folder).groupBy("path", "reason").count()`` are their statistics.

    Args:
        folder: The ``bad_records_path`` as loads or declarations have it: a relative one is looked for in
            the working folder and in the folder of each pipeline in the lake, where loads put it.
        spark: The session to use; the project's own is started where it is None.

    Returns:
        ``path`` (the landing file), ``record`` (its text), ``reason`` and ``batch`` (the batch's folder), all
        STRING.
    """
    settings = current_settings()
    session = spark or start_session(settings)
    lake = storage_of(str(settings.lake)).list(str(settings.lake))
    pipelines = [path_of(each.path) for each in lake if each.kind == port.FOLDER]
    # An absolute folder stays what it is, whatever it is joined to.
    places = {str(place / folder) for place in (Path.cwd(), *pipelines)}
    found = (batch.path for place in sorted(places) for batch in storage_of(place).list(place))
    batches = [f"{path}/{FOLDER}" for path in found]
    written = [no_pattern(path) for path in batches if storage_of(path).stat(path)]
    if not written:
        return frame_of(session, [], f"{COLUMNS}, batch STRING")
    read = session.read.schema(COLUMNS).json(written)
    return read.withColumn("batch", F.element_at(F.split("_metadata.file_path", "/"), -3))
