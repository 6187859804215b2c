"""Which options each format's reader takes: an unknown or contradictory one is an error, never ignored."""

from collections.abc import Mapping

from medallion_assets.sources.errors import SourceError

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
