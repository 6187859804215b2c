"""The options each reader takes, and what the names of Databricks and Spark mean here."""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from medallion_assets.delta.names import quoted
from medallion_assets.sources.errors import SourceError, seconds_of

MALFORMED = ("QUARANTINE", "PERMISSIVE", "DROPMALFORMED", "FAILFAST")

_TIMES = {"dateFormat", "timestampFormat", "locale"}
READER_OPTIONS: dict[str, frozenset[str]] = {
    "json": frozenset({"multiLine", "encoding", "timestampNTZFormat", *_TIMES}),
    "csv": frozenset(
        {"sep", "delimiter", "quote", "escape", "header", "encoding", "charset", "nullValue", "comment"}
        | {"dateFormat", "timestampFormat"}
    ),
    "xml": frozenset({"rowTag", "attributePrefix", "valueTag", *_TIMES}),
    "text": frozenset({"encoding", "wholetext"}),
    "parquet": frozenset({"datetimeRebaseMode", "int96RebaseMode"}),
    "avro": frozenset(),
    "orc": frozenset(),
    "binaryFile": frozenset(),
}
"""By format. What would make a reader lenient (single quotes, comments, lost files) is not among them."""

FORMATS = tuple(READER_OPTIONS)
SAME_MEANING = (("sep", "delimiter"), ("encoding", "charset"))
ONE_CHARACTER = ("sep", "delimiter", "quote", "escape", "comment")
TRUE_OR_FALSE = ("header", "wholetext")


def wrong_with_reader(source_format: str, options: Mapping[str, str]) -> str:
    """Say what is wrong with a format's reader options, empty where nothing is."""
    if source_format not in FORMATS:
        return f"format {source_format!r} is not one of {', '.join(FORMATS)}"
    unknown = sorted(set(options) - READER_OPTIONS[source_format])
    if unknown:
        known = ", ".join(sorted(READER_OPTIONS[source_format])) or "none"
        return f"no {source_format} reader option {', '.join(unknown)}; there are: {known}"
    for pair in SAME_MEANING:
        if set(pair) <= set(options):
            return f"{pair[0]} and {pair[1]} are one option under two names; give one"
    if source_format == "xml" and not options.get("rowTag"):
        return "xml needs the reader option rowTag: which element is a record"
    return _wrong_value(options)


def _wrong_value(options: Mapping[str, str]) -> str:
    wide = [name for name in ONE_CHARACTER if len(options.get(name, " ")) != 1]
    if wide:
        return f"{wide[0]}={options[wide[0]]!r} must be one character"
    odd = [name for name in TRUE_OR_FALSE if options.get(name, "true") not in ("true", "false")]
    if odd:
        return f"{odd[0]}={options[odd[0]]!r} must be true or false"
    if options.get("multiLine", "auto") not in ("auto", "true", "false"):
        return f"multiLine={options['multiLine']!r} must be auto, true or false"
    marks = [options.get("sep", options.get("delimiter", ",")), options.get("quote", '"')]
    marks += [options["comment"]] if "comment" in options else []
    if len(set(marks)) < len(marks):
        return "sep, quote and comment must be different characters"
    return _wrong_encoding(options)


def _wrong_encoding(options: Mapping[str, str]) -> str:
    name = options.get("encoding", options.get("charset", "utf-8"))
    try:
        "".encode(name)
    except LookupError:
        return f"no encoding is called {name!r}"
    return ""


def refused(source: str, problem: str) -> SourceError:
    """Return the error for a source that cannot work."""
    return SourceError(f"source {source!r}: {problem}")


PREFIX = "cloudfiles."
CALLS = ("files", "pattern", "force", "merge_schema", "select", "validate", "format_options", "copy_options")
"""Keywords of the calls themselves, which a slip of the pen may have meant."""

UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def is_true(value: Any) -> bool:
    """Return a truth value that may be given as text.

    Raises:
        ValueError: It is neither true nor false.
    """
    if str(value).lower() not in ("true", "false"):
        raise ValueError(f"{value!r} is not true or false")
    return str(value).lower() == "true"


def _bytes(value: Any) -> int:
    text = str(value).strip().lower().removesuffix("b") or "b"
    number, unit = (text[:-1], text[-1]) if text[-1] in UNITS else (text, "b")
    return int(float(number) * UNITS[unit])


def _days(value: Any) -> float:
    text = str(value).strip().lower()
    return seconds_of(text.removeprefix("interval ").replace("'", "").strip()) / 86400


def _columns(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    return tuple(name.strip() for name in names if name.strip())


def _upper(value: Any) -> str:
    return str(value).upper()


def _incremental(value: Any) -> bool:
    return str(value).lower() == "auto" or is_true(value)


def _overwrites(value: Any) -> str:
    return "append" if is_true(value) else "ignore"


@dataclass(frozen=True)
class OptionName:
    """A name people type.

    Attributes:
        name: As Databricks or Spark spells it; ``cloudFiles.`` before it may be left out or added.
        ours: The option of ``Source`` it is; empty where it is none.
        reads: Makes our value of theirs.
        only: The one value that is accepted, since it is what always happens here; any where empty.
        why: What is different, or why there is no such option.
        refused: True where no value of it is accepted.
    """

    name: str
    ours: str = ""
    reads: Callable[[Any], Any] = str
    only: str = ""
    why: str = ""
    refused: bool = False


NAMES = (
    OptionName("cloudFiles.inferColumnTypes", "infer_column_types", is_true),
    OptionName("inferSchema", "infer_column_types", is_true),
    OptionName("cloudFiles.schemaHints", "schema_hints"),
    OptionName("cloudFiles.schemaEvolutionMode", "schema_evolution_mode"),
    OptionName("cloudFiles.rescuedDataColumn", "rescued_data_column"),
    OptionName("cloudFiles.partitionColumns", "partition_columns", _columns),
    OptionName("cloudFiles.includeExistingFiles", "include_existing_files", is_true),
    OptionName("cloudFiles.allowOverwrites", "allow_overwrites", _overwrites, why="true is append"),
    OptionName("cloudFiles.maxFilesPerTrigger", "max_files_per_trigger", int),
    OptionName("cloudFiles.maxBytesPerTrigger", "max_bytes_per_trigger", _bytes),
    OptionName("cloudFiles.backfillInterval", "backfill_interval"),
    OptionName("cloudFiles.cleanSource", "clean_source", _upper),
    OptionName("cloudFiles.cleanSource.retentionDuration", "clean_source_retention_days", _days),
    OptionName("cloudFiles.cleanSource.moveDestination", "clean_source_move_destination"),
    OptionName("badRecordsPath", "bad_records_path", why="beside the quarantine, which is always written"),
    OptionName("columnNameOfCorruptRecord", "corrupt_column"),
    OptionName("mode", "malformed", _upper, why="besides, and by default: QUARANTINE"),
    OptionName("pathGlobFilter", "path_glob_filter"),
    OptionName("fileNamePattern", "path_glob_filter"),
    OptionName("modifiedAfter", "modified_after"),
    OptionName("modifiedBefore", "modified_before"),
    OptionName("recursiveFileLookup", "recursive_file_lookup", is_true),
    OptionName("cloudFiles.schemaLocation", why="schema versions are kept beside the checkpoint"),
    OptionName("mergeSchema", only="true", why="new columns join; to stop at them give "
               "schema_evolution_mode='failOnNewColumns', or leave merge_schema out in COPY INTO"),
    OptionName("cloudFiles.useIncrementalListing", "use_incremental_listing", _incremental,
               why="auto is true: used only while names are seen to follow times"),
    OptionName("cloudFiles.queueUrl", "file_events", why="an SQS queue that gets S3's notifications"),
    OptionName("cloudFiles.useNotifications", only="false", why="a queue given as file_events says so, and "
               "is set up outside"),
    OptionName("cloudFiles.useManagedFileEvents", only="false", why="a service of Databricks; give a "
               "queue of S3's notifications as file_events"),
    OptionName("cloudFiles.useStrictGlobber", only="true", why="* matches within one part of a path"),
    OptionName("cloudFiles.validateOptions", only="true", why="options are always checked"),
    OptionName("enforceSchema", only="false", why="CSV columns are matched by the header's names"),
    *(OptionName(name, only="true", why="a field that differs in case only is rescued") for name in (
        "readerCaseSensitive", "parserCaseSensitive")),
    OptionName("multiLine", only="true", why="of CSV, where a quoted cell may have line breaks; a reader "
               "option of JSON"),
    OptionName("timeZone", only="utc", why="times without a zone are UTC"),
    OptionName("locale", only="en-us", why="of CSV; a reader option of JSON and XML"),
    OptionName("ignoreCorruptFiles", only="true", why="a corrupt file is named, and taken once it is mended"),
    OptionName("ignoreMissingFiles", only="true", why="a missing file is named, and taken once it is back"),
    OptionName("lineSep", only="\n", why="lines end with \\n, \\r\\n or \\r"),
    OptionName("cloudFiles.maxFileAge", why="the ledger remembers every file", refused=True),
    OptionName("checkpointLocation", why="give the folder as checkpoint_directory", refused=True),
    *(OptionName(name, why="a value would be changed or dropped in silence", refused=True) for name in (
        "allowComments", "allowSingleQuotes", "allowUnquotedFieldNames", "allowNumericLeadingZeros",
        "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars", "allowNonNumericNumbers",
        "dropFieldIfAllNull", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "emptyValue",
        "maxCharsPerColumn", "ignoreSurroundingSpaces", "excludeAttribute", "unescapedQuoteHandling",
        "charToEscapeQuoteEscaping", "nanValue", "positiveInf", "negativeInf", "ignoreNamespace")),
    *(OptionName(name, why="name the columns and their types in schema_hints", refused=True) for name in (
        "prefersDecimal", "preferDate", "inferTimestamp", "avroSchema")),
    OptionName("primitivesAsString", why="without infer_column_types every column is text", refused=True),
    OptionName("skipRows", why="a line that is skipped would be counted nowhere; `comment` names a "
               "character that such lines begin with", refused=True),
    OptionName("maxColumns", why="a file may have any number; max_columns is where evolution stops",
               refused=True),
    OptionName("rowValidationXSDPath", why="a record is judged by schema and expectations", refused=True),
    OptionName("wildcardColName", why="elements without a column are in the rescued data", refused=True),
    OptionName("singleVariantColumn", why="fields are columns; declare one as VARIANT", refused=True),
    OptionName("samplingRatio", why="a schema is inferred from all of the first 1,000 files", refused=True),
    *(OptionName(f"cloudFiles.{name}", why="of a notification service's set-up; file_events takes the URL of "
                 "an SQS queue, credentials come from the environment", refused=True) for name in (
        "region", "endpoint", "queueName", "subscriptionId", "resourceGroup", "connectionString",
        "clientId", "clientSecret", "tenantId", "projectId", "subscription", "roleArn", "awsAccessKey",
        "awsSecretKey", "fetchParallelism", "resourceTag", "pathRewrites", "listOnStart", "roleExternalId",
        "roleSessionName", "stsEndpoint", "client", "clientEmail", "privateKey", "privateKeyId")),
    OptionName("databricks.serviceCredential", why="credentials come from the environment", refused=True),
)  # fmt: skip
"""Every name but those that are the same here: the keywords of ``Source`` and the formats' reader options."""

_BY_NAME = {option.name.lower().removeprefix(PREFIX): option for option in NAMES}


def translated(source_format: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under our names: keywords of ``Source`` as they are, reader options by their spelling.

    Args:
        source_format: The files' format.
        options: By our names or theirs, in any case.
        known: Has the keywords of ``Source``.

    Raises:
        SourceError: A name is unknown, refused or given twice, or its value cannot be read.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        ours, meant = (name, value) if name in known else _meant(name, value, source_format, known)
        if ours and ours in found and found[ours] != meant:
            raise SourceError(
                f"{name} and another option both say what {ours} is: {meant!r}, {found[ours]!r}"
            )
        if ours:
            found[ours] = _as_ddl(meant) if isinstance(meant, StructType) else meant
    return found


def _meant(name: str, value: Any, source_format: str, known: Mapping[str, Any]) -> tuple[str, Any]:
    short = name.lower().removeprefix(PREFIX).removeprefix(f"{source_format.lower()}.")
    if short == "format":
        if str(value).lower() != source_format.lower():
            raise SourceError(f"{name} is {value!r}, and the format was given as {source_format!r}")
        return "", None
    spelled = {option.lower(): option for option in READER_OPTIONS.get(source_format, ())}
    if short in spelled and (short != "mergeschema"):
        return spelled[short], str(value).lower() if isinstance(value, bool) else str(value)
    option = _BY_NAME.get(short) or _BY_NAME.get(short.split(".")[0] if "resourcetag" in short else "")
    if option is None:
        raise SourceError(_unknown(name, source_format, spelled.values(), known))
    if option.refused or (option.only and str(value).lower() != option.only):
        raise SourceError(f"{name}={value!r} has no counterpart here: {option.why}. Leave it out.")
    try:
        return option.ours, option.reads(value) if option.ours else None
    except ValueError as error:
        raise SourceError(f"{name}={value!r}: {error}") from error


def _unknown(name: str, source_format: str, reader: Any, known: Mapping[str, Any]) -> str:
    names = {n.lower(): n for n in (*known, *CALLS, *reader, *(option.name for option in NAMES))}
    names |= {n.removeprefix(PREFIX): spelled for n, spelled in names.items()}
    near = difflib.get_close_matches(name.lower().removeprefix(PREFIX), names, 3, 0.7)
    guess = f"did you mean {' or '.join(dict.fromkeys(names[n] for n in near))}? " if near else ""
    its_own = ", ".join(sorted(reader)) or "none"
    return f"no option is called {name}; {guess}{source_format} files have the reader options: {its_own}"


def _as_ddl(schema: StructType) -> str:
    return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields)


def table_of_names() -> str:
    """Return the names as the table of the documentation, in Markdown."""
    rows = ["| they type | it is | |", "|---|---|---|"]
    for option in NAMES:
        only = option.only.replace("\n", "\\n")
        meaning = f"`{option.ours}`" if option.ours else f"accepted where `{only}`" if only else "accepted"
        rows.append(f"| `{option.name}` | {'refused' if option.refused else meaning} | {option.why} |")
    return "\n".join(rows)
