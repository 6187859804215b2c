"""Create and drop tables: ``create_table_as`` from a query, ``create_table`` from columns."""

import json
import uuid
from dataclasses import replace
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from medallion_assets.delta import log
from medallion_assets.delta.batches import newest_flows, table_of_quarantine
from medallion_assets.delta.commit import TIMES, Transaction, configured, signed
from medallion_assets.delta.names import literal, quoted
from medallion_assets.delta.rollback import check_format
from medallion_assets.session import start_session
from medallion_assets.session.catalog import asked, name_tables
from medallion_assets.settings import current_settings
from medallion_assets.sources.errors import SourceError, first_line
from medallion_assets.sources.load_target import OF_CHECKPOINT, NamedTable, remembered
from medallion_assets.sources.options import Source
from medallion_assets.storage import remove_tree
from medallion_assets.storage.lease import held, open_to_writers


def create_table_as(
    table_name: str,
    query: str | DataFrame,
    *,
    replace: bool = False,
    comment: str = "",
    spark: SparkSession | None = None,
) -> int:
    """Create a table from a query's current rows; later rows of its inputs are not added.

    To create a table from files with a quarantine for bad records, use ``copy_into`` on a new table.

    Args:
        table_name: ``pipeline.layer.table``, or bare, which is in ``default.bronze``.
        query: A frame, or Spark SQL.
        replace: Rewrite an existing table; its old rows stay in its history.
        comment: Delta's comment of the table.
        spark: The session to use; the project's own where it is None.

    Returns:
        The table's Delta version.

    Raises:
        SourceError: The table exists already and ``replace`` is false, runs or loads fill it, or its name
            is invalid.
        TableBusy: Another process writes the table.
    """
    settings, named = current_settings(), NamedTable.of(table_name)
    path = settings.lake / named.pipeline / named.layer / named.name
    check_format(settings.lake)
    with open_to_writers(settings.lake), held(named.lease(settings.lake), named.key):
        if log.exists(path) and not replace:
            raise SourceError(
                f"{named.key} exists already, at {path}. CREATE TABLE AS makes a table once: nothing was "
                "changed. Give replace=True to rewrite it, or use copy_into to append what is new."
            )
        if newest_flows(path):
            raise SourceError(
                f"{named.key}, at {path}, is filled by runs or loads, which would not bring again what a "
                "rewrite takes away. Nothing was changed: give the new table another name, or drop the "
                "old one first (DROP TABLE, or `medallion reset` for a declared one)."
            )
        rows = query if isinstance(query, DataFrame) else asked(spark or start_session(settings), query)
        _write(rows, path, named.key)
        if comment:
            properties = f"SET TBLPROPERTIES ('comment' = {literal(comment)})"
            rows.sparkSession.sql(f"ALTER TABLE delta.{quoted(str(path))} {properties}")
        if spark is None and isinstance(query, str):
            name_tables(rows.sparkSession, settings.lake)
    version = log.version(path)
    assert version is not None
    return version


DECLARED = "medallion.declaredColumns"
"""The Delta property of a table whose columns were declared: loads read files with their types."""


def create_table(
    table_name: str,
    columns: str,
    *,
    if_not_exists: bool = False,
    comment: str = "",
    spark: SparkSession | None = None,
) -> int:
    """Create an empty table; ``copy_into`` and ``autoload_to_table`` read files with its columns' types.

    Args:
        table_name: ``pipeline.layer.table``, or bare, which is in ``default.bronze``.
        columns: As DDL, ``id INT COMMENT 'its number', at TIMESTAMP``.
        if_not_exists: Do nothing where the table exists already.
        comment: Delta's comment of the table.
        spark: The session to use; the project's own where it is None.

    Returns:
        The table's Delta version.

    Raises:
        SourceError: The table exists already, its name is invalid, or the columns cannot be read.
        TableBusy: Another process writes the table.
    """
    settings, named = current_settings(), NamedTable.of(table_name)
    path = settings.lake / named.pipeline / named.layer / named.name
    check_format(settings.lake)
    with open_to_writers(settings.lake), held(named.lease(settings.lake), named.key):
        if not log.exists(path):
            session = spark or start_session(settings)
            note = {"run_id": uuid.uuid4().hex, "table": named.key, "query": "CREATE TABLE"}
            comment_clause = f"COMMENT {literal(comment)} " if comment else ""
            try:
                with signed(session, path, Transaction("", 0, note)):
                    session.sql(
                        f"CREATE TABLE delta.{quoted(str(path))} ({columns}) USING DELTA {comment_clause}"
                        f"TBLPROPERTIES ('{DECLARED}' = 'true')"
                    )
            except AnalysisException as error:
                raise SourceError(
                    f"{named.key} cannot be made of these columns: {first_line(error)}. Nothing was written."
                ) from error
        elif not if_not_exists:
            raise SourceError(
                f"{named.key} exists already, at {path}. Nothing was changed: say IF NOT EXISTS to leave it "
                f"as it is, or run `medallion cleanup`, which lists what can be removed."
            )
    version = log.version(path)
    assert version is not None
    return version


def drop_table(table_name: str, *, may_lack: bool = False) -> None:
    """Delete a table of notebook calls: its rows, quarantine, file ledger and checkpoint.

    The next load reads every landing file again. Landing files, bad records and other files in a checkpoint
    directory are kept.

    Args:
        table_name: ``pipeline.layer.table``, or bare, which is in ``default.bronze``.
        may_lack: Does nothing where there is no such table.

    Raises:
        SourceError: There is no such table, or its declaration fills it; nothing was removed.
        TableBusy: Another process writes the table.
    """
    lake, named = current_settings().lake, NamedTable.of(table_name)
    path, lease = lake / named.pipeline / named.layer / named.name, named.lease(lake)
    if not log.exists(path) and not may_lack:
        raise SourceError(f"{named.key}: there is no table at {path}. Nothing was removed.")
    check_format(lake)
    with open_to_writers(lake), held(lease, named.key):
        ledger = lake / named.pipeline / "_ledger" / named.name
        declared = any("code" in flow for flow in newest_flows(path).values())
        if declared or (named.layer == "bronze" and log.exists(ledger)):
            raise SourceError(
                f"{named.key} is filled by its declaration. Nothing was removed: `medallion reset "
                f"{named.key} --yes` removes it with all tables that are made from it."
            )
        target = remembered(named, lake)
        folders = [path, *(child for child in lease.parent.iterdir() if child != lease)]
        if target is not None:
            folders += [target.state / part for part in OF_CHECKPOINT]
            folders += [target.quarantine] if table_of_quarantine(target.quarantine) == named.key else []
        # The ledger before the table: a table without its ledger is known as lost, not as new.
        for folder in reversed(folders):
            remove_tree(folder) if folder.is_dir() else folder.unlink(missing_ok=True)
        if target is not None and target.state.is_dir() and not any(target.state.iterdir()):
            target.state.rmdir()


def of_declared_types(source: Source, path: Path) -> Source:
    """Return the source with the column types of a table that ``create_table`` made."""
    if source.schema or source.select or not log.exists(path) or DECLARED not in log.properties(path):
        return source
    columns = [f for f in log.spark_schema(path).fields if not f.name.startswith("_")]
    hints = [f"{quoted(f.name)} {f.dataType.simpleString()}" for f in columns]
    return replace(source, schema_hints=", ".join([*hints, *filter(None, [source.schema_hints])]))


def _write(rows: DataFrame, path: Path, key: str) -> None:
    note = json.dumps({"run_id": uuid.uuid4().hex, "table": key, "query": "CTAS"})
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    with configured(rows.sparkSession, TIMES):
        writer.option("userMetadata", note).save(str(path))
