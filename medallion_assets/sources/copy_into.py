"""The loaders of notebooks: ``autoload_to_table`` and ``copy_into``."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from medallion_assets.session import start_session
from medallion_assets.settings import current_settings
from medallion_assets.sources.create_table import of_declared_types
from medallion_assets.sources.discovery import DiscoveryOptions, unseen_files
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.ledger import COPY_INTO
from medallion_assets.sources.listing import listing, namer
from medallion_assets.sources.load_result import LoadResult
from medallion_assets.sources.load_target import LoadTarget, NamedTable, refuse_other_writers, source_of
from medallion_assets.sources.loaders import load_new
from medallion_assets.sources.option_names import is_true
from medallion_assets.sources.options import Source
from medallion_assets.sources.validate import Validation, validated
from medallion_assets.sources.walking import folder_of, local_path, location_of
from medallion_assets.storage import is_object, storage_of

MOST_FILES = 1000
"""COPY INTO's limit on the number of FILES."""


@dataclass(frozen=True)
class CopyResult:
    """COPY INTO's result columns, and further results.

    Attributes:
        num_affected_rows, num_inserted_rows: Rows appended to the table; 0 on a repeated call.
        num_skipped_corrupt_files: Files that could not be read; a later call loads a repaired file.
        load: All numbers of the load, None after ``validate``.
        validation: The result of ``validate``, None without it.
        message: Why no file was read, empty where some were.
    """

    num_affected_rows: int
    num_inserted_rows: int
    num_skipped_corrupt_files: int
    load: LoadResult | None = None
    validation: Validation | None = None
    message: str = ""


def copy_into(
    table_name: str,
    data_source: str | Path,
    source_format: str,
    *,
    files: Sequence[str] = (),
    pattern: str = "",
    force: bool = False,
    merge_schema: bool = False,
    select: Sequence[str] = (),
    validate: int | str = 0,
    format_options: Mapping[str, Any] | None = None,
    copy_options: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
    **options: Any,
) -> CopyResult:
    """Append the files of a source that the table has not loaded yet; a repeated call appends none.

    The table itself records the loaded files, not a checkpoint. A record that is malformed, has a value of
    the wrong type, or fails in an expression of ``select``, goes to the table's quarantine and the load
    continues; fields without a column are in ``_rescued_data``. A call loads only the files that its clauses
    choose.

    Args:
        table_name: ``pipeline.layer.table``, or bare, which is in ``default.bronze``.
        data_source: A folder, file or glob.
        source_format: As for ``autoload_to_table``.
        files: Names below ``data_source``, at most 1,000 (FILES); not together with ``pattern``.
        pattern: A glob for file names (PATTERN).
        force: Appends files that were loaded before once more; needs ``files`` or ``pattern``.
        merge_schema: New columns join the table; without it they stop the load, and nothing is written.
        select: Columns as strict Spark SQL over the files' columns, one row for each record; ``*``,
            ``* EXCEPT (a)`` and ``_metadata.file_path``, ``file_name`` and ``file_modification_time`` too.
        validate: A number of rows, or ``"ALL"``: reads and judges what a load would take, writes nothing.
        format_options: The reader's options by their names in FORMAT_OPTIONS; ``inferSchema`` among them.
        copy_options: ``force`` and ``mergeSchema`` by their names in COPY_OPTIONS.
        spark: The session to use; the project's own where it is None and there is something to load.
        options: Further options of ``sources.Source``, also by the names of ``option_names``.

    Raises:
        SourceError: A clause contradicts another or is unknown; nothing was read.
        NewColumns: The files or ``select`` have columns the table has not, and ``merge_schema`` is false.
        TableBusy: Another process writes the table.
        TableLost: The table is gone, and files are on record as loaded into it.
    """
    copying = {"force": force, "mergeSchema": merge_schema} | _copy_options(copy_options or {})
    if "mergeSchema" in options:
        copying["mergeSchema"] = is_true(options.pop("mergeSchema"))
    _refuse_contradictions(files, pattern, copying["force"])
    settings, named, root = current_settings(), NamedTable.of(table_name), location_of(str(data_source))
    # FORMAT_OPTIONS' own mergeSchema asks for what is always so: the files' columns are put together.
    readers = {k: v for k, v in (format_options or {}).items() if k.lower() != "mergeschema"}
    defaults = _defaults(source_format, copying["mergeSchema"])
    source = source_of(named.name, source_format, str(root), {**readers, **options}, defaults)
    if source.file_events or source.use_incremental_listing:
        raise SourceError(
            "COPY INTO lists the files its clauses choose: it takes no file_events and no "
            "use_incremental_listing, which are for autoload_to_table and declared tables"
        )
    source = replace(source, select=tuple(select), path_glob_filter=pattern or source.path_glob_filter)
    source = of_declared_types(source, settings.lake / named.pipeline / named.layer / named.name)
    state = settings.lake / named.pipeline / "_state" / named.layer / named.name / COPY_INTO
    place = named.place(settings.lake, state, source)
    # As the ledger names them: its root may be wider or narrower than this call's source.
    only = {namer(place.root)(_below(root, name)) for name in files} or None
    _refuse_files(root, files, source)
    look = DiscoveryOptions(settings.settle_seconds, only, copying["force"], must_exist=True)
    if validate:
        refuse_other_writers(place, settings.lake)
        judged = validated(place, look, _rows_to_validate(validate), lambda: spark or start_session(settings))
        message = "" if judged.files else _nothing_read(root, source, pattern, place, look)
        return CopyResult(0, 0, judged.corrupt_files, validation=judged, message=message)
    load = load_new(place, named.lease(settings.lake), spark, settings, look)
    message = "" if load.files else _nothing_read(root, source, pattern, place, look)
    return CopyResult(load.rows_loaded, load.rows_loaded, load.files_refused, load, message=message)


def _rows_to_validate(validate: int | str) -> int:
    return -1 if str(validate).upper() == "ALL" else int(validate)


def _below(root: Path | str, name: str) -> str:
    return f"{root}/{name}" if is_object(str(root)) else os.path.normpath(Path(root, name))


def _refuse_files(root: Path | str, files: Sequence[str], source: Source) -> None:
    if files and folder_of(root) != str(root):
        raise SourceError(f"FILES names files below a folder, and {root} is none; nothing was read")
    absent = [name for name in files if not storage_of(_below(root, name)).stat(_below(root, name))]
    if absent:
        names = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        raise SourceError(f"FILES names {names}: there is no such file below {root}; nothing was read")
    for name in files:
        if why := source.passes_over(Path(name).name):
            raise SourceError(f"FILES names {name}, which is never taken ({why}); nothing was read")


def _nothing_read(
    root: Path | str, source: Source, pattern: str, place: LoadTarget, look: DiscoveryOptions
) -> str:
    """Return why a call read no file."""
    matching = f" matches PATTERN {pattern!r}" if pattern else ""
    if not listing(place.landing, place.root, source, {}).matched:
        return f"no file below {root}{matching or ' is meant for loading'}"
    patient = replace(look, settle_seconds=0, again=False)
    waiting = [
        file.path for file in unseen_files(root, place.ledger, replace(source, settle_seconds=0), patient)
    ]
    if waiting:
        words = f"{len(waiting)} files are too young or cannot be read yet and wait for a later call"
        return f"{words}: {waiting[0]}"
    return f"every file below {root} that{matching or ' is meant for loading'} was loaded before"


def _refuse_contradictions(files: Sequence[str], pattern: str, force: bool) -> None:
    if files and pattern:
        raise SourceError("FILES and PATTERN exclude each other; give one")
    if len(files) > MOST_FILES:
        raise SourceError(f"FILES takes at most {MOST_FILES} names, not {len(files)}; use PATTERN")
    climbing = [name for name in files if Path(name).is_absolute() or ".." in Path(name).parts]
    if climbing:
        raise SourceError(f"FILES takes names below the source, not {climbing[0]!r}")
    if force and not (files or pattern):
        raise SourceError(
            "FORCE appends every file again, doubling its rows: say which with FILES or PATTERN ('*' is all)"
        )


def _copy_options(copy_options: Mapping[str, Any]) -> dict[str, bool]:
    spelled = {name.lower(): name for name in ("force", "mergeSchema")}
    unknown = [name for name in copy_options if name.lower() not in spelled]
    if unknown:
        raise SourceError(f"COPY_OPTIONS has no option {unknown[0]}; there are force and mergeSchema")
    try:
        return {spelled[name.lower()]: is_true(value) for name, value in copy_options.items()}
    except ValueError as error:
        raise SourceError(f"COPY_OPTIONS: {error}") from error


def _defaults(source_format: str, merge_schema: bool) -> dict[str, Any]:
    return {
        "infer_column_types": source_format.lower() in ("json", "xml"),
        "schema_evolution_mode": "addNewColumns" if merge_schema else "failOnNewColumns",
        "mistyped": "QUARANTINE",
    }


def autoload_to_table(
    data_source: str | Path,
    source_format: str,
    table_name: str,
    checkpoint_directory: str | Path,
    *,
    spark: SparkSession | None = None,
    **options: Any,
) -> LoadResult:
    """Load the new files of a source into a table, each exactly once.

    Good records are written to ``<lake>/<pipeline>/<layer>/<table>``; malformed records to
    ``<lake>/<pipeline>/quarantine/<table>`` with their text, reason and file; fields without a column to
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
    source = source_of(named.name, source_format, str(location_of(str(data_source))), options)
    source = of_declared_types(source, settings.lake / named.pipeline / named.layer / named.name)
    state = local_path(str(checkpoint_directory))
    return load_new(named.place(settings.lake, state, source), named.lease(settings.lake), spark, settings)
