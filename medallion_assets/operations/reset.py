"""``reset`` deletes a table and all tables made from it, ``reset_checkpoint`` only a checkpoint.

``cleanup`` deletes all that a lake's own runs and loads made, which ``resources`` lists.
"""

from collections.abc import Collection, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta import log, progress
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.lake.resources import LAKE_FORMAT, Resource, resources_of
from medallion_assets.operations.requests import (
    Spark,
    VerbRequest,
    VerbResult,
    downstream_of,
    many,
    refused,
    tables_downstream,
)
from medallion_assets.runs.streaming import running_streams
from medallion_assets.settings import current_settings
from medallion_assets.sources.file_status import outcomes_of
from medallion_assets.sources.looks import looks_of
from medallion_assets.storage import remove_tree
from medallion_assets.storage.lease import TableBusy, held, is_held, open_to_writers


def reset(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Delete the table, its quarantine, ledger and checkpoint, and those of all tables downstream.

    Landing files are kept, so that the next run loads them again, unless ``landing`` is set.

    Raises:
        TableBusy: Another process writes one of the tables.
    """
    reached = [table, *tables_downstream(table)]
    folders = [path for each in reached for path in _folders(each, lake, request.landing) if path.exists()]
    details = {"removed": [str(path) for path in folders]}
    if not folders:
        return VerbResult(table.key, "nothing to delete: the table and its state do not exist")
    for each in [] if request.dry_run else reached:
        with held(lake.state(each, "lease"), each.key):
            for path in _folders(each, lake, request.landing):
                remove_tree(path)
    word = "would be" if request.dry_run else "were"
    words = f"{many(len(folders), 'folder')} {word} deleted, of {', '.join(t.key for t in reached)}"
    topics = [t.source.kafka.name for t in reached if t.source and t.source.kafka]
    if not request.landing:
        words += "; landing files are kept, and the next run loads them again"
    elif topics:
        words += f"; of the topic {', '.join(topics)} only what the broker still has can be loaded again"
    changes = "tables, quarantines, ledgers and checkpoints"
    return VerbResult(table.key, words, "", changes, downstream_of(table), True, details)


def _folders(table: Table, lake: Lake, landing: bool) -> Iterator[Path]:
    yield from (lake.path(table), lake.quarantine(table))
    if table.source:
        ledger = lake.ledger(table)
        yield from (ledger, outcomes_of(ledger), looks_of(ledger))
        zone = lake.landing(table.pipeline, table.source)
        # Objects are another system's: its own tools delete them.
        if landing and isinstance(zone, Path):
            yield zone
    yield lake.state(table, ".")


def reset_checkpoint(table: Table, lake: Lake, spark: Spark, request: VerbRequest) -> VerbResult:
    """Delete the checkpoint and keep the data: the next run continues at the position in the table's commits.

    A stateful table's state is part of its checkpoint, so the next run recomputes it from upstream.

    Raises:
        TableBusy: Another process writes the table.
    """
    if not lake.state(table, "checkpoint").exists():
        return VerbResult(table.key, "nothing to do: it has no checkpoint")
    if request.dry_run and is_held(lake.state(table, "lease")):
        return refused(table, "another process is writing the table now")
    with nullcontext() if request.dry_run else sole_writer(table, lake):
        for stream in () if request.dry_run else (table, *table.flows):
            progress.forget(lake.state(stream, "checkpoint"))
    whole = table.stateful and log.exists(lake.path(table))
    after = "recomputes it from upstream" if whole else "continues at the position in its commits"
    word = "would be" if request.dry_run else "was"
    words = f"its checkpoint {word} deleted, no row of it; the next run {after}"
    return VerbResult(table.key, words, "", "the checkpoint", downstream_of(table) if whole else ())


def resources(lake: Lake | None = None) -> list[Resource]:
    """Return what exists: tables, quarantines, landing files, checkpoints, bad records and the rest.

    Args:
        lake: The lake; the one of this process's settings where it is None.
    """
    return resources_of(lake or Lake(current_settings()))


def cleanup(lake: Lake | None = None, *, yes: bool = False, landing: bool = False) -> list[Resource]:
    """Remove what this lake's runs and loads made, and nothing else; without ``yes`` only list it.

    Other users' lakes, files that nothing here made, and whatever lies behind a link stay as they are.

    Args:
        lake: The lake; the one of this process's settings where it is None.
        yes: Remove it.
        landing: The landing files that ``medallion land`` simulated as well; others always stay.

    Returns:
        What was removed, or would be.

    Raises:
        TableBusy: A run, load or stream is at work in the lake; nothing was removed.
    """
    lake = lake or Lake(current_settings())
    if not yes:
        return _removable(lake, landing)
    with open_to_writers(lake.root, alone=True):
        _refuse_at_work(lake)
        found = _removable(lake, landing)
        for each in found:
            _remove(each)
    for each in found:
        _remove_empty(Path(each.path), (lake.root, lake.settings.landing))
    return found


def _removable(lake: Lake, landing: bool) -> list[Resource]:
    found = resources_of(lake)
    # A lake with tables and no format on record would be refused.
    stays = any("_delta_log" in path for r in found if not r.is_made_here for path in r.paths)
    made = [r for r in found if r.is_made_here or (landing and r.kind == "simulated landing")]
    return [r for r in made if r.kind != LAKE_FORMAT or not stays]


def _refuse_at_work(lake: Lake) -> None:
    if streams := running_streams(lake):
        named = ", ".join(f"{stream.name} (process {stream.process})" for stream in streams)
        raise TableBusy(
            f"streams are at work in the lake {lake.root}: {named}. Nothing was removed: run "
            "`medallion stop`."
        )
    if busy := [path for path in lake.root.glob("*/_state/*/*/**/lease") if is_held(path)]:
        raise TableBusy(f"a run holds {busy[0]}. Nothing was removed: wait until it has ended.")


def _remove(resource: Resource) -> None:
    """Delete its files, and the folders below it that are empty then; none through a link that came since."""
    for path in map(Path, resource.paths):
        if path.parent.resolve() == path.parent:
            path.unlink(missing_ok=True)
    below = Path(resource.path).rglob("*") if resource.is_made_here else ()
    for path in sorted(below, reverse=True):
        _without_entries(path)


def _remove_empty(folder: Path, tops: Collection[Path]) -> None:
    """Delete a folder where it is empty, and those above it up to the lake's and the landing zones' own."""
    above = [each for each in folder.parents if any(each.is_relative_to(top) for top in tops)]
    for each in (folder, *above):
        _without_entries(each)


def _without_entries(folder: Path) -> None:
    with suppress(OSError):
        # Which fails for a file, a link, and a folder that holds anything.
        folder.rmdir()
