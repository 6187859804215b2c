"""The command line from a first run to the last reset, with Spark behind it."""

import json
from datetime import datetime, timezone
from importlib import import_module

import pytest
from typer.testing import CliRunner

from medallion_assets import sql
from medallion_assets.cli import app
from medallion_assets.declare import Pipeline
from medallion_assets.delta.events import events_of
from medallion_assets.reports.show import console
from medallion_assets_tests.shop import ABOVE_ZERO, orders_and_sales, orders_file

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
    later = datetime.now(timezone.utc).isoformat()
    since = ("reprocess", "shop/bronze/orders", "--since", later, "--dry-run")
    assert "no loaded file matches" in medallion(*since), "none arrived after now"
    before = ("reprocess", "shop/bronze/orders", "--until", later, "--dry-run")
    assert "2 files would be read again" in medallion(*before)
    commits = medallion("history", "shop/bronze/orders")
    assert all(word in commits for word in ("rows_written", "WRITE", "batch", "run"))
    medallion("reset", "shop", "--yes")
    assert rows() == [0, 0]


def test_a_statement_loads_files_and_tells_its_counts_and_what_runs_did_is_a_table_to_ask(
    medallion, drop, lake, refreshed, spark
):
    folder = drop("files", "a.csv", "id,day\n1,2024-01-31\n2,soon\n").parent
    copy = (
        f"COPY INTO bronze.days FROM (SELECT id, TO_DATE(day, 'yyyy-MM-dd') AS day FROM '{folder}') "
        "FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true') COPY_OPTIONS ('mergeSchema' = 'true')"
    )
    told = [counts_in(medallion("sql", copy)) for _ in range(2)]
    assert [(t["num_affected_rows"], t["num_inserted_rows"]) for t in told] == [("1", "1"), ("0", "0")]
    assert "2024-01-31" in medallion("sql", "SELECT * FROM default.bronze.days")
    orders, sales = orders_and_sales(ABOVE_ZERO)
    drop("shop/orders", "a.json", orders_file((1, 5), (2, 6), (3, -1)))
    refreshed(orders, sales)
    asked = f"""
        SELECT `table`, sum(rows_written) AS written, sum(rows_quarantined) AS held,
               max(backlog_files) AS waited
        FROM delta.`{events_of(lake.root)}` WHERE event = 'refresh' GROUP BY `table` ORDER BY `table`
    """
    told = [tuple(row) for row in sql(asked, spark=spark).collect()]
    assert told == [("shop/bronze/orders", 3, 0, 1), ("shop/silver/sales", 2, 1, 1)]
    shown = medallion("sql", asked)
    assert all(word in shown for word in ("shop/bronze/orders", "shop/silver/sales", "waited"))


def counts_in(shown):
    """Return the numbers of a grid of one row, by its heads."""
    head, row = [[cell.strip() for cell in line.strip("│┃").split(mark)] for mark, line in grid_of(shown)]
    return dict(zip(head, row, strict=True))


def grid_of(shown):
    return [(mark, line) for line in shown.splitlines() for mark in "┃│" if line.startswith(mark)]
