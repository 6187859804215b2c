"""What ``run``, ``status``, ``plan`` and ``doctor`` say: counts, warnings, failures, and no contradiction."""

import shutil
from dataclasses import replace

import pytest
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from typer.testing import CliRunner

from medallion_assets.cli import app
from medallion_assets.declare import Pipeline, expect, keep_changes, stream
from medallion_assets.delta import log
from medallion_assets.delta.events import events_of
from medallion_assets.lake.resources import resources_of
from medallion_assets.orchestration import metadata
from medallion_assets.orchestration.assets import as_asset
from medallion_assets.orchestration.resources import LakeResource, SparkResource
from medallion_assets.reports import history_of, show, statuses
from medallion_assets.runs.run import run_tables
from medallion_assets_tests.shop import ABOVE_ZERO, chain, json_lines, orders_file, orders_of


@pytest.fixture
def ran(lake, spark, monkeypatch):
    """Run tables as the command does; gives the last line it prints, and the outcomes."""

    def run(tables):
        console = Console(width=1000, record=True, quiet=False)
        monkeypatch.setattr(show, "console", console)
        outcomes = list(run_tables(tables, lake, lambda: spark))
        for outcome in outcomes:
            show.outcome(outcome)
        show.summary(outcomes)
        return console.export_text().strip().splitlines()[-1], outcomes

    return run


@pytest.mark.spark
def test_a_run_counts_rows_quarantine_refused_files_and_warnings_and_fails_where_nothing_fits(
    ran, drop, look, lake, spark
):
    tables = chain()
    sales = tables[1]
    drop("shop/orders", "bad.json", json_lines({"id": "x", "total": "y"}, {"id": "z", "total": "w"}))
    line, (outcome, *_) = ran(tables)
    assert not outcome.is_well
    assert "none of the 2 records of this run fits the table" in outcome.error
    assert "bad.json" in outcome.error
    assert "does not fit the schema" in outcome.error
    assert line.startswith("3 of 3 tables failed:")
    assert "2 quarantined" in line
    drop("shop/orders", "good.json", orders_file((1, 5), (2, 5)))
    line, outcomes = ran(tables)
    assert line == "All well: 3 tables, 5 rows written, 0 quarantined, 0 files refused, 0 warnings."
    drop("shop/orders", "mixed.json", orders_file((3, 5), (4, -1)) + json_lines({"id": "x"}))
    drop("shop/orders", "torn.json.gz", b"\x1f\x8bno gzip")
    line, outcomes = ran(tables)
    assert line.startswith("Done with warnings: 3 tables, ")
    assert "2 quarantined" in line
    assert all(o.is_well for o in outcomes)
    assert str(outcomes[2].balance).endswith("in groups + 0 quarantined")
    changed = chain(rules=(expect("above_one", "total > 1"),), schema="id INT, total BIGINT")
    assert "its expectations changed: new rows" in look("plan", changed[1]).does
    assert "shop/gold/totals take the changed rows" in look("plan", changed[1]).does
    assert "total is BIGINT instead of INTEGER" in look("plan", changed[0]).does
    # A lost checkpoint with nothing new to take: nothing to do, and no run that would change the answer.
    shutil.rmtree(lake.state(sales, "checkpoint"))
    assert look("doctor", sales).well
    assert ran(tables)[1][1].refresh.skipped
    assert look("doctor", sales).well


def more_totals(sales):
    """Return what ``chain``'s aggregate gives, and one column more."""
    sums = F.sum("total").alias("total"), F.count("*").alias("sales"), F.max("total").alias("most")
    return sales.groupBy(F.lit("all").alias("of")).agg(*sums)


@pytest.mark.spark
def test_plan_doctor_and_run_name_the_same_verb_for_a_changed_stateful_query_and_it_mends(
    drop, refreshed, look, do, rows_of
):
    tables = chain(gold="complete")
    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(*tables)
    assert look("doctor", tables[2]).well
    changed = replace(tables[2], query=more_totals)
    drop("shop/orders", "b.json", orders_file((2, 6)))
    refreshed(*tables[:2])
    for _ in range(2):
        told = look("doctor", changed)
        assert not told.well
        assert "its query has changed" in told.does
        assert "run full_refresh" in told.does
        assert "run full_refresh" in look("plan", changed).does
        with pytest.raises(RuntimeError, match="full_refresh"):
            refreshed(changed)
    assert do("full_refresh", changed).well
    assert look("doctor", changed).does == "well"
    assert rows_of("shop/gold/totals", "SELECT total, most FROM t") == [{"total": 11, "most": 6}]


@pytest.mark.spark
def test_a_batch_of_which_nothing_fits_fails_the_step_in_dagster(drop, lake, spark):
    import dagster as dg

    orders = chain()[0]
    drop("shop/orders", "bad.json", json_lines({"id": "x", "total": "y"}))
    done = dg.materialize(
        [as_asset(orders)], resources={"lake": LakeResource(), "spark": SparkResource()}, raise_on_error=False
    )
    (failed,) = [e for e in done.all_events if e.is_step_failure]
    told = failed.step_failure_data.user_failure_data.description
    assert "none of the 1 records of this run fits the table" in told
    assert failed.step_failure_data.error.cause is None


def test_a_table_that_was_never_built_has_no_check_that_passed(lake):
    (status,) = statuses(chain()[:1], lake)
    assert set(status["checks"].values()) == {"not run yet"}


def test_an_unknown_table_or_option_of_the_command_line_names_what_was_meant(lake, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert (
        "did you mean 'school/gold/daily_student_courses'"
        in CliRunner().invoke(app, ["run", "school/gold/daily_student_course"]).output
    )
    assert "--days" in CliRunner().invoke(app, ["maintain", "--day", "3"]).output


@pytest.mark.spark
def test_rows_and_written_rows_are_the_same_numbers_wherever_they_are_told(ran, drop, lake, spark):
    shop = Pipeline("shop")
    orders = orders_of(shop)

    @shop.silver(scd=keep_changes("id", "total", type=1), expectations=[ABOVE_ZERO])
    def newest(orders=stream(orders)):
        """One row per order, as it is now."""
        return orders.select("id", "total")

    @shop.gold(output_mode="incremental", row_count_column="orders")
    def totals(orders=stream(orders)):
        """One row per order, and how often it came."""
        return orders.groupBy("id").agg(F.count("*").alias("orders"))

    tables = (orders, newest, totals)
    written, lines = {table.key: [] for table in tables}, []
    for file in (((1, 5), (2, 6), (3, 7), (3, 8)), ((1, 9), (4, -1)), ((2, 8),)):
        drop("shop/orders", f"{len(lines)}.json", orders_file(*file))
        line, outcomes = ran(tables)
        for outcome in outcomes:
            written[outcome.table.key].append(outcome.refresh.total("written"))
        lines.append(line)
    # An UPDATE or DELETE rewrites files, whose other rows no one wrote.
    spark.sql(f"UPDATE delta.`{lake.path(newest)}` SET total = 1 WHERE id = 1")
    spark.sql(f"DELETE FROM delta.`{lake.path(totals)}` WHERE id = 4")
    assert written == {orders.key: [4, 2, 1], newest.key: [4, 1, 1], totals.key: [3, 2, 1]}
    for number, line in enumerate(lines):
        rows = sum(of[number] for of in written.values())
        assert f" {rows} row{'s' * (rows != 1)} written" in line
    by_hand = {orders.key: [], newest.key: [1], totals.key: [0]}
    told = log.rows(events_of(lake.root), "SELECT * FROM t WHERE event = 'micro_batch' ORDER BY at")
    for table in tables:
        of_commits = [commit["rows_written"] for commit in history_of(table, lake, 10)][::-1]
        assert of_commits == written[table.key] + by_hand[table.key], table.key
        assert [e["rows_written"] for e in told if e["table"] == table.key] == written[table.key]
    held = {table.key: spark.read.format("delta").load(str(lake.path(table))).count() for table in tables}
    assert held == {orders.key: 7, newest.key: 3, totals.key: 3}
    assert {f"shop/{s['layer']}/{s['table']}": s["rows"] for s in statuses(tables, lake)} == held
    assert {r.name: r.rows for r in resources_of(lake) if r.kind == "table"} == held
    shown = {o.table.key: metadata.refreshed(o.table, lake, o.refresh)["dagster/row_count"] for o in outcomes}
    assert shown == held
