"""The shape of a quarantine's rows, of the rescued data column, and of a record cut out of a file.

Columns: ``entry_id`` STRING, ``row`` STRING (the raw record, or the row as JSON), ``raw_base64`` STRING
(the record's bytes as they are in its file, where ``row`` cannot show them exactly, else NULL), ``rules``
ARRAY<STRING>, ``reason_class`` STRING (see ``REASONS``), ``source_file`` STRING, ``position`` STRING
(``line 17``, or ``record 3`` where records are not lines; NULL for rows of a query), ``batch_id`` BIGINT,
``run_id`` STRING, ``quarantined_at`` TIMESTAMP (first seen), ``status`` STRING (``open``, ``replayed``,
``discarded``), ``attempts`` INT, ``tried_at`` TIMESTAMP, ``replayed_at`` TIMESTAMP (when a replay first
wrote it; it may wait again for a static row that went), ``replay_id`` STRING, ``repaired`` STRING (what the
last replay made of ``row``), ``note`` STRING (why a person discarded it).

Rules as in Auto Loader: a field the schema does not know, one whose value does not fit its column's
type, and one whose name differs in case only. A key that occurs twice gives all its values. NULL where
nothing was left over. Nested fields are rescued alone; an array or map with a misfit is rescued whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.delta import log
from medallion_assets.delta.names import literal

PARSE, SCHEMA, RULE, KEY, LATE, JOIN, QUERY = "parse", "schema", "rule", "key", "late", "join", "query"
REASONS = {
    PARSE: "the record is none",
    SCHEMA: "the record is sound and does not fit the columns",
    RULE: "the row broke an expectation",
    KEY: "its key is missing, or is there already where each may occur once",
    LATE: "its window was closed when it came",
    JOIN: "what it refers to is not known",
    QUERY: "the query failed on it, or gave no row of it",
}
"""Reason classes. For the first two, ``row`` is the raw record; for the others it is a row as JSON."""

RAW = f"reason_class IN ('{PARSE}', '{SCHEMA}')"
"""SQL predicate of entries that are raw records."""

NO_FIT = "does not fit the schema"
"""Prefix of the reason of a well-formed record that does not fit the schema."""
GAVE_NO_ROW = "gave_no_row"
"""Rule name: a query with ``rows_out="many"`` returned no row for an upstream row."""
NO_EVENT_TIME = "no_event_time"
"""Rule name: an upstream row's time is NULL, so that it is in no window of an aggregate."""
OPEN, REPLAYED, DISCARDED = "open", "replayed", "discarded"
IS_REPAIRED = f"(status = '{REPLAYED}' OR status = '{OPEN}' AND replayed_at IS NOT NULL)"
"""SQL predicate of entries whose repair applies: a replay wrote the row, which may be waiting again since."""

ENTRY = "_check_entry"
"""A column of rows from quarantine: the id of their entry. Present while they are judged, never written."""

POSITION, BYTES = "_check_position", "_check_bytes"
"""Columns of malformed records: the position in the file, and the bytes as base64 where the text is inexact.
Both names are reserved."""

OF_REFUSED = ("_raw", "_reason", POSITION, BYTES)
"""Columns that describe malformed records in a frame of records."""

TRIED = "_check_tried"
"""A column beside ``ENTRY``: true where the current replay tries the entry."""

NEW_ROW, NEW_REPAIRED = "_check_row", "_check_repaired"
"""Columns beside ``ENTRY``: the entry's new texts, where the row differs from the entry's text."""

FROM_JSON = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Formats of times in rows as text. Spark's default ends at the millisecond. The offsets of early local times
have seconds, which no format of Spark shows."""

AS_JSON = {"ignoreNullFields": "false", **FROM_JSON}


def named_as(column: str, name: str) -> str:
    """Return the SQL true where a person's name for a file means the path in a column (``is_named``)."""
    ends = f"endswith(concat('/', {column}), {literal('/' + name)})"
    return f"({ends} OR endswith({literal(name)}, concat('/', {column})))"


def from_records(records: DataFrame, batch_id: int, run_id: str) -> DataFrame:
    """Return the quarantine rows of records that could not be rows."""
    refused = records.where(F.col("_reason").isNotNull())
    kind = F.when(F.col("_reason").startswith(NO_FIT), SCHEMA).otherwise(PARSE)
    return shaped(refused, F.col("_raw"), F.array("_reason"), kind, batch_id, run_id)


def shaped(
    refused: DataFrame, row: Column, rules: Column, reason_class: Column, batch_id: int, run_id: str
) -> DataFrame:
    """Return refused rows in the quarantine's shape; ``row`` is their text, ``rules`` what they broke."""
    return refused.select(
        _of(refused, ENTRY, F.expr("uuid()")).alias("entry_id"),
        row.alias("row"),
        _of(refused, BYTES).alias("raw_base64"),
        rules.alias("rules"),
        reason_class.alias("reason_class"),
        _of(refused, "_source_file").alias("source_file"),
        _of(refused, POSITION).alias("position"),
        F.lit(batch_id).cast("bigint").alias("batch_id"),
        F.lit(run_id).alias("run_id"),
        F.current_timestamp().alias("quarantined_at"),
        F.lit(OPEN).alias("status"),
        F.lit(1).alias("attempts"),
        *(F.lit(None).cast("timestamp").alias(name) for name in ("tried_at", "replayed_at")),
        *(F.lit(None).cast("string").alias(name) for name in ("replay_id", "repaired", "note")),
    )


def held_rows(quarantine: Path, reason: str = "") -> int:
    """Return how many rows are in quarantine: all entries except the replayed ones."""
    of_reason = f" AND reason_class = '{reason}'" if reason else ""
    found = log.rows(quarantine, f"SELECT count(*) AS n FROM t WHERE status <> '{REPLAYED}'{of_reason}")
    return int(found[0]["n"]) if found else 0


def _of(refused: DataFrame, column: str, otherwise: Column | None = None) -> Column:
    missing = F.lit(None).cast("string") if otherwise is None else otherwise
    return F.coalesce(F.col(column), missing) if column in refused.columns else missing


FILE_KEY = "_file_path"
FILE_PATH = f'"{FILE_KEY}":'
CANNOT_EVALUATE = "cannot evaluate "
BY_COLUMNS = f"{NO_FIT}: {CANNOT_EVALUATE}"
"""Prefix of the reason of a record on which a select list fails; its columns are kept as JSON."""


def own_members(members: Sequence[Any]) -> Sequence[Any]:
    """Return rescued members, each a tuple with its key first, without the path of the record's file.

    That path is the last member (``written``); one of the same name before it is a field of the record.
    """
    return members[:-1] if members and members[-1][0] == FILE_KEY else members


def written(parts: Column, file: Column) -> Column:
    """Return ``"name":value`` parts as one JSON object with ``_file_path`` at its end, NULL for no part."""
    whole = F.concat(F.lit("{"), F.concat_ws(",", parts), F.lit("," + FILE_PATH), as_json(file), F.lit("}"))
    return F.when(F.size(parts) > 0, whole)


def with_part(rescued: Column, value: Column, name: str, file: Column) -> Column:
    """Return rescued data with a field more; ``value`` is its JSON, NULL where there is none to add."""
    part = F.concat(as_json(F.lit(name)), F.lit(":"), value)
    longer = F.concat(F.lit("{"), part, F.lit(","), F.substring(rescued, 2, 1 << 30))
    return F.when(part.isNull(), rescued).otherwise(F.coalesce(longer, written(F.array(part), file)))


def as_json(text: Column) -> Column:
    """Return a string as a JSON string."""
    return F.to_json(text.cast("variant"))


MOST_SHOWN = 8 << 20
"""Characters kept of what follows the last whole record; the file has the rest."""

CUT = f": it goes on to the end of the file, and its first {MOST_SHOWN} characters are kept here"


@dataclass(frozen=True, slots=True)
class CutRecord:
    """A record as JSON, and as it is in its file.

    Attributes:
        line: The record as JSON on one line.
        text: Its text in the file.
        reason: Why it is no record, empty where that is for a reader of JSON to say.
    """

    line: str
    text: str
    reason: str = ""
