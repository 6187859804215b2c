"""What a source's options may not say, alone or together."""

import re
from datetime import datetime
from typing import TYPE_CHECKING

import sqlglot
from sqlglot.errors import SqlglotError

from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.intervals import seconds_of
from medallion_assets.sources.reader_options import MALFORMED
from medallion_assets.sources.select_list import select_problems
from medallion_assets.sources.walking import local_path

if TYPE_CHECKING:
    from medallion_assets.sources.options import Source

EVOLUTION_MODES = ("addNewColumns", "addNewColumnsWithTypeWidening", "rescue", "failOnNewColumns", "none")
CLEANING = ("OFF", "MOVE", "DELETE")
LEAST_DAYS_TO_DELETE = 7
"""As in Auto Loader: what is deleted cannot be read again."""

OVERWRITES = ("ignore", "append", "replace")
MISTYPED = ("RESCUE", "QUARANTINE")
DETECTION = ("stat", "content")
FIXED = ("text", "binaryFile")
"""Formats whose columns never change."""

RESCUED = "_rescued_data"
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,126}")


def problems_of(source: "Source") -> list[str]:
    """Say what is wrong with a source's options, in words."""
    problems = (
        ["its columns are fixed; it takes no schema"] if source.format in FIXED and source.schema else []
    )
    problems += [_wrong_ddl(source.schema), _wrong_ddl(_flat(source.schema_hints))]
    if source.schema_evolution_mode not in ("", *EVOLUTION_MODES):
        problems.append(f"schema_evolution_mode {source.schema_evolution_mode!r} is no mode of evolution")
    if source.schema and source.schema_evolution_mode.startswith("addNewColumns"):
        problems.append("a schema is fixed; to let it grow, give its columns as schema_hints instead")
    if source.malformed not in MALFORMED:
        problems.append(f"malformed={source.malformed!r} is not one of {', '.join(MALFORMED)}")
    if source.mistyped not in ("", *MISTYPED):
        problems.append(f"mistyped={source.mistyped!r} is not one of {', '.join(MISTYPED)}")
    if source.mistyped == "RESCUE" and not source.rescued:
        problems.append("mistyped='RESCUE' needs a rescued_data_column")
    if source.allow_overwrites not in OVERWRITES:
        problems.append(f"allow_overwrites={source.allow_overwrites!r} is not one of {', '.join(OVERWRITES)}")
    if source.change_detection not in DETECTION:
        problems.append(f"change_detection={source.change_detection!r} is not one of {', '.join(DETECTION)}")
    if source.path:
        problems += _wrong_path(source.path)
    for column in (source.rescued_data_column or RESCUED, source.corrupt_column):
        if not COLUMN.fullmatch(column):
            problems.append(f"{column!r} is no column name")
    if min(source.max_files_per_trigger, source.max_bytes_per_trigger, source.max_columns) < 1:
        problems.append("a trigger takes at least one file and one byte, a table has at least one column")
    return [*problems, *_wrong_times(source), *_wrong_cleaning(source), *select_problems(source)]


def _wrong_path(path: str) -> list[str]:
    try:
        local_path(path)
    except SourceError as error:
        return [str(error)]
    return []


def _wrong_cleaning(source: "Source") -> list[str]:
    mode, to = source.clean_source, source.clean_source_move_destination
    problems = [] if mode in CLEANING else [f"clean_source={mode!r} is not one of {', '.join(CLEANING)}"]
    if (mode == "MOVE") != bool(to):
        problems.append("clean_source MOVE and clean_source_move_destination need each other")
    if mode == "DELETE" and source.clean_source_retention_days <= LEAST_DAYS_TO_DELETE:
        problems.append(f"clean_source DELETE needs a retention of more than {LEAST_DAYS_TO_DELETE} days")
    if source.clean_source_retention_days < 0:
        problems.append("a retention is not negative")
    return problems


def _wrong_times(source: "Source") -> list[str]:
    problems = []
    for name in ("modified_after", "modified_before"):
        try:
            datetime.fromisoformat(getattr(source, name) or "2000-01-01")
        except ValueError as error:
            problems.append(f"{name}: {error}")
    try:
        seconds_of(source.backfill_interval or "1 day")
    except ValueError as error:
        problems.append(f"backfill_interval: {error}")
    return problems


def _flat(hints: str) -> str:
    # A nested name, a.b.c, is no column definition to a SQL parser; its type is what is to be read.
    return re.sub(
        r"(^|,)(\s*)([\w]+(?:\.[\w]+)+)(?=\s)", lambda m: m[1] + m[2] + m[3].replace(".", "_"), hints
    )


def _wrong_ddl(ddl: str) -> str:
    """Read a schema without Spark: a slip in it is to be known when the declaration loads."""
    try:
        sqlglot.parse_one(f"CREATE TABLE t ({ddl})" if ddl else "SELECT 1", dialect="spark")
    except SqlglotError as error:
        return f"{ddl!r} is no list of columns and types: {error}"
    return ""
