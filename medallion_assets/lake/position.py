"""Where a table's stream begins and how far it has come, from its checkpoint, its commits and its notes."""

import json

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.delta.batches import write_json
from medallion_assets.delta.changes import VersionRange
from medallion_assets.delta.progress import Position
from medallion_assets.lake.paths import Lake


def position(table: Table, lake: Lake) -> Position:
    """Return the place in the log upstream up to which the table's micro-batches are committed."""
    return progress.committed_position(lake.state(table, "checkpoint"), feed=not table.source)


def starting_version(table: Table, lake: Lake) -> int | None:
    """Return the upstream version a new checkpoint begins with; None for the table as it stands.

    It is written down before the first batch is planned: a batch planned under one start and replayed
    under another would take rows twice, or not at all.
    """
    file, checkpoint = lake.state(table, "start.json"), lake.state(table, "checkpoint")
    planned = progress.last_number(checkpoint / "offsets") >= 0
    told = json.loads(file.read_text()) if file.exists() else {}
    if planned or told.get("anew"):
        version = told.get("version")
        return None if version is None else int(version)
    taken = -1 if table.stateful else last_taken(table, lake)
    begins = None if taken < 0 else taken + 1
    write_json(file, {"version": begins})
    return begins


def noted_version(table: Table, lake: Lake) -> int:
    """Return the upstream version that the commits of a table without a checkpoint say it stands for.

    -1 where its checkpoint says so itself, or where it is to begin with all of upstream.
    """
    file = lake.state(table, "start.json")
    planned = progress.last_number(lake.state(table, "checkpoint") / "offsets") >= 0
    anew = file.exists() and json.loads(file.read_text()).get("anew")
    if planned or anew or table.stateful or table.source:
        return -1
    return last_taken(table, lake)


def stands_for(table: Table, lake: Lake) -> int:
    """Return the upstream version whose rows stand in the table, by its checkpoint or else its commits."""
    version = position(table, lake).version
    return version if version >= 0 else last_taken(table, lake)


def last_taken(table: Table, lake: Lake) -> int:
    """Return the upstream version that the table's newest commit says it was made of, -1 for none."""
    taken = log.last_commit_metadata(lake.path(table), "upstream_version", table.flow)
    return -1 if taken is None else int(taken)


def versions_of(table: Table, lake: Lake, number: int) -> VersionRange:
    """Return the upstream versions a micro-batch takes."""
    checkpoint = lake.state(table, "checkpoint")
    upto = progress.offset_of(checkpoint, number, feed=True).version
    if number > 0:
        return VersionRange(progress.offset_of(checkpoint, number - 1, feed=True).version, upto)
    begins = starting_version(table, lake)
    return VersionRange(-1 if begins is None else begins - 1, upto)


def begin_anew(table: Table, lake: Lake) -> None:
    """Make the table's next batch take all of upstream and replace what stands."""
    write_json(lake.state(table, "start.json"), {"version": None, "anew": True})
    forget_checkpoint(table, lake)


def forget_checkpoint(table: Table, lake: Lake) -> None:
    """Drop the checkpoint: the next batch begins where the table's own commits say it stands."""
    progress.forget(lake.state(table, "checkpoint"))


def has_begun(table: Table, lake: Lake) -> None:
    """Forgets that the table was to begin anew, once a batch of it is committed."""
    file = lake.state(table, "start.json")
    if file.exists() and json.loads(file.read_text()).get("anew"):
        write_json(file, {"version": None})


def idle_at(table: Table, lake: Lake, version: int | None = None) -> int:
    """Return, or with a version sets, the upstream version up to which there was nothing to take."""
    file = lake.state(table, "idle.json")
    if version is not None:
        write_json(file, {"version": version})
        return version
    return int(json.loads(file.read_text())["version"]) if file.exists() else -1
