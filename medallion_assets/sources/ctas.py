"""``create_table_as``: a table made once from a query or from files, with no memory of them."""

import json
import uuid
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from medallion_assets.delta import log
from medallion_assets.delta.commit import TIMES, configured
from medallion_assets.delta.format import check_format
from medallion_assets.delta.lease import held
from medallion_assets.session import start_session
from medallion_assets.session.catalog import name_tables
from medallion_assets.settings import current_settings
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.load_target import NamedTable


def create_table_as(
    table_name: str, query: str | DataFrame, *, replace: bool = False, spark: SparkSession | None = None
) -> int:
    """Make a table of what a query gives now; later rows of its inputs never reach it.

    To make one from files with bad records kept aside, use ``copy_into`` on a new table.

    Args:
        table_name: ``pipeline.layer.table``, or bare, which is in ``default.bronze``.
        query: A frame, or Spark SQL; a Delta table in it is named by its path.
        replace: Rewrites a table that stands; its old rows stay in its history.
        spark: The session to use; the project's own where it is None.

    Returns:
        The table's Delta version.

    Raises:
        SourceError: The table stands already and ``replace`` is false, or its name cannot work.
        TableBusy: Another process writes the table.
    """
    settings, named = current_settings(), NamedTable.of(table_name)
    path = settings.lake / named.pipeline / named.layer / named.name
    check_format(settings.lake)
    with held(named.lease(settings.lake), named.key):
        if log.exists(path) and not replace:
            raise SourceError(
                f"{named.key} stands already, at {path}. CREATE TABLE AS makes a table once: nothing was "
                "changed. Give replace=True to rewrite it, or use copy_into to append what is new."
            )
        rows = query if isinstance(query, DataFrame) else (spark or start_session(settings)).sql(query)
        _write(rows, path, named.key)
        if spark is None and isinstance(query, str):
            name_tables(rows.sparkSession, settings.lake)
    version = log.version(path)
    assert version is not None
    return version


def _write(rows: DataFrame, path: Path, key: str) -> None:
    note = json.dumps({"run_id": uuid.uuid4().hex, "table": key, "query": "CTAS"})
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    with configured(rows.sparkSession, TIMES):
        writer.option("userMetadata", note).save(str(path))
