"""Listing after a name, and listing folders of a store side by side: no file is lost by either."""

import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medallion_assets.delta.batches import read_json, write_json
from medallion_assets.sources import Source, discover, ledger
from medallion_assets.sources.discovery import DiscoveryOptions
from medallion_assets.sources.looks import looks_of, notices, ordered
from medallion_assets.sources.walking import NamedFiles, entries
from medallion_assets.storage import storage_of
from medallion_assets.storage.objects import ObjectStorage
from medallion_assets_tests.examples import examples

SOURCE = Source("s", "json", recursive_file_lookup=True, use_incremental_listing=True)


class World:
    """A zone in a store in memory, and its ledger."""

    def __init__(self, folder):
        self.zone, self.ledger = f"memory://{uuid.uuid4().hex}/zone", folder / uuid.uuid4().hex

    def put(self, *names):
        for name in names:
            storage_of(self.zone).put(f"{self.zone}/{name}", b'{"n": 1}\n')
            time.sleep(0.001)

    def look(self, **options):
        found = discover(self.zone, self.ledger, SOURCE, DiscoveryOptions(**options))
        return found.admitted, found.matched

    def backfill(self):
        note = looks_of(self.ledger) / "listed.json"
        write_json(note, {**read_json(note), "at": 0.0})
        return self.look()

    def known(self):
        return set(ledger.last_seen(self.ledger))

    def told(self):
        return {(row["kind"], row["path"].removeprefix(f"{self.zone}/")) for row in notices(self.ledger)}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_names_after_the_last_one_are_all_that_is_listed(world, monkeypatch):
    world.put("2026/01/a.json", "2026/01/b.json")
    assert world.look() == (2, 2)
    listed = []
    monkeypatch.setattr(ObjectStorage, "list", lambda self, *asked: listed.append(asked) or iter(()))
    world.put("2026/01/c.json", "2026/02/a.json", "2026/02/_hidden.json", "2026/02/b.tmp")
    assert world.look() == (2, 2)
    assert world.look() == (0, 0)
    assert listed == []


def test_a_name_that_comes_too_late_is_loaded_and_told_by_the_next_whole_listing(world):
    world.put("b.json", "d.json")
    assert world.look() == (2, 2)
    world.put("a.json", "e.json")
    assert world.look() == (1, 1)
    assert world.backfill() == (1, 4)
    assert world.told() == {("late name", "a.json"), ("not ordered", "b.json")}
    world.put("c.json")
    assert world.look() == (1, 5)
    assert world.told() == {("late name", "a.json"), ("not ordered", "b.json")}


def test_a_file_that_waits_to_settle_holds_the_cursor_before_it(world):
    world.put("a.json")
    assert world.look() == (1, 1)
    world.put("b.json")
    assert world.look(settle_seconds=60) == (0, 1)
    world.put("c.json")
    assert world.look() == (2, 2)


def test_a_lost_note_lists_everything_and_a_local_folder_always_does(world, tmp_path):
    world.put("b.json")
    world.look()
    world.put("a.json")
    (looks_of(world.ledger) / "listed.json").unlink()
    assert world.look() == (1, 2)
    (tmp_path / "in").mkdir()
    for name in ("b.json", "a.json"):
        (tmp_path / "in" / name).write_text('{"n": 1}\n')
        assert discover(tmp_path / "in", tmp_path / "local", SOURCE).admitted == 1


@given(st.lists(st.one_of(st.sampled_from(["look", "young", "lose"]), st.integers(0, 30)), max_size=12))
@examples(25)
def test_whatever_the_order_of_names_each_file_is_taken_once(tmp_path_factory, events):
    world, put = World(tmp_path_factory.mktemp("w")), set()
    for event in events:
        if event == "lose":
            (looks_of(world.ledger) / "listed.json").unlink(missing_ok=True)
        elif isinstance(event, str):
            world.look(settle_seconds=60 if event == "young" else 0)
        elif event not in put:
            put.add(event)
            world.put(f"day={event // 10}/{event:03}.json")
    world.look()
    world.backfill()
    assert world.known() == {f"day={n // 10}/{n:03}.json" for n in put}
    assert len(ledger.rows(world.ledger)) == len(put)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3))), st.sets(st.integers(0, 9)))
@examples(100)
def test_the_cursor_passes_no_file_that_waits_and_no_disorder(files, waiting):
    seen = [(str(name), at) for name, at in dict(files).items()]
    held = {str(name) for name in waiting}
    cursor, _, unordered = ordered(seen, held, "", 0)
    times = [at for _, at in sorted(seen)]
    assert bool(unordered) == (times != sorted(times))
    if not unordered:
        taken = [name for name, _ in sorted(seen) if name <= cursor]
        assert not held.intersection(taken)
        rest = [name for name, _ in sorted(seen) if name > cursor]
        assert not rest or rest[0] in held


KEYS = st.lists(st.sampled_from(["a", "b", "_h", "c.json", "d.json"]), min_size=1, max_size=4).map("/".join)


@given(
    st.sets(KEYS, max_size=12), st.sampled_from(["", "/*", "/**", "/*/c.json", "/**/*.json", "/a", "/[ab]"])
)
@examples(100)
def test_a_store_is_walked_side_by_side_as_it_is_by_names(keys, glob):
    zone = f"memory://{uuid.uuid4().hex}/zone"
    for key in keys:
        storage_of(zone).put(f"{zone}/{key}", b"")
    named = NamedFiles(storage_of(zone).list_after(zone, zone))
    for recursive in (False, True):
        found = [file.path for file in entries(f"{zone}{glob}", recursive)]
        assert found == [file.path for file in entries(f"{zone}{glob}", recursive, among=named)]
