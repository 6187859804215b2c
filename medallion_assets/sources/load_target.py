"""Where a load goes: the lake's public paths by the table's name, its metadata by the checkpoint."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from medallion_assets.delta import log
from medallion_assets.delta.batches import UPSTREAM, newest_flows
from medallion_assets.delta.position import position_of
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.ledger import Entry, root_of
from medallion_assets.sources.option_names import translated
from medallion_assets.sources.options import Source
from medallion_assets.sources.walking import location_of

PROVENANCE = ("_source_file", "_source_modified_at")
"""Columns of a bronze row that say where it came from."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Names become folders and SQL identifiers: nothing that could climb out of the lake or end a quote."""

LAYERS = ("bronze", "silver", "gold")


@dataclass(frozen=True)
class LoadTarget:
    """Where a source's records come from, and where they go.

    Attributes:
        key: ``pipeline/layer/table``.
        source: How files are read.
        landing: The folder, file or glob of the source.
        path, quarantine, ledger: Delta tables.
        state: The folder of the engine's own notes.
    """

    key: str
    source: Source
    landing: Path | str
    path: Path
    quarantine: Path
    ledger: Path
    state: Path

    @property
    def root(self) -> str:
        """The folder that the ledger's paths are relative to."""
        return root_of(self.landing, self.ledger)


@dataclass(frozen=True)
class NamedTable:
    """A table by its name: ``pipeline.layer.table``; bare it is in ``default.bronze``."""

    pipeline: str
    layer: str
    name: str

    @staticmethod
    def of(table_name: str) -> "NamedTable":
        """Read a table's name.

        Raises:
            SourceError: It is neither one name nor three, or a part is no identifier.
        """
        # Backticks may quote each part, or all of it.
        parts = [part.removeprefix("`").removesuffix("`") for part in table_name.split(".")]
        whole = ["default", "bronze", *parts] if len(parts) == 1 else parts
        whole = ["default", *parts] if len(parts) == 2 and parts[0] in LAYERS else whole
        if len(whole) != 3 or not all(map(NAME.fullmatch, whole)):
            raise SourceError(
                f"{table_name!r} names no table: give pipeline.layer.table, or a bare table name for "
                "default.bronze; letters, digits and _ only"
            )
        return NamedTable(*whole)

    @property
    def key(self) -> str:
        """``pipeline/layer/table``."""
        return f"{self.pipeline}/{self.layer}/{self.name}"

    def place(self, lake: Path, state: Path, source: Source) -> LoadTarget:
        """Return where its records go; the engine's own notes lie in ``state``."""
        folder = lake / self.pipeline
        refused = self.name if self.layer == "bronze" else f"{self.layer}_{self.name}"
        tables = (folder / self.layer / self.name, folder / "quarantine" / refused, state / "ledger")
        return LoadTarget(self.key, source, location_of(source.path), *tables, state)

    def lease(self, lake: Path) -> Path:
        """Return the folder of its lease: the one a declared table of this name holds."""
        return lake / self.pipeline / "_state" / self.layer / self.name / "lease"


def source_of(
    name: str,
    source_format: str,
    path: str,
    options: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
) -> Source:
    """Return the source a loader was asked for.

    Args:
        name: The table's name, for messages.
        source_format: As the caller spells it.
        path: Where the files are.
        options: Those of ``Source``, the format's reader options, and both as ``option_names`` has them.
        defaults: Options of ``Source`` that hold where ``options`` says nothing of them.

    Raises:
        SourceError: An option is unknown, or contradicts another.
    """
    keywords = Source.__dataclass_fields__
    spelled = {"binaryfile": "binaryFile"}.get(source_format.lower(), source_format.lower())
    given = {**(defaults or {}), **translated(spelled, options, keywords)}
    readers = {**given.pop("reader_options", {}), **{k: v for k, v in given.items() if k not in keywords}}
    ours = {k: v for k, v in given.items() if k in keywords}
    return Source(name, spelled, path, reader_options=readers, **ours)  # type: ignore[arg-type]


def has_new_ledger(place: LoadTarget) -> bool:
    """Return true where the table's newest batch was of another ledger than the one there is."""
    known = newest_flows(place.path).get("", {}).get(UPSTREAM)
    return bool(known) and log.table_id(place.ledger) not in ("", known)


def ledger_position(place: LoadTarget) -> int:
    """Return the ledger's version up to which files are committed; a ledger that is new begins at none."""
    return -1 if has_new_ledger(place) else position_of(place.path, place.key)


def not_loaded(spark: SparkSession, files: list[Entry], place: LoadTarget) -> list[Entry]:
    """Return the files of which neither table nor quarantine has a record: a new ledger lists all again."""
    known = spark.read.format("delta").load(str(place.path)).select(*PROVENANCE).distinct().collect()
    loaded = {(row[0], _milliseconds(row[1])) for row in known}
    there = {path for path, _ in loaded}
    held = {row["f"] for row in log.rows(place.quarantine, "SELECT DISTINCT source_file AS f FROM t")}
    # An entry says nothing of its file's time: it tells of files that gave the table no row.
    return [
        file
        for file in files
        if (file.path, _milliseconds(file.modified_at)) not in loaded
        and (file.path in there or file.path not in held)
    ]


def _milliseconds(time: datetime) -> int:
    # Spark tells a file's time no finer.
    return int(time.timestamp() * 1000)
