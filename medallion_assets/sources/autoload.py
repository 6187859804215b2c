"""``autoload_to_table``: the four-argument door to the whole of Auto Loader, for notebooks."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from medallion_assets.settings import current_settings
from medallion_assets.sources.load_target import NamedTable, source_of
from medallion_assets.sources.loaders import LoadResult, load_new
from medallion_assets.sources.walking import local_path


def autoload_to_table(
    data_source: str | Path,
    source_format: str,
    table_name: str,
    checkpoint_directory: str | Path,
    *,
    spark: SparkSession | None = None,
    **options: Any,
) -> LoadResult:
    """Loads the files that are new at a source into a table, each exactly once.

    Good records reach ``<lake>/<pipeline>/<layer>/<table>``; what cannot be a row stands in
    ``<lake>/<pipeline>/quarantine/<table>`` with its text, reason and file; what no column takes, in
    ``_rescued_data``. The schema is inferred and grows with the files unless ``schema`` fixes it.

    Args:
        data_source: A folder, file or glob.
        source_format: ``json``, ``csv``, ``parquet``, ``avro``, ``orc``, ``text``, ``xml``, ``binaryFile``.
        table_name: ``pipeline.layer.table``, or bare, which is in ``default.bronze``.
        checkpoint_directory: The folder of this load's own: stream, file ledger and schema versions.
            Losing it loses and doubles nothing.
        spark: The session to use; the project's own is started where it is None and something is new.
        options: Those of ``sources.Source`` (``schema_hints=``, ``infer_column_types=`` …), the format's
            reader options (``sep=``, ``header=``, ``rowTag=`` …), and both by the names of
            ``option_names`` (``**{"cloudFiles.schemaHints": ...}``, ``mergeSchema=True`` …).

    Raises:
        SourceError: An option or the table's name cannot work; nothing was read.
        TableBusy: Another process writes the table.
        TableLost: The table is gone, and files are on record as loaded into it.
        BatchRefused: ``FAILFAST`` or ``failOnNewColumns`` stopped a batch; nothing of it was written.
    """
    settings, named = current_settings(), NamedTable.of(table_name)
    source = source_of(named.name, source_format, str(local_path(str(data_source))), options)
    state = local_path(str(checkpoint_directory))
    return load_new(named.place(settings.lake, state, source), named.lease(settings.lake), spark, settings)
