"""Random histories of a landing zone: what discovery admits is what a model of plain Python admits.

The model knows paths and contents only: no file times, no ledger, no order of a clock.
"""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medallion_assets.sources import Source, discover
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.ledger import ADMITTED

NAMES = ("a.json", "day=1/b.json", "day=1/a.json")
EVENTS = (
    "write", "append", "truncate", "delete", "restore", "rename", "touch", "forbid", "move", "copy", "look"
)  # fmt: skip
Event = tuple[str, int, int]


@dataclass
class Model:
    """What each path's contents were when they were last admitted, and what was admitted so far."""

    mode: str
    taken: dict[str, str] = field(default_factory=dict)
    admitted: list[tuple[str, str]] = field(default_factory=list)

    def look(self, zone: dict[str, str]) -> None:
        """Admit what a path has that is not what was admitted of it last."""
        for path, text in zone.items():
            before = self.taken.get(path)
            if before == text or (before and self.mode == "ignore"):
                continue
            self.taken[path] = text
            self.admitted.append((path, text))


class Zone:
    """A landing zone on disk and the same as a dictionary; every write has a time of its own choice."""

    def __init__(self, folder: Path, ticks: list[int]) -> None:
        self.folder, self.files, self.denied = folder, {}, set()
        self.old: dict[str, list[tuple[str, int]]] = {}
        self.clock, self.ticks, self.number = 1_700_000_000, iter(ticks), 0
        folder.mkdir(parents=True)

    def write(self, name: str, text: str, at: int | None = None) -> None:
        """Write a file under a time that no state of it with the same size has."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if at is None:
            self.clock += 1
            at = self.clock + next(self.ticks, 0)
        os.utime(path, (at, at))
        self.old.setdefault(name, []).append((text, at))
        self.files[name] = text

    def line(self) -> str:
        """Return a record no file has."""
        self.number += 1
        return json.dumps({"id": self.number}) + "\n"

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.folder / name).unlink()
        self.denied.discard(name)
        del self.files[name]

    def do(self, kind: str, name: str, number: int) -> None:
        """Do one event, where it can be."""
        text = self.files.get(name)
        if kind == "write":
            self.write(name, self.line() * (1 + number % 3))
        elif kind == "append" and text is not None:
            self.write(name, text + self.line())
        elif kind == "truncate" and text:
            self.write(name, "")
        elif kind == "delete" and text is not None:
            self.remove(name)
        elif kind == "restore" and self.old.get(name):
            self.write(name, *self.old[name][number % len(self.old[name])])
        elif kind == "touch" and text is not None:
            self.write(name, text)
        elif kind == "rename" and text is not None:
            target = NAMES[number % len(NAMES)]
            self.remove(name)
            self.write(target, text)


def looked(zone: Zone, ledger: Path, source: Source) -> None:
    """Look at the zone, where it lies now."""
    discover(zone.folder, ledger, source)


def admitted(zone: Zone, ledger: Path) -> list[tuple[str, int]]:
    """Return paths and counts of records as the ledger has them, in its order."""
    chosen = f"SELECT path, records FROM ledger WHERE status = '{ADMITTED}' ORDER BY sequence"
    return [(str(r["path"]), int(str(r["records"]))) for r in ledgers.rows(ledger, chosen)]


def moved(zone: Zone, ledger: Path, copies: bool) -> Path:
    """Take the zone and the ledger to another folder; return where the ledger is now."""
    home = zone.folder.parent
    target = home.with_name(f"{home.name}x")
    if copies:
        # Without the files' times, as a plain copy.
        shutil.copytree(home, target, copy_function=shutil.copyfile)
    else:
        home.rename(target)
    zone.folder = target / zone.folder.name
    return target / ledger.name


events = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.sampled_from(NAMES), st.integers(0, 8)), min_size=3, max_size=25
)
slow = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("mode", ["ignore", "append", "replace"])
@slow
@given(history=events, ticks=st.lists(st.integers(-50_000, 50_000), max_size=40))
def test_discovery_admits_each_content_as_the_mode_says_whatever_the_times(
    tmp_path_factory, mode, history, ticks
):
    home = tmp_path_factory.mktemp("h") / "home"
    zone, ledger, model = Zone(home / "zone", ticks), home / "ledger", Model(mode)
    source = Source("things", "json", schema="id INT", allow_overwrites=mode, change_detection="content")
    for kind, name, number in [*history, ("look", NAMES[0], 0), ("look", NAMES[0], 0)]:
        if kind == "look":
            looked(zone, ledger, source)
            model.look(zone.files)
        elif kind in ("move", "copy"):
            ledger = moved(zone, ledger, kind == "copy")
        else:
            zone.do(kind, name, number)
    expected = sorted((path, text.count("\n")) for path, text in model.admitted)
    assert sorted(admitted(zone, ledger)) == expected
