"""A project of a person's own: written by one command, outside of this repository, run and tested by two."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import medallion_assets
from medallion_assets import Pipeline, build_definitions
from medallion_assets.cli import app
from medallion_assets.settings import Settings

REPOSITORY = Path(medallion_assets.__file__).parent.parent


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("MEDALLION_PIPELINES")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["new", "project", "bookshop"])
    assert done.exit_code == 0, done.output
    return tmp_path / "bookshop"


def in_project(folder, *command):
    """Return what a command of the project's printed; it runs as a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MEDALLION_")}
    environment["PYTHONPATH"] = str(REPOSITORY)
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_every_public_name_is_importable_and_documented():
    page = (REPOSITORY / "docs/your-own-project.md").read_text().partition("## The public names")[2]
    table = [line.split("|")[1] for line in page.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    for name in medallion_assets.__all__:
        assert getattr(medallion_assets, name).__doc__, name
    assert {name for cell in table for name in re.findall(r"`(\w+)`", cell)} == {*medallion_assets.__all__}
    with pytest.raises(AttributeError, match="no attribute 'Pipelne'"):
        medallion_assets.Pipelne  # noqa: B018


def test_a_new_project_is_a_dagster_code_location_and_its_commands_find_its_tables(project):
    in_project(project, "dagster", "definitions", "validate", "-w", "workspace.yaml")
    # Also from a folder below the project's.
    printed = in_project(project / "tests", "medallion_assets.cli", "status", "--json")
    assert "bookshop" in printed
    assert "school" not in printed


@pytest.mark.spark
def test_a_new_project_passes_its_own_tests(project):
    assert "1 passed" in in_project(project, "pytest", "-q")


def test_a_project_is_never_written_over_another_or_under_a_name_python_refuses(project):
    again = CliRunner().invoke(app, ["new", "project", "bookshop"])
    assert (again.exit_code, "not empty" in again.output) == (2, True)
    for name in ("Shop", "my-shop", "class", "json", "../out"):
        assert CliRunner().invoke(app, ["new", "project", name]).exit_code == 2, name


def test_settings_come_from_the_environment_first_and_then_from_the_project(project, monkeypatch):
    file = project / "pyproject.toml"
    file.write_text(
        file.read_text().replace('pipelines = "bookshop"', 'pipelines = "bookshop"\nlake = "data/lake"')
    )
    monkeypatch.chdir(project / "tests")
    assert Settings().resolved().lake == project / "data" / "lake"
    monkeypatch.setenv("MEDALLION_LAKE", str(project / "other"))
    assert Settings().resolved().lake == project / "other"


def test_outside_of_a_project_a_command_says_how_to_name_the_pipelines(tmp_path, monkeypatch):
    monkeypatch.delenv("MEDALLION_PIPELINES")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["status"])
    assert done.exit_code == 2
    assert "medallion new project" in done.output
    monkeypatch.setenv("MEDALLION_PIPELINES", "no_such_module.pipelines")
    assert "no_such_module" in CliRunner().invoke(app, ["status"]).output


def test_definitions_of_no_pipeline_of_an_empty_one_or_of_two_of_one_name_are_refused():
    with pytest.raises(ValueError, match="at least one pipeline"):
        build_definitions([])
    with pytest.raises(ValueError, match="'empty' has no table"):
        build_definitions([Pipeline("empty")])
