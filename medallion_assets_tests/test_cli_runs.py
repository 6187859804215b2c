"""The command line from the first landing to the last reset, with Spark behind it."""

import json

import pytest
from typer.testing import CliRunner

from medallion_assets.cli import app
from medallion_assets.reports.show import console

pytestmark = pytest.mark.spark


@pytest.fixture
def medallion(lake, spark, monkeypatch):
    monkeypatch.setattr("medallion_assets.session.start_session", lambda settings: spark)
    monkeypatch.setattr(console, "width", 200)

    def ask(*words):
        done = CliRunner().invoke(app, [*words])
        assert done.exit_code == 0, done.output
        return done.output

    return ask


def test_land_run_refresh_reprocess_and_reset_do_what_they_say(medallion, lake):
    def rows(key="health/bronze/recordings"):
        (told,) = json.loads(medallion("status", key, "--json"))
        return told["rows"]

    medallion("land", "health")
    assert "done" in medallion("run", "health")
    first = rows()
    assert first > 0
    assert "passed" in medallion("status", "health")
    medallion("land", "health")
    assert "health/gold/daily_patient_avg" in medallion("refresh", "health")
    both, enriched = rows(), rows("health/silver/recordings_enriched")
    assert both > first
    assert "rows before" in medallion("refresh", "health/silver/recordings_enriched", "--full")
    assert rows("health/silver/recordings_enriched") == enriched
    again = ("reprocess", "health/bronze/recordings", "--file", "recordings_2020_01.json")
    assert "1 file" in medallion(*again)
    assert rows() == both
    commits = medallion("history", "health/bronze/recordings")
    assert all(word in commits for word in ("STREAMING UPDATE", "run", "batch")) or "WRITE" in commits
    medallion("reset", "health", "--yes")
    assert rows() in (None, 0)
