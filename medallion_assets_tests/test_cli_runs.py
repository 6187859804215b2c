"""The command line from a first run to the last reset, with Spark behind it."""

import json
from importlib import import_module

import pytest
from typer.testing import CliRunner

from medallion_assets.cli import app
from medallion_assets.declare import Pipeline
from medallion_assets.reports.show import console
from medallion_assets_tests.shop import orders_and_sales, orders_file

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


def test_run_refresh_reprocess_history_status_and_reset_do_what_they_say(medallion, drop, monkeypatch):
    orders, _ = orders_and_sales()
    shop = Pipeline("shop", tables={**orders.registry})
    monkeypatch.setattr(
        import_module("medallion_assets.cli.app"), "project_pipelines", lambda: {"shop": shop}
    )

    def rows():
        return [told["rows"] for told in json.loads(medallion("status", "--json"))]

    drop("shop/orders", "a.json", orders_file((1, 5), (2, 6)))
    assert "All well: 2 tables, 4 rows written" in medallion("run")
    shown = medallion("status")
    assert all(word in shown for word in ("shop/silver/sales", "passed"))
    drop("shop/orders", "b.json", orders_file((3, 7)))
    assert "All well: 2 tables, 2 rows written" in medallion("refresh")
    assert "3 rows before, 3 now" in medallion("refresh", "--full")
    drop("shop/orders", "a.json", orders_file((1, 5)))
    assert "shop/silver/sales" in medallion("reprocess", "shop/bronze/orders", "--file", "a.json")
    assert rows() == [2, 3], "what reads the table takes the change with its next run"
    commits = medallion("history", "shop/bronze/orders")
    assert all(word in commits for word in ("rows_written", "WRITE", "batch", "run"))
    medallion("reset", "shop", "--yes")
    assert rows() == [0, 0]
