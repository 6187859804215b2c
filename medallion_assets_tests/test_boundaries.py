"""Every file stays in its room: who may import whom, read from the code itself."""

import ast
from pathlib import Path

import pytest

import medallion_assets

HOUSE = Path(medallion_assets.__file__).parent
DAGSTER_ROOMS = {"definitions", "orchestration"}
ROOMS = (
    "settings",
    "storage",
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
APART = {"pipelines": set(), "simulators": set(), "project": {"declare", "settings"}}
"""Rooms beside the engine: the only other rooms each may import from."""


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def room(file):
    return file.relative_to(HOUSE).with_suffix("").parts[0]


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
