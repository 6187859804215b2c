"""What a bronze table may ask of its landing zone."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

import sqlglot
from sqlglot.errors import SqlglotError

from medallion_assets.ingestion.errors import SourceError

FORMATS = ("json", "csv")
READER_OPTIONS = {
    "json": frozenset[str](),
    "csv": frozenset({"sep", "quote", "escape", "encoding", "nullValue"}),
}
TEMPORARY_ENDINGS = (".tmp", ".part", ".crdownload", "._COPYING_")


@dataclass(frozen=True)
class Source:
    """One landing zone ``<landing>/<pipeline>/<name>/`` and how its files are read.

    Attributes:
        name: The folder's name below the pipeline's landing folder.
        format: ``json`` (a value a line, an array, or pretty-printed values) or ``csv`` (by header name).
        schema: Columns as DDL, ``"mrn BIGINT, time DOUBLE"``; inferred from the first files where empty.
        schema_hints: DDL whose types win over those of ``schema`` or of inference.
        path_glob_filter: Only file names that match are taken.
        recursive_file_lookup: Folders below the landing zone are looked into as well.
        max_files_per_trigger: Files a micro-batch reads at most.
        max_bytes_per_trigger: Bytes a micro-batch reads at most; one file is always taken.
        reader_options: Options of the format's reader; an unknown one is an error.

    Raises:
        SourceError: An option is unknown, out of range or contradicts another.
    """

    name: str
    format: Literal["json", "csv"]
    schema: str = ""
    schema_hints: str = ""
    path_glob_filter: str = "*"
    recursive_file_lookup: bool = True
    max_files_per_trigger: int = 1000
    max_bytes_per_trigger: int = 4 << 30
    reader_options: dict[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Refuses what cannot work."""
        if self.format not in FORMATS:
            raise SourceError(
                f"source {self.name!r}: format {self.format!r} is not one of {', '.join(FORMATS)}"
            )
        unknown = set(self.reader_options) - READER_OPTIONS[self.format]
        if unknown:
            raise SourceError(
                f"source {self.name!r}: no {self.format} reader option {', '.join(sorted(unknown))}"
            )
        for ddl in (self.schema, self.schema_hints):
            _refuse_unless_columns(ddl, self.name)
        if min(self.max_files_per_trigger, self.max_bytes_per_trigger) < 1:
            raise SourceError(f"source {self.name!r}: a trigger takes at least one file and one byte")

    def takes(self, file_name: str) -> bool:
        """True where a file of this name is meant for loading.

        Names that start with ``_`` or ``.`` or end like a copy under way are never taken.
        """
        hidden = file_name.startswith(("_", ".")) or file_name.endswith(TEMPORARY_ENDINGS)
        return not hidden and fnmatchcase(file_name, self.path_glob_filter)


def _refuse_unless_columns(ddl: str, source: str) -> None:
    """Reads a schema without Spark: a slip in it is to be known when the declaration loads."""
    try:
        sqlglot.parse_one(f"CREATE TABLE t ({ddl})" if ddl else "SELECT 1", dialect="spark")
    except SqlglotError as error:
        raise SourceError(f"source {source!r}: {ddl!r} is no list of columns and types: {error}") from error
