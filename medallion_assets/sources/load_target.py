"""Where a load goes: the lake's public paths by the table's name, its metadata by the checkpoint."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medallion_assets.delta import log
from medallion_assets.delta.batches import (
    LANDING,
    UPSTREAM,
    newest_flows,
    read_json,
    table_of_quarantine,
    write_json,
)
from medallion_assets.delta.position import position_of
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.ledger import COPY_INTO, root_of
from medallion_assets.sources.option_names import translated
from medallion_assets.sources.options import Source
from medallion_assets.sources.walking import is_there, location_of
from medallion_assets.storage import path_of, relative, resolved

PROVENANCE = ("_source_file", "_source_modified_at")
"""Columns of a bronze row that say where it came from."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Names become folders and SQL identifiers: nothing that could climb out of the lake or end a quote."""

LAYERS = ("bronze", "silver", "gold")
OF_CHECKPOINT = ("stream", "ledger", "ledger_files", "ledger_looks", "schemas", "ahead", "staging", "fetched")
"""What a notebook's load keeps in its checkpoint directory."""

LOADED_FROM = "loaded_from.json"
"""The file beside a table's lease that says what a notebook's call last loaded it from."""


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
        # The lake's own folders, and those of its users, begin with _.
        ours = [part for part in whole[:2] if part.startswith("_")]
        if len(whole) != 3 or ours or not all(map(NAME.fullmatch, whole)):
            raise SourceError(
                f"{table_name!r} names no table: give pipeline.layer.table, or a bare table name for "
                "default.bronze; letters, digits and _ only, and no pipeline or layer begins with _"
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


def remember(place: LoadTarget, file: Path) -> None:
    """Record what a table is loaded from, for verbs that are called without the load's options."""
    # The call's path may be relative to its folder; the recorded path is absolute.
    source = {**asdict(place.source), "path": str(place.landing)}
    content = {"source": source, "state": relative(place.state, file.parent)}
    if read_json(file) != json.loads(json.dumps(content)):
        write_json(file, content)


def remembered(named: NamedTable, lake: Path) -> LoadTarget | None:
    """Return where a table was last loaded from; None where no call of this release loaded it."""
    file = named.lease(lake).with_name(LOADED_FROM)
    if (saved := read_json(file)) is None:
        return None
    options: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in saved["source"].items()}
    source = Source(**options)
    return named.place(lake, path_of(resolved(file.parent, saved["state"])), source)


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
        options: Those of ``Source``, the format's reader options, and both as ``option_names`` has them;
            one that is None counts as not given.
        defaults: Options of ``Source`` that hold where ``options`` says nothing of them.

    Raises:
        SourceError: An option is unknown, or contradicts another.
    """
    keywords = Source.__dataclass_fields__
    spelled = {"binaryfile": "binaryFile"}.get(source_format.lower(), source_format.lower())
    named = {name: value for name, value in options.items() if value is not None}
    given = {**(defaults or {}), **translated(spelled, named, keywords)}
    readers = {**given.pop("reader_options", {}), **{k: v for k, v in given.items() if k not in keywords}}
    ours = {k: v for k, v in given.items() if k in keywords}
    return Source(name, spelled, path, reader_options=readers, **ours)  # type: ignore[arg-type]


def has_new_ledger(place: LoadTarget) -> bool:
    """Return true where the table's newest batch was of another ledger than the one there is.

    An older copy of the ledger is another one, too: it will number other files as the lost ones were.
    """
    known, there = newest_flows(place.path).get("", {}).get(UPSTREAM), log.table_id(place.ledger)
    if not known or not there:
        return False
    return there != known or (log.version(place.ledger) or 0) < position_of(place.path, place.key)


def landing_of(place: LoadTarget) -> str:
    """Return the folder that file names are relative to, as seen from the table: both may move together."""
    return relative(place.root, place.path)


def refuse_other_writers(place: LoadTarget, lake: Path) -> None:
    """Raise where this load's rows could be mixed up with those of another writer of the table.

    Raises:
        SourceError: Another table has the name or the quarantine, or the table's files are of another landing
            place, whose names are relative to another folder.
    """
    flows, (pipeline, layer, name) = newest_flows(place.path), place.key.split("/")
    state = flows.get("", {})
    if any("code" in each for each in flows.values()) or (
        layer == "bronze" and log.exists(lake / pipeline / "_ledger" / name)
    ):
        raise SourceError(
            f"{place.key} is filled by its declaration in the pipeline {pipeline}, whose runs account for "
            "every row by a file ledger or upstream of their own. Nothing was read or written: load into a "
            "table of another name, or have the files land where the declared table reads."
        )
    if table_of_quarantine(place.quarantine) not in ("", place.key):
        raise SourceError(
            f"{place.key}: the quarantine at {place.quarantine} holds records of "
            f"{table_of_quarantine(place.quarantine)}, and two tables that share one can undo each other's "
            "entries. Nothing was read or written: load into a table of another name."
        )
    recorded = state.get(LANDING)
    if not recorded or recorded == landing_of(place):
        return
    first = resolved(place.path, recorded)
    if state.get(UPSTREAM) == log.table_id(place.ledger) and not is_there(first):
        # The landing place was moved: its own ledger knows it.
        return
    several = (
        " Or, since COPY INTO names the files of several folders apart from its first one on: call it for "
        f"{first} first."
        if place.state.name == COPY_INTO
        else ""
    )
    raise SourceError(
        f"{place.key} is filled from {first}, and this call reads {place.root}: files are known by their "
        "names below that folder, so that those of one place could be taken for those of the other. Nothing "
        f"was read or written: load {place.root} into a table of its own, or a folder that holds both into a "
        f"new table, in one call.{several}"
    )


def ledger_position(place: LoadTarget) -> int:
    """Return the ledger's version up to which files are committed; a ledger that is new begins at none."""
    return -1 if has_new_ledger(place) else position_of(place.path, place.key)
