"""Every file stays in its room: who may import whom, read from the code itself."""

import ast
import re
from pathlib import Path

import pytest

import medallion_assets
from medallion_assets_tests import rooms
from medallion_assets_tests.rooms import HOUSE, imports, room

DAGSTER_ROOMS = {"definitions", "orchestration"}
ROOMS = (
    "storage",
    "settings",
    "session",
    "delta",
    "sources",
    "declare",
    "lake",
    "quarantine",
    "quality",
    "runtime",
    "replay",
    "runs",
    "operations",
    "reports",
)
"""The rooms from the ground up: a room imports only from those before it."""
APART = {"pipelines": set(), "simulators": {"storage"}, "project": {"declare", "settings"}}
"""Rooms beside the engine: the only other rooms each may import from."""


FILES = sorted(HOUSE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(HOUSE)))
def test_a_file_imports_only_from_rooms_below_it(file):
    found = list(imports(file))
    ours = {name.split(".")[1] for name in found if name.startswith("medallion_assets.")} - {room(file)}
    if room(file) in ROOMS:
        assert ours <= set(ROOMS[: ROOMS.index(room(file))])
    if room(file) in APART:
        assert ours <= APART[room(file)]
    if room(file) not in DAGSTER_ROOMS:
        assert not [name for name in found if name.split(".")[0].startswith("dagster")]


def test_the_command_line_imports_no_module_that_imports_dagster_as_it_loads():
    names = {name for file in HOUSE.glob("cli/*.py") for name in imports(file)}
    ours = [HOUSE.parent / f"{n.replace('.', '/')}.py" for n in names if "assets.orchestration." in n]
    tops = [node for file in ours for node in ast.parse(file.read_text()).body]
    assert tops
    for node in tops:
        loaded = (
            [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
        )
        assert not [name for name in loaded if name and name.split(".")[0].startswith("dagster")]


@pytest.mark.parametrize("layer", sorted(HOUSE.glob("pipelines/*/*.py")), ids=lambda f: f.stem)
def test_a_pipeline_file_uses_only_the_public_names_of_the_package(layer):
    ours = [n for n in ast.walk(ast.parse(layer.read_text())) if isinstance(n, ast.ImportFrom)]
    public = [alias.name for n in ours if n.module == "medallion_assets" for alias in n.names]
    assert set(public) <= set(medallion_assets.__all__)
    assert not [
        n.module for n in ours if n.module.startswith("medallion_assets.") and "pipelines" not in n.module
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(HOUSE)))
def test_a_file_stays_within_its_size(file):
    assert len(file.read_text().splitlines()) <= 300


def test_nothing_is_unpickled_or_evaluated():
    words = ("pickle", "eval(", "exec(", "yaml.load(")
    assert not [(f.name, w) for f in FILES for w in words if w in f.read_text().replace("_exec(", "")]


def test_rows_python_holds_reach_spark_by_one_way_that_needs_no_python_worker():
    assert [f.name for f in FILES if "createDataFrame(" in f.read_text()] == ["frames.py"]


def test_the_picture_of_the_rooms_is_the_one_the_imports_draw():
    page = rooms.PAGE.read_text("utf-8")
    assert rooms.drawn(page) == page, "run `make rooms`"


PAGES = [Path("README.md"), *sorted(Path("docs").glob("*.md"))]
OF_A_PROJECT = Path("docs/your-own-project.md")
"""Names the files of a project that `medallion new project` writes."""


@pytest.mark.parametrize("page", [p for p in PAGES if p != OF_A_PROJECT], ids=lambda p: p.stem)
def test_every_file_a_page_names_exists(page):
    folders = (HOUSE, Path(rooms.__file__).parent, Path("benchmarks"))
    known = [f"/{file.as_posix()}" for folder in folders for file in folder.rglob("*.py")]
    named = re.findall(r"`([a-z_/]+\.py)`", page.read_text("utf-8"))
    assert not [name for name in named if not any(path.endswith(f"/{name}") for path in known)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_page_a_page_links_to_exists(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    assert not [link for link in links if not (page.parent / link).exists()]


OF_FOLDERS = {
    "lstat", "stat", "scandir", "listdir", "iterdir", "glob", "rglob", "rename", "unlink",
    "link", "symlink", "symlink_to", "hardlink_to", "mkdir", "makedirs", "rmdir", "touch", "utime", "flock",
    "rmtree", "move", "copyfile", "copytree", "copystat", "mkdtemp", "TemporaryDirectory",
}  # fmt: skip
"""Names of functions and methods of the standard library that look at, make, move or delete files."""

TOUCH_FILES = {
    "storage/local.py": "the local implementation of the port",
    "storage/paths.py": "the path of a lake in an object store, and what local lakes do in its place",
    "storage/copies.py": "copies of objects on the local disk, for as long as they are read",
    "storage/lease.py": "the lock of the operating system, and which file it is on",
    "session/start.py": "the archive of Java classes beside the jars, on the machine Spark runs on",
    "session/java.py": "the jars themselves",
    "session/catalog.py": "lists the tables of a lake",
    "session/cluster.py": "packs the package for executors, on the machine of the driver",
    "cli/running.py": "writes the files of a new project",
    "delta/log.py": "copies a table that deltalake cannot read to a folder of its own, for one query",
    "delta/progress.py": "checks and moves Spark's checkpoint, and drops one in an object store",
    "delta/rollback.py": "the format file of a lake",
    "lake/loaded.py": "finds the notes of loads in a lake",
    "operations/doctor.py": "the age and size of a lake's logs and state",
    "operations/reset.py": "removes the folders of a lake and of its landing zone",
    "replay/replay.py": "a sidecar of a lake",
    "runtime/failures.py": "writes traces to files of a lake, and deletes old ones",
    "sources/create_table.py": "removes the folders of a dropped table from a lake",
    "sources/staging.py": "stand-ins for files whose names Spark takes for patterns, on the local disk",
    "sources/fetched.py": "removes the copies of a batch's objects",
    "sources/load_records.py": "schema versions copied aside while a batch is only tried",
    "sources/schema_versions.py": "schema versions beside a lake",
    "sources/cleaning.py": "registrations of readers in a lake",
    "sources/formats/parsed_files.py": "parsed records on the local disk, for one batch",
}
"""The files that do so without the storage port, each with the reason. A row may go; none may come."""


def touches(file):
    calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    ports = {"storage", "LOCAL", "self"}
    for called in calls:
        if isinstance(called, ast.Attribute) and called.attr in OF_FOLDERS:
            yield called.attr if not _is_a_port(called.value, ports) else ""
        elif isinstance(called, ast.Name) and called.id in OF_FOLDERS - {"move"}:
            yield called.id


def _is_a_port(value, ports):
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "storage_of"
    return (value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")) in ports


def test_files_are_touched_through_the_storage_port_or_by_a_file_that_is_named_with_its_reason():
    ours = [f for f in FILES if room(f) not in {"pipelines", "simulators"}]
    found = {str(f.relative_to(HOUSE)): sorted(filter(None, set(touches(f)))) for f in ours}
    assert {name for name, calls in found.items() if calls} == set(TOUCH_FILES), found
