"""The command line from a first run to the last reset, with Spark behind it."""

import json
from datetime import datetime, timezone
from importlib import import_module

import pytest
from typer.testing import CliRunner

from medallion_assets import run, sql
from medallion_assets.cli import app
from medallion_assets.declare import Pipeline
from medallion_assets.delta import log
from medallion_assets.delta.events import events_of
from medallion_assets.reports.show import console
from medallion_assets_tests.shop import ABOVE_ZERO, orders_and_sales, orders_file, orders_of

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


@pytest.fixture
def declare(monkeypatch):
    """Makes a pipeline the only one of the project that commands are run in."""
    app_module = import_module("medallion_assets.cli.app")
    return lambda pipeline: monkeypatch.setattr(
        app_module, "project_pipelines", lambda: {pipeline.name: pipeline}
    )


def test_a_trigger_asked_of_the_command_or_in_a_notebook_says_into_how_many_micro_batches_files_go(
    medallion, drop, declare, lake, spark
):
    shop = Pipeline("shop")
    table = orders_of(shop, max_files_per_trigger=1)
    declare(shop)

    def batches(turn, *words):
        for number in range(3):
            drop("shop/orders", f"{turn}-{number}.json", orders_file((turn, number)))
        before = log.version(lake.path(table))
        if words:
            medallion(*words)
        else:
            run(table, trigger="once", spark=spark)
        return log.version(lake.path(table)) - (-1 if before is None else before)

    assert batches(0, "run") == 3
    assert batches(1, "run", "--trigger", "once") == 1
    assert batches(2, "run", "--trigger", f"{table.key}=once") == 1
    assert batches(3) == 1


def test_run_refresh_reprocess_history_status_and_reset_do_what_they_say(medallion, drop, declare):
    orders, _ = orders_and_sales()
    declare(Pipeline("shop", tables={**orders.registry}))

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
    happened = ("--event-time", "make_date(2001, id, 1)", "--dry-run")
    for when in (("--since", "2001-03-01"), ("--until", "2001-03-01")):
        chosen = medallion("reprocess", "shop/bronze/orders", *when, *happened)
        assert "1 file would be read again" in chosen, "b.json, then a.json"
    told = json.loads(medallion("files", "shop", "--json"))
    runs = {row["batch_id"]: row["run_id"] for row in told if row["run_id"]}
    commits = [tuple(commit.values()) for commit in in_grid(medallion("history", "shop/bronze/orders"))]
    assert [(version, written, batch, run) for version, _, _, written, batch, run in commits if batch] == [
        ("4", "1", "3", runs[3]), ("3", "0", "2", runs[3]), ("1", "1", "1", runs[1]), ("0", "2", "0", runs[0])
    ]  # fmt: skip
    assert len({*runs.values()}) == 3
    listed = [tuple(row.values()) for row in in_grid(medallion("files", "shop"))]
    taken = [(path, status, read, loaded) for _, path, _, status, read, loaded, *_ in listed]
    assert [row for row in taken if row[1] == "committed"] == [
        (path, "committed", rows, rows) for path, rows in (("a.json", "2"), ("b.json", "1"), ("a.json", "1"))
    ]
    assert (taken[2][:2], listed[2][-1][:11]) == (("a.json", "changed"), "overwritten")
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
    told = [in_grid(medallion("sql", copy))[0] for _ in range(2)]
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


def in_grid(shown):
    """Return the rows of a grid, each by its heads."""
    lines = [(mark, line) for line in shown.splitlines() for mark in "┃│" if line.startswith(mark)]
    head, *rows = [[cell.strip() for cell in line.strip("│┃").split(mark)] for mark, line in lines]
    return [dict(zip(head, row, strict=True)) for row in rows]
