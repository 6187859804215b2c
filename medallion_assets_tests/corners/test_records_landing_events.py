"""Random histories of a landing zone: what is loaded of it is what a model of plain Python says.

The model knows paths and contents only: no file times, no ledger, no order of a clock. Loading is the real
bookkeeping of a batch without Spark: which entries are superseded, which are as counted, what became of them.
"""

import json
import os
import random
import shutil
from collections import Counter, defaultdict
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from medallion_assets.delta.commit import Transaction
from medallion_assets.settings import Settings
from medallion_assets.sources import Source, discover, discovery, file_status
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.committed import is_as_counted
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.known_files import superseded
from medallion_assets.sources.ledger import ADMITTED, Entry, root_of
from medallion_assets.sources.value_books import ValueBooks
from medallion_assets.sources.walking import local_path
from medallion_assets.storage.locations import LOCAL
from medallion_assets_tests.examples import examples

NAMES = ("a.json", "day=1/a.json")
CHANGES = ("write", "append", "truncate", "delete", "restore", "rename", "touch", "forbid", "allow")
EVENTS = (*CHANGES, "write", "restore", "touch", "copy", *["look"] * 4, *["load"] * 2, *["run"] * 2)
POISON = "!"
"""A file of this text is counted, and no reader can take it."""


class World:
    """A landing zone, its ledger, and the contents that were loaded, by path."""

    def __init__(self, home: Path, source: Source, ticks: list[int]) -> None:
        self.home, self.source, self.ticks = home, source, iter(ticks)
        self.files: dict[str, str] = {}
        self.old: dict[str, list[tuple[str, int]]] = {}
        self.denied: set[str] = set()
        self.clock = self.written = 0
        self.position = -1
        self.loaded: dict[str, list[str]] = {}
        self.zone.mkdir(parents=True)

    @property
    def zone(self) -> Path:
        """Where the landing zone is now."""
        return self.home / "zone"

    @property
    def ledger(self) -> Path:
        """Where the ledger is now."""
        return self.home / "ledger"

    def do(self, kind: str, name: str, number: int) -> None:
        """Do one event, where it can be."""
        text = self.files.get(name)
        if kind == "write":
            self.write(name, {7: "", 8: POISON + self.line()}.get(number, self.line() * (1 + number % 3)))
        elif kind in ("append", "truncate", "touch") and text is not None:
            self.write(name, {"append": text + self.line(), "truncate": "", "touch": text}[kind])
        elif kind == "restore" and name in self.old:
            self.write(name, *self.old[name][number % len(self.old[name])])
        elif kind in ("delete", "rename") and text is not None:
            (self.zone / name).unlink()
            del self.files[name]
            if kind == "rename":
                self.write(NAMES[number % len(NAMES)], text)
        elif kind == "forbid":
            self.denied.add(name)
        elif kind == "allow":
            self.denied.discard(name)
        elif kind == "look":
            discover(self.zone, self.ledger, self.source)
        elif kind == "load":
            self.load()
        elif kind == "run":
            self.do("look", name, number)
            self.load()
        elif kind in ("move", "copy"):
            self.go_elsewhere(kind == "copy")

    def line(self) -> str:
        """Return a record no file has."""
        self.written += 1
        return json.dumps({"id": self.written}) + "\n"

    def write(self, name: str, text: str, at: int | None = None) -> None:
        """Write a file under a time of any order, which no other contents of it have."""
        path = self.zone / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if at is None:
            self.clock += 1
            at = 1_700_000_000 + 1000 * next(self.ticks, 0) + self.clock
        os.utime(path, (at, at))
        self.old.setdefault(name, []).append((text, at))
        self.files[name] = text

    def go_elsewhere(self, copies: bool) -> None:
        """Take the zone and the ledger to another folder; a copy gives every file the time of now."""
        target = self.home.with_name(f"{self.home.name}x")
        if copies:
            shutil.copytree(self.home, target, copy_function=shutil.copyfile)
        else:
            self.home.rename(target)
        self.home = target

    def load(self) -> None:
        """Load the entries that are not loaded yet, a batch for each commit of the ledger."""
        root = str(root_of(self.zone, self.ledger))
        pending = f"status = '{ADMITTED}' AND sequence > {self.position}"
        rows = ledgers.rows(self.ledger, f"SELECT * FROM ledger WHERE {pending} ORDER BY sequence")
        entries = [Entry(**row, root=root) for row in rows]
        for version in sorted({entry.sequence // ledgers.STEP for entry in entries}):
            self.load_batch(
                [entry for entry in entries if entry.sequence // ledgers.STEP == version], version
            )

    def load_batch(self, files: list[Entry], number: int) -> None:
        """Do what a batch does but for the records themselves."""
        replaces = self.source.allow_overwrites == "replace"
        old = superseded(self.ledger, files, replaces)
        untaken, taken = {}, []
        for file in files:
            text = self.files.get(file.path, "")
            if file in old:
                untaken[file] = file_status.LATER
            elif not is_as_counted(file):
                untaken[file] = file_status.GONE
            elif text.startswith(POISON):
                untaken[file] = "no reader takes it"
            else:
                before = [] if replaces else self.loaded.get(file.path, [])
                self.loaded[file.path] = [*before, text]
                taken.append(file)
        counts = file_status.Found(Counter(), Counter(), Counter(), defaultdict(ValueBooks))
        transaction = Transaction("t", number, {"run_id": str(number)})
        file_status.record(self.ledger, taken, counts, transaction, datetime.now(timezone.utc), untaken)
        self.position = max(file.sequence for file in files)

    def settle(self) -> None:
        """Look and load until nothing is new, with everything readable."""
        self.denied.clear()
        for _ in range(4):
            self.do("run", "", 0)


@pytest.fixture
def world(tmp_path_factory, monkeypatch):
    """Return a function that makes a world whose forbidden files cannot be read, whoever runs this."""
    here: list[World] = []

    def guarded(reads):
        def read(path, *others):
            if any(str(path).endswith(f"zone/{name}") for name in here[-1].denied):
                raise PermissionError(path)
            return reads(path, *others)

        return read

    for module, name in ((discovery, "contents"), (discovery, "tag_of"), (LOCAL, "open")):
        monkeypatch.setattr(module, name, guarded(getattr(module, name)))

    def make(source, ticks):
        here.append(World(tmp_path_factory.mktemp("w") / "home", source, ticks))
        return here[-1]

    return make


def disagreement(world: World) -> str:
    """Say where what was loaded is not what the mode asks for, empty where it is."""
    for name in NAMES:
        loaded, now = world.loaded.get(name, []), world.files.get(name)
        contents = [text for text, _ in world.old.get(name, [])]
        if any(text not in contents for text in loaded):
            return f"{name}: loaded what it never was: {loaded}"
        if now is None or now.startswith(POISON):
            continue
        if world.source.allow_overwrites == "ignore":
            full = [text for text in loaded if text]
            if len(full) > 1 or (now and not full):
                return f"{name}: one content is to be loaded, not {loaded}; now it is {now!r}"
        elif loaded[-1:] != [now]:
            return f"{name}: its contents now are {now!r}, loaded were {loaded}"
        if any(one == two for one, two in pairwise(loaded)):
            return f"{name}: the same contents were loaded twice: {loaded}"
    return ""


def history_of(seed: int) -> tuple[list[tuple[str, str, int]], list[int]]:
    """Return events and file times. Hypothesis draws the seed alone: its own lists seldom come to a point."""
    drawn = random.Random(seed)
    events = [(drawn.choice(EVENTS), drawn.choice(NAMES), drawn.randint(0, 8)) for _ in range(20)]
    return events, [drawn.randint(-50, 50) for _ in range(40)]


@pytest.mark.parametrize("detection", ["stat", "content"])
@pytest.mark.parametrize("mode", ["ignore", "append", "replace"])
@examples(2, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_each_content_is_loaded_as_the_mode_says_whatever_becomes_of_files(world, mode, detection, seed):
    events, ticks = history_of(seed)
    here = world(
        Source("s", "json", schema="id INT", allow_overwrites=mode, change_detection=detection), ticks
    )
    for event in events:
        here.do(*event)
    here.settle()
    assert disagreement(here) == ""
    known = {path: list(texts) for path, texts in here.loaded.items()}
    for event in ("move", "run", "copy", "run"):
        here.do(event, "", 0)
    assert here.loaded == known


@pytest.mark.parametrize("mode", ["ignore", "append", "replace"])
@pytest.mark.parametrize(
    "history",
    [
        "write run truncate run restore run",
        "write run truncate run append run",
        "truncate run append run",
        "write look append load restore run",
        "write look touch load run",
        "write look delete load forbid restore run allow run",
        "write run append restore touch run copy run",
    ],
)
def test_a_file_that_was_changed_lost_or_forbidden_between_steps_is_loaded_once(world, mode, history):
    here = world(Source("s", "json", schema="id INT", allow_overwrites=mode), [])
    for kind in history.split():
        here.do(kind, NAMES[0], 0)
    here.settle()
    assert disagreement(here) == ""


def test_new_bytes_of_the_same_size_and_time_are_seen_where_contents_are_compared(tmp_path):
    zone, file = tmp_path / "zone", tmp_path / "zone" / "a.json"
    zone.mkdir()
    for detection, admitted in (("stat", 0), ("content", 1)):
        source = Source("s", "json", allow_overwrites="replace", change_detection=detection)
        for number in (1, 2):
            file.write_text(f'{{"id": {number}}}\n')
            os.utime(file, (1_700_000_000, 1_700_000_000))
            found = discover(zone, tmp_path / detection, source)
        assert found.admitted == admitted
        assert discover(zone, tmp_path / detection, source).admitted == 0


def test_what_lay_there_at_a_first_look_is_skipped_and_an_empty_zone_is_a_first_look_too(tmp_path):
    source = Source("s", "json", include_existing_files=False, max_files_per_trigger=1)
    for name in ("empty", "full"):
        zone, ledger = tmp_path / name, tmp_path / f"{name}-ledger"
        zone.mkdir()
        for number in range(3 if name == "full" else 0):
            (zone / f"old{number}.json").write_text('{"id": 1}\n')
        assert discover(zone, ledger, source).admitted == 0
        (zone / "new.json").write_text('{"id": 2}\n')
        assert discover(zone, ledger, source).admitted == 1
        chosen = "SELECT path FROM ledger WHERE status = 'admitted'"
        assert [row["path"] for row in ledgers.rows(ledger, chosen)] == ["new.json"]


def test_addresses_of_object_stores_are_refused_wherever_a_local_folder_is_asked_for():
    for address in ("s3://bucket/x", "abfss://c@a.dfs.core.windows.net/x", "gs://b", "dbfs:/x"):
        with pytest.raises(SourceError, match="address"):
            local_path(address)
        with pytest.raises(ValueError, match="the cache is a local folder"):
            Settings(cache=address)
    for setting, address in (("lake", "gs://b/x"), ("lake", "abfss://c@a/x"), ("landing", "dbfs:/x")):
        with pytest.raises(ValueError, match=f"{address} is a .*: address, and .* local or mounted"):
            Settings(**{setting: address})
    with pytest.raises(SourceError, match="dbfs: address"):
        Source("s", "json", path="dbfs:/x")
    assert local_path("file:///a/b.json") == local_path("/a/c/../b.json") == Path("/a/b.json")


def test_a_source_declared_wider_or_narrower_keeps_the_names_of_its_files(tmp_path):
    for folder in ("orders/2026", "orders/2027", "other"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.json").write_text('{"id": 1}\n')
    ledger, source = tmp_path / "ledger", Source("s", "json")
    declared = ("orders", "orders/*/*.json", "orders/2026", "o*")
    counts = [discover(tmp_path / place, ledger, source).admitted for place in declared]
    assert counts == [2, 0, 0, 1]
    names = {str(row["path"]) for row in ledgers.rows(ledger)}
    assert names == {"2026/a.json", "2027/a.json", "../other/a.json"}
