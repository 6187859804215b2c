"""A folder of a disk and a prefix of an object store answer alike."""

import io
import os
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from medallion_assets.storage import FILE, FOLDER, LINK, move, storage_of


@pytest.fixture(params=["local", "memory"])
def zone(request, tmp_path):
    return str(tmp_path / "zone") if request.param == "local" else f"memory://{uuid.uuid4().hex}/zone"


def test_a_file_is_created_once_listed_read_in_part_and_deleted(zone):
    store = storage_of(zone)
    assert store.create(f"{zone}/a.json", b"0123456789")
    assert not store.create(f"{zone}/a.json", b"others")
    found = store.stat(f"{zone}/a.json")
    assert (found.name, found.kind, found.size, found.path) == ("a.json", FILE, 10, f"{zone}/a.json")
    with store.open(f"{zone}/a.json") as file:
        file.seek(7)
        assert file.read() == b"789"
        file.seek(0)
        assert file.read(2) == b"01"
    assert [*store.list(zone)] == [found]
    store.delete(f"{zone}/a.json")
    store.delete(f"{zone}/a.json")
    assert store.stat(f"{zone}/a.json") is None
    assert [*store.list(zone)] == []
    with pytest.raises(FileNotFoundError):
        store.open(f"{zone}/a.json")


def test_a_listing_has_folders_and_the_taken_names_in_their_order(zone):
    store = storage_of(zone)
    for name in ("b.json", "a b/1.json", "é%20[1].json", "skip.csv", "c/d/2.json", "z#?.json"):
        assert store.create(f"{zone}/{name}", io.BytesIO(b"1"))
    found = [(entry.name, entry.kind) for entry in store.list(zone, lambda name: name.endswith("json"))]
    assert found == [("a b", FOLDER), ("b.json", FILE), ("c", FOLDER), ("z#?.json", FILE),
                     ("é%20[1].json", FILE)]  # fmt: skip
    assert [entry.path for entry in store.list(f"{zone}/c/d")] == [f"{zone}/c/d/2.json"]
    assert store.stat(f"{zone}/c").kind == FOLDER


def test_an_empty_file_is_read_as_nothing(zone):
    store = storage_of(zone)
    assert store.create(f"{zone}/empty", b"")
    with store.open(f"{zone}/empty") as file:
        assert file.read() == b""


def test_of_many_that_create_one_file_one_is_told_so_and_its_content_stands_whole(zone):
    store, contents = storage_of(zone), [bytes([n]) * 100_000 for n in range(16)]
    with ThreadPoolExecutor(16) as threads:
        for number in range(20):
            path = f"{zone}/{number}"
            winners = [*threads.map(lambda content, path=path: store.create(path, content), contents)]
            assert winners.count(True) == 1
            with store.open(path) as file:
                assert file.read() == contents[winners.index(True)]
    assert len([*store.list(zone)]) == 20


def test_a_file_moves_to_a_free_path_only_between_stores_too(zone, tmp_path):
    source = f"{zone}/a.json"
    storage_of(zone).create(source, b"1")
    for target in (f"{zone}/archive/a.json", str(tmp_path / "archive" / "a.json")):
        storage_of(target).create(f"{target}.taken", b"2")
        assert not move(source, f"{target}.taken")
        assert move(source, target)
        assert storage_of(zone).stat(source) is None
        assert storage_of(target).stat(target).size == 1
        source = target


def test_an_object_that_changes_while_it_is_read_fails_the_read():
    zone = f"memory://{uuid.uuid4().hex}/zone"
    store = storage_of(zone)
    store.put(f"{zone}/a", b"1" * (9 << 20))
    before = store.stat(f"{zone}/a").tag
    with store.open(f"{zone}/a") as file:
        file.read(1)
        store.put(f"{zone}/a", b"2" * (9 << 20))
        assert store.stat(f"{zone}/a").tag != before
        with pytest.raises(OSError, match="changed while it was read"):
            file.read()


def test_links_are_seen_and_followed_only_where_that_is_asked_for(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("1")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    store = storage_of(str(tmp_path))
    assert [(e.name, e.kind) for e in store.list(str(tmp_path))] == [
        ("dangling", LINK), ("link", LINK), ("real", FOLDER),
    ]  # fmt: skip
    assert store.stat(str(tmp_path / "link")).kind == LINK
    assert store.stat(str(tmp_path / "link"), follow=True).kind == FOLDER
    assert store.stat(str(tmp_path / "dangling"), follow=True) is None


def test_a_name_that_is_not_utf8_is_given_as_it_is(tmp_path):
    raw = os.fsencode(tmp_path) + b"/\xff.json"
    with open(raw, "wb") as file:  # noqa: PTH123 (a Path has no bytes)
        file.write(b"1")
    (found,) = storage_of(str(tmp_path)).list(str(tmp_path))
    assert os.fsencode(found.path) == raw
