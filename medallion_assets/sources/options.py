"""The options of a bronze table's source; names and meanings follow Auto Loader."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from medallion_assets.sources.errors import SourceError, seconds_of
from medallion_assets.sources.evolution import is_column
from medallion_assets.sources.kafka import Topic, wrong_with_topic
from medallion_assets.sources.option_names import MALFORMED, refused, wrong_with_reader
from medallion_assets.sources.select_list import select_problems, split_columns
from medallion_assets.sources.walking import location_of

EVOLUTION_MODES = ("addNewColumns", "addNewColumnsWithTypeWidening", "rescue", "failOnNewColumns", "none")
CLEANING = ("OFF", "MOVE", "DELETE")
LEAST_DAYS_TO_DELETE = 7
"""As in Auto Loader: a deleted file cannot be read again."""

OVERWRITES = ("ignore", "append", "replace")
MISTYPED = ("RESCUE", "QUARANTINE")
DETECTION = ("stat", "content")
FIXED = ("text", "binaryFile")
"""Formats whose columns never change."""

RESCUED = "_rescued_data"
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,126}")


def problems_of(source: "Source") -> list[str]:
    """Return the problems of a source's options."""
    fixed = source.format in FIXED and source.schema
    problems = ["its columns are fixed; it takes no schema"] if fixed else []
    problems += [_wrong_ddl(source.schema), _wrong_ddl(_flat(source.schema_hints))]
    problems += [
        f"its schema cannot have a column {name!r}: the engine or Delta keeps the name, and a field of that "
        "name goes to the rescued data"
        for name in declared_columns(source.schema)
        if not is_column(name) and name not in (source.rescued, source.corrupt_column)
    ]
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
    problems += _wrong_path(source.path) if source.path else []
    for column in (source.rescued_data_column or RESCUED, source.corrupt_column):
        if not COLUMN.fullmatch(column):
            problems.append(f"{column!r} is no column name")
    if min(source.max_files_per_trigger, source.max_bytes_per_trigger, source.max_columns) < 1:
        problems.append("a trigger takes at least one file and one byte, a table has at least one column")
    problems += wrong_with_topic(source) if source.kafka else []
    return [*problems, *_wrong_times(source), *_wrong_cleaning(source), *select_problems(source)]


def declared_columns(ddl: str) -> list[str]:
    """Return the columns that a schema declares; none where it cannot be read."""
    if not ddl or _wrong_ddl(ddl):
        return []
    tree = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", dialect="spark")
    return [column.name for column in tree.this.expressions if isinstance(column, exp.ColumnDef)]


def _wrong_path(path: str) -> list[str]:
    try:
        location_of(path)
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
    queue = source.file_events
    if queue and not re.match(r"https?://[^/]+/\S+", queue):
        problems.append(f"file_events={queue!r} is not the URL of an SQS queue, https://...")
    if queue and source.path and not source.path.startswith("s3://"):
        problems.append(f"file_events are S3's notifications, and the path {source.path} is not in S3")
    if queue and source.use_incremental_listing:
        problems.append("file_events and use_incremental_listing exclude each other; give one")
    return problems


def _flat(hints: str) -> str:
    # A nested name, a.b.c, is no column definition to a SQL parser; its type is what is to be read.
    return re.sub(
        r"(^|,)(\s*)([\w]+(?:\.[\w]+)+)(?=\s)", lambda m: m[1] + m[2] + m[3].replace(".", "_"), hints
    )


def _wrong_ddl(ddl: str) -> str:
    """Read a schema without Spark, so that a syntax error is found when the declaration loads."""
    try:
        sqlglot.parse_one(f"CREATE TABLE t ({ddl})" if ddl else "SELECT 1", dialect="spark")
    except SqlglotError as error:
        return f"{ddl!r} is no list of columns and types: {error}"
    return ""


Format = Literal["json", "csv", "parquet", "avro", "orc", "text", "xml", "binaryFile"]
TEMPORARY_ENDINGS = (".tmp", ".part", ".crdownload", "._COPYING_")
CORRUPT = "_corrupt_record"


@dataclass(frozen=True)
class Source:
    """A landing zone and how its files are read.

    Attributes:
        name: The folder's name below the pipeline's landing folder.
        format: ``json``, ``csv``, ``parquet``, ``avro``, ``orc``, ``text``, ``xml`` or ``binaryFile``.
        path: A folder, file or glob elsewhere; ``*``, ``?`` and ``[...]`` match within one path part,
            ``**`` any depth.
        schema: Columns as DDL, ``"mrn BIGINT, time DOUBLE"``; inferred from the files where empty.
        schema_hints: DDL whose types win; ``address.zip STRING`` reaches into a struct.
        infer_column_types: Types from the values for json, csv and xml; without it their columns are
            strings, as Auto Loader has it, and no value is mistyped.
        schema_evolution_mode: One of ``EVOLUTION_MODES``; ``addNewColumns`` without a schema, ``none`` with.
            Tables of ``addNewColumnsWithTypeWidening`` can be read by Spark, but not by ``deltalake``.
        rescued_data_column: Where fields that no column takes go, ``_rescued_data``; with an empty name
            nowhere: they are left out.
        mistyped: What becomes of a value that does not fit its column: ``RESCUE`` keeps it in the rescued
            data column, ``QUARANTINE`` treats its record as ``malformed`` says. ``RESCUE`` where the schema
            is inferred, the mode is ``rescue`` or ``rescued_data_column`` is given; else ``QUARANTINE``.
        malformed: ``QUARANTINE``; or as in Spark ``PERMISSIVE`` (the record in ``corrupt_column``),
            ``DROPMALFORMED`` (counted) or ``FAILFAST`` (nothing of the batch is written).
        corrupt_column: The column ``PERMISSIVE`` keeps malformed records in.
        bad_records_path: A folder that gets malformed records as JSON lines of path, record and reason, a
            folder for each micro-batch, beside the quarantine; ``bad_records`` reads them.
        partition_columns: Keys of ``key=value`` folders to keep as columns; all that are found where None.
        path_glob_filter: Only file names that match are taken.
        recursive_file_lookup: Folders below are looked into as well (Auto Loader's default loses them).
        include_existing_files: False passes over what lies there at the first look.
        modified_after, modified_before: Only files of that time, exclusive; ISO 8601, UTC where no zone.
        allow_overwrites: ``ignore`` keeps a file's first contents, ``append`` loads its new ones as well,
            ``replace`` puts them in the place of the first, in one commit, here and downstream.
        change_detection: ``stat`` knows a changed file by its size and modification time; ``content`` reads
            every file at every look and finds changes that keep both.
        settle_seconds: Age a file needs before it is taken; the deployment's setting where None.
        max_files_per_trigger: Files a micro-batch reads at most.
        max_bytes_per_trigger: Bytes a micro-batch reads at most; one file is always taken.
        clean_source: ``MOVE`` or ``DELETE`` takes files away once every reader has committed them; ``OFF``.
        clean_source_retention_days: How long after; more than 7 for ``DELETE``.
        clean_source_move_destination: The folder ``MOVE`` moves to, outside of the source.
        backfill_interval: A pass over everything in the landing zone, minus the ledger, is asked for at least
            this often (``1 day``), though nothing new was seen; it also takes away what ``clean_source`` may.
            ``1 day`` where files are found by events or after a name.
        file_events: The URL of an SQS queue that gets S3's notifications of this source alone: a look takes
            the objects they name, and lists the source as often as ``backfill_interval`` says.
        use_incremental_listing: Between such listings list only names after the last one, in an object store
            and as long as names are seen to follow the times of their files.
        max_columns: Columns evolution stops at; further fields are rescued.
        select: Columns as SQL expressions, applied to each record (COPY INTO's select list).
        reader_options: Options of the format's reader; an unknown one is an error.
        kafka: The topic whose messages a run lands there as files, each value one record of the format.

    Raises:
        SourceError: An option is unknown, out of range or contradicts another.
    """

    name: str
    format: Format
    path: str = ""
    schema: str = ""
    schema_hints: str = ""
    infer_column_types: bool = False
    schema_evolution_mode: str = ""
    rescued_data_column: str | None = None
    mistyped: str = ""
    malformed: str = "QUARANTINE"
    corrupt_column: str = CORRUPT
    bad_records_path: str = ""
    partition_columns: tuple[str, ...] | None = None
    path_glob_filter: str = "*"
    recursive_file_lookup: bool = True
    include_existing_files: bool = True
    modified_after: str = ""
    modified_before: str = ""
    allow_overwrites: str = "ignore"
    change_detection: str = "stat"
    settle_seconds: float | None = None
    max_files_per_trigger: int = 1000
    max_bytes_per_trigger: int = 4 << 30
    clean_source: str = "OFF"
    clean_source_retention_days: float = 30
    clean_source_move_destination: str = ""
    backfill_interval: str = ""
    file_events: str = ""
    use_incremental_listing: bool = False
    max_columns: int = 1000
    select: tuple[str, ...] = ()
    reader_options: dict[str, str] = field(default_factory=dict, hash=False)
    kafka: Topic | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        wrong = (wrong_with_reader(self.format, self.reader_options), *problems_of(self))
        for problem in filter(None, wrong):
            raise refused(self.name, problem)

    @property
    def evolution(self) -> str:
        """The evolution mode in force."""
        return self.schema_evolution_mode or ("none" if self.schema else "addNewColumns")

    @property
    def backfill(self) -> str:
        """The backfill interval in force, empty where each look lists the whole source and none is due."""
        narrow = self.file_events or self.use_incremental_listing
        return self.backfill_interval or ("1 day" if narrow else "")

    @property
    def rescued(self) -> str:
        """The rescued data column in force, empty for none."""
        if self.format in FIXED:
            return ""
        if self.rescued_data_column is not None:
            return self.rescued_data_column
        return RESCUED

    @property
    def rescues_values(self) -> bool:
        """Return true where a value that does not fit its column is kept in the rescued data column."""
        if self.mistyped or not self.rescued:
            return self.mistyped == "RESCUE"
        return bool(self.rescued_data_column) or self.evolution == "rescue" or not self.schema

    @property
    def learns(self) -> bool:
        """Return true where its columns come from the files, at first or always."""
        return self.format not in FIXED and (not self.schema or self.evolution not in ("none", "rescue"))

    @property
    def typed(self) -> bool:
        """Return true where values may not fit their column's type."""
        return self.infer_column_types or bool(self.schema or self.schema_hints)

    def declared_columns(self) -> set[str]:
        """Return the names of the columns whose types ``schema`` or ``schema_hints`` declare."""
        names = set()
        for column in split_columns(self.schema) + split_columns(self.schema_hints):
            found = re.match(r"\s*(?:`((?:[^`]|``)*)`|([^\s:.]*))", column)
            assert found is not None
            names.add(found[2] if found[1] is None else found[1].replace("``", "`"))
        return names

    def option(self, *names: str, default: str) -> str:
        """Return a reader option under any of its names."""
        return next((self.reader_options[n] for n in names if n in self.reader_options), default)

    def takes(self, file_name: str) -> bool:
        """Return true where a file of this name is to be loaded.

        Names that start with ``_`` or ``.``, or end like an unfinished copy, are never loaded.
        """
        return not self.passes_over(file_name)

    def passes_over(self, file_name: str) -> str:
        """Return why a file of this name is not loaded, empty where it is."""
        if file_name.startswith(("_", ".")):
            return "hidden: its name starts with _ or ."
        if file_name.endswith(TEMPORARY_ENDINGS):
            return "under way: its name ends as unfinished copies do"
        fits = self.path_glob_filter == "*" or fnmatchcase(file_name, self.path_glob_filter)
        return "" if fits else "does not match path_glob_filter"
