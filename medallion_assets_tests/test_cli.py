"""The command line as a person uses it: words, exit codes, and no Spark for what only reads."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from medallion_assets.cli import app


@pytest.fixture
def medallion(lake, monkeypatch, no_spark):
    monkeypatch.setattr("medallion_assets.session.start_session", lambda settings: no_spark())
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, words)


def test_an_unknown_table_is_a_usage_error_that_lists_the_known_ones(medallion):
    done = medallion("run", "school/gold/nothing")
    assert done.exit_code == 2
    assert "school/gold/daily_student_courses" in done.output


def test_land_puts_as_many_files_as_asked_and_its_references(medallion, lake):
    assert medallion("land", "school", "--files", "2").exit_code == 0
    assert len(list(lake.settings.landing.rglob("*.*"))) == 4


def test_landing_is_the_same_for_the_same_seed(medallion, lake):
    medallion("land", "health", "--seed", "5")
    first = (lake.settings.landing / "health/recordings/recordings_2020_01.json").read_text()
    (lake.settings.landing / "health/recordings/recordings_2020_01.json").unlink()
    medallion("land", "health", "--seed", "5")
    assert (lake.settings.landing / "health/recordings/recordings_2020_01.json").read_text() == first


def test_a_run_with_nothing_landed_starts_no_spark_and_says_so(medallion):
    done = medallion("run", "school")
    assert done.exit_code == 0
    assert "Spark was not started" in done.output


def test_a_run_that_cannot_start_spark_exits_1_and_names_the_tables(medallion):
    medallion("land", "school")
    done = medallion("run", "school")
    assert done.exit_code == 1
    assert "tables failed" in done.output
    assert "not run: school/bronze/students failed" in done.output


def test_status_as_json_has_its_public_keys(medallion):
    found = json.loads(medallion("status", "--json").output)
    assert len(found) == 21
    assert set(found[0]) == {
        "pipeline",
        "layer",
        "table",
        "path",
        "version",
        "rows",
        "quarantined",
        "last_run",
        "checks",
    }


READING = [
    "history school.silver.enrollments",
    "files school",
    "quarantine list",
    "quarantine show school/silver/students",
]


@pytest.mark.parametrize("words", READING)
def test_reading_an_empty_lake_says_that_nothing_is_there(medallion, words):
    done = medallion(*words.split())
    assert done.exit_code == 0
    assert "nothing there" in done.output


def test_a_table_that_is_piped_is_not_folded_at_a_terminals_width(lake):
    told = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    ours = {"MEDALLION_LAKE": str(lake.root), "MEDALLION_LANDING": str(lake.settings.landing)}
    command = [sys.executable, "-c", "from medallion_assets.cli import app; app()", "status", "school"]
    done = subprocess.run(command, env=told | ours, capture_output=True, text=True, check=True)
    head = next(line for line in done.stdout.splitlines() if "version" in line)
    assert all(name in head for name in ("table", "rows", "quarantined", "last_run", "checks"))
