"""One JSON record at a time, decided by the rules alone: its row, what no column took, or why it is none."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from medallion_assets.sources.formats.json_scan import NotJson, Value, scan, skip_blank
from medallion_assets.sources.formats.json_types import shape_of
from medallion_assets.sources.formats.json_values import take_object
from medallion_assets.sources.quarantine import BYTES, FILE_PATH, NO_FIT, POSITION

NOT_UTF8 = "not valid UTF-8"
MALFORMED = "malformed JSON"
SEVERAL = "several values on one line"
NO_OBJECT = "not a JSON object"
REPEATED = f"{NO_FIT}: a key is there twice"
LEFT = "_check_rescued"


JUDGED = pa.schema([(name, pa.string()) for name in (LEFT, "_raw", "_reason", POSITION, BYTES)])
"""Columns beside the schema's: rescued data, and of a record that is no row what ``quarantine`` keeps."""


@dataclass
class Judged:
    """A record as it was decided.

    Attributes:
        values: The columns' values, none for a record that is no row.
        rescued: The rescued data, NULL where nothing was left over.
        raw, reason, encoded: Of a record that is no row its text, why, and its bytes as base64 where the text
            is not exact.
    """

    values: dict[str, Any] = field(default_factory=dict)
    rescued: str | None = None
    raw: str | None = None
    reason: str | None = None
    encoded: str | None = None


@dataclass(frozen=True)
class CarefulReader:
    """Decides records of a schema.

    Attributes:
        schema: The columns there are.
        rescues: Fields that no column knows are kept, as rescued data.
        rescues_values: Values that do not fit their column are too; else they refuse their record.
        keeps_text: Rows keep their record's text too, for columns that Spark parses after.
        encoding, errors: How the file's bytes are written, for records whose text is not exact.
    """

    schema: StructType
    rescues: bool
    rescues_values: bool
    keeps_text: bool = False
    encoding: str = "utf-8"
    errors: str = "surrogateescape"

    def judge(self, line: bytes, file: str) -> Judged:
        """Return what a record is, which came from a file."""
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return refused_bytes(line, NOT_UTF8, self.encoding, self.errors)
        value = object_of(text)
        if isinstance(value, str):
            return Judged(raw=text, reason=value)
        taken = take_object(text, value, self.schema)
        if taken.misfit and not self.rescues_values:
            return Judged(raw=text, reason=NO_FIT)
        if taken.repeated and not self.rescues:
            return Judged(raw=text, reason=REPEATED)
        rescued = rescued_data(taken.left, file) if self.rescues else None
        return Judged(taken.values, rescued, text if self.keeps_text else None)

    def table(self, judged: Sequence[Judged], places: Sequence[str | None]) -> pa.Table:
        """Return decided records, and where each is in its file, as the schema's columns and ``JUDGED``."""
        stored = list(shape_of(self.schema).stored)
        columns = [pa.array([j.values.get(f.name) for j in judged], f.type) for f in stored]
        texts = [[j.rescued for j in judged], [j.raw for j in judged], [j.reason for j in judged]]
        texts += [list(places), [j.encoded for j in judged]]
        columns += [pa.array(column, pa.string()) for column in texts]
        return pa.table(columns, pa.schema([*stored, *JUDGED]))


def object_of(text: str) -> Value | str:
    """Return the only object of a text, or why there is none."""
    try:
        value = scan(text)
    except NotJson:
        return MALFORMED
    rest = skip_blank(text, value.end)
    if rest < len(text):
        return SEVERAL if _more_values(text, rest) else MALFORMED
    return value if value.kind == "object" else NO_OBJECT


def _more_values(text: str, at: int) -> bool:
    while at < len(text):
        try:
            at = skip_blank(text, scan(text, at + (text[at] == ",")).end)
        except NotJson:
            return False
    return True


def refused_bytes(line: bytes, reason: str, encoding: str, errors: str) -> Judged:
    """Return a record that is no text: as readable as can be, and its bytes as they are in its file."""
    exact = line
    if encoding != "utf-8":
        exact = line.decode("utf-8", errors).encode(encoding, errors)
    readable = line.decode("utf-8", "replace")
    return Judged(raw=readable, reason=reason, encoded=base64.b64encode(exact).decode())


def rescued_data(left: Sequence[str], file: str) -> str | None:
    """Return ``"name":value`` parts as one JSON object with the file's path at its end, None for no part."""
    if not left:
        return None
    return f"{{{','.join(left)},{FILE_PATH}{json.dumps(file, ensure_ascii=False)}}}"
