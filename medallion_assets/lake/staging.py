"""A table worked on aside, and published in one go once it is as it should be.

What is aside is the table's own log and bookkeeping, copied, over the same data files, linked: commits
made there are invisible to readers. To publish is to put those very commits into the table's log.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medallion_assets.declare.table import Table
from medallion_assets.delta.batches import write_json
from medallion_assets.lake.paths import Lake

LOG = "_delta_log"
OVERWRITTEN = ("_last_checkpoint", "._last_checkpoint.crc")
PLAN = "publish.json"
STAYS = ("lease", "before", PLAN)
"""Bookkeeping that is of the place, not of the rows."""


@dataclass(frozen=True)
class StagedLake(Lake):
    """The lake with one table, its quarantine and its bookkeeping elsewhere; all others as they are.

    Attributes:
        key: The table's.
        turn: Names the place. Spark remembers tables by path: none is used twice.
    """

    key: str
    turn: str

    def path(self, table: Table) -> Path:
        """The Delta table."""
        return self._mine(table, super().path(table))

    def quarantine(self, table: Table) -> Path:
        """The Delta table of rows it refused."""
        return self._mine(table, super().quarantine(table))

    def state(self, table: Table, what: str) -> Path:
        """Bookkeeping of the table or one of its flows."""
        return self._mine(table, super().state(table, what))

    def place(self, table: Table) -> Path:
        """The folder that holds all of it, in one of the table's own."""
        return self.root / table.pipeline / "_aside" / f"{table.layer}_{table.name}" / self.turn

    def _mine(self, table: Table, path: Path) -> Path:
        if table.key != self.key:
            return path
        return self.place(table) / path.relative_to(self.root / table.pipeline)


@contextmanager
def staged(table: Table, lake: Lake) -> Iterator[StagedLake]:
    """Return the lake with a copy of the table to work on, which is published when the block ends.

    Where the block raises, what is aside is dropped. The caller holds the table's lease.
    """
    aside = stage(table, lake)
    try:
        yield aside
    except BaseException:
        drop_aside(table, aside)
        raise
    publish(table, lake, aside)


def stage(table: Table, lake: Lake) -> StagedLake:
    """Return the lake with a copy of the table to work on; the caller holds the table's lease."""
    aside = StagedLake(lake.settings, table.key, uuid.uuid4().hex[:12])
    # What an earlier attempt left that died before it was published.
    shutil.rmtree(aside.place(table).parent, ignore_errors=True)
    for here, there in _tables(table, lake, aside):
        if here.is_dir():
            shutil.copytree(here, there, copy_function=_linked)
    here, there = lake.state(table, "."), aside.state(table, ".")
    if here.is_dir():
        shutil.copytree(here, there, ignore=lambda _, names: [n for n in names if n in STAYS])
    return aside


def publish(table: Table, lake: Lake, aside: StagedLake) -> None:
    """Make the table what stands aside. A publishing that dies is ended by the next run."""
    write_json(lake.state(table, PLAN), {"turn": aside.turn})
    finish_publishing(table, lake)


def finish_publishing(table: Table, lake: Lake) -> None:
    """Ends a publishing that died under way; the caller holds the table's lease."""
    plan = lake.state(table, PLAN)
    if not plan.exists():
        return
    aside = StagedLake(lake.settings, table.key, str(json.loads(plan.read_text())["turn"]))
    for there, here in _tables(table, lake, aside):
        if here.is_dir():
            _carry_commits(here, there)
    _exchange_state(aside.state(table, "."), lake.state(table, "."))
    plan.unlink()
    drop_aside(table, aside)


def drop_aside(table: Table, aside: StagedLake) -> None:
    """Remove what is aside of the table, unpublished or not needed any more."""
    shutil.rmtree(aside.place(table).parent, ignore_errors=True)


def _tables(table: Table, lake: Lake, aside: StagedLake) -> list[tuple[Path, Path]]:
    return [(lake.path(table), aside.path(table)), (lake.quarantine(table), aside.quarantine(table))]


def _linked(here: str, there: str) -> None:
    # Delta writes no file twice but this one, and that in place.
    if Path(here).name in OVERWRITTEN:
        shutil.copy2(here, there)
    else:
        os.link(here, there)


def _carry_commits(aside: Path, table: Path) -> None:
    """Links data files, then the log's entries in their order: a reader sees whole versions only."""
    files = [f for f in aside.rglob("*") if f.is_file() and f.name not in OVERWRITTEN]
    for file in sorted(files, key=_turn):
        target = table / file.relative_to(aside)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            os.link(file, target)


def _turn(file: Path) -> tuple[int, str]:
    """Return when a file is linked: a checksum that came before its entry would damn another one's."""
    of_log = file.parent.name == LOG
    return of_log + (of_log and file.suffix != ".json"), file.name


def _exchange_state(aside: Path, here: Path) -> None:
    """Put bookkeeping in the place of what stands; done twice it is done once."""
    if not aside.is_dir():
        return
    for old in here.iterdir():
        if old.name not in STAYS:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copytree(aside, here, dirs_exist_ok=True)
