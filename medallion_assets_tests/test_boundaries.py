"""Every file stays in its room: who may import whom, read from the code itself."""

import ast
from pathlib import Path

import pytest

import medallion_assets

HOUSE = Path(medallion_assets.__file__).parent
DAGSTER_ROOMS = {
    "definitions",
    "translate",
    "report",
    "checks",
    "sensors",
    "resources",
    "overview",
    "announce",
    "run_launcher",
    "streaming_job",
    "verb_jobs",
}
MAY_IMPORT = {
    "settings": set(),
    "session": {"settings"},
    "delta": set(),
    # The notebook's doors, autoload_to_table and copy_into, start a session and find the lake.
    "ingestion": {"delta", "session", "settings"},
    "simulators": set(),
    # A table a query made is readable by its name from then on.
    "tables": {"ingestion", "delta", "settings", "session"},
    "pipelines": {"tables"},
    "reports": {"tables", "ingestion", "delta", "run", "streaming"},
    "run": {"tables", "delta"},
    "verbs": {"tables", "ingestion", "delta"},
    "streaming": {"run", "tables", "ingestion"},
}

ROOMS_OF_TABLES = (
    "declaration",
    "standing",
    "quarantine",
    "checks",
    "judgement",
    "writing",
    "replaying",
    "refresh",
)
"""What ``tables`` is made of, from the ground up: a room knows those below it only."""


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
    if room(file) in MAY_IMPORT:
        assert ours <= MAY_IMPORT[room(file)]
    if room(file) not in DAGSTER_ROOMS:
        assert not [name for name in found if name.split(".")[0].startswith("dagster")]


@pytest.mark.parametrize("file", sorted(HOUSE.glob("tables/**/[a-z]*.py")), ids=lambda f: f.stem)
def test_a_file_of_tables_imports_only_from_its_rooms_below(file):
    mine = file.relative_to(HOUSE / "tables").with_suffix("").parts[0]
    inside = {name.split(".")[2] for name in imports(file) if name.startswith("medallion_assets.tables.")}
    below = ROOMS_OF_TABLES[: ROOMS_OF_TABLES.index(mine) + 1]
    assert inside <= set(below)


@pytest.mark.parametrize("layer", sorted(HOUSE.glob("pipelines/*/*.py")), ids=lambda f: f.stem)
def test_a_pipeline_file_uses_only_the_public_words_of_tables(layer):
    inside = [name for name in imports(layer) if name.startswith("medallion_assets.tables")]
    assert set(inside) <= {"medallion_assets.tables"}


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(HOUSE)))
def test_a_file_stays_within_its_size(file):
    assert len(file.read_text().splitlines()) <= 250


def test_nothing_is_unpickled_or_evaluated():
    words = ("pickle", "eval(", "exec(", "yaml.load(")
    assert not [(f.name, w) for f in FILES for w in words if w in f.read_text().replace("_exec(", "")]


def test_rows_python_holds_reach_spark_by_one_way_that_needs_no_python_worker():
    assert [f.name for f in FILES if "createDataFrame(" in f.read_text()] == ["frames.py"]
