"""Dagster's storage stays small: few events a table and run, none for a quiet tick, and old runs go."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.storage.runs.schema import RunsTable

from medallion_assets import Pipeline, build_definitions
from medallion_assets.orchestration import assets as translate
from medallion_assets.orchestration import retention
from medallion_assets.orchestration.resources import LakeResource
from medallion_assets.quality.verdicts import Verdict
from medallion_assets.runs.run import Refresh
from medallion_assets_tests.dagster_home import PROJECT

TABLES = 30
EVENTS_OF_A_TABLE = 20
"""The planned and the done materialization, four checks planned, done and output, two steps."""
BYTES_OF_A_TABLE = 33_000


def shop(tables=1):
    pipeline = Pipeline("shop", owners=("team:data",))
    for number in range(tables):

        def orders(files=pipeline.landing("orders", format="json", schema="id INT")):  # noqa: B008
            """One row per order."""
            return files

        orders.__name__ = f"orders_{number}"
        pipeline.bronze()(orders)
    return pipeline


@pytest.fixture
def quick(lake, monkeypatch):
    """Lets tables be refreshed without Spark: nothing is new in any."""
    monkeypatch.setattr(
        translate, "refresh", lambda table, *_: Refresh(table.key, "nothing new", (), None, 0.0, "run")
    )
    monkeypatch.setattr(translate, "_verdict", lambda table, name, _: Verdict(name, True, True, "well", {}))


@pytest.fixture
def instance(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        yield instance


def ran(defs, instance, job, **options):
    done = defs.resolve_job_def(job).execute_in_process(instance=instance, **options)
    assert done.success
    return done.run_id


def aged(instance, run_id, days):
    """Dates a run's end back."""
    then = datetime.now(timezone.utc) - timedelta(days=days)
    with instance.run_storage.connect() as connection:
        statement = RunsTable.update().where(RunsTable.c.run_id == run_id)
        connection.execute(statement.values(update_timestamp=then.replace(tzinfo=None)))


def runs_of(instance):
    return {run.run_id for run in instance.get_runs()}


def test_a_run_of_thirty_tables_writes_few_events_a_table(quick, instance):
    defs = build_definitions([shop(TABLES)])
    run_id = ran(defs, instance, "shop_chain")
    events = instance.all_logs(run_id)
    assert len(events) <= TABLES * EVENTS_OF_A_TABLE + 10
    assert sum(len(dg.serialize_value(event)) for event in events) <= TABLES * BYTES_OF_A_TABLE


def test_a_quiet_tick_writes_no_event_and_no_run(quick, instance):
    defs = build_definitions([shop()])
    sensor = defs.resolve_sensor_def("shop_landing")
    resources = {"lake": LakeResource()}
    context = dg.build_sensor_context(instance=instance, definitions=defs, resources=resources)
    with instance.event_log_storage.index_connection() as connection:
        tables = [
            name
            for (name,) in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]

    def rows():
        with instance.event_log_storage.index_connection() as connection:
            return {t: connection.exec_driver_sql(f"SELECT count(*) FROM {t}").scalar() for t in tables}

    before = rows()
    assert "event_logs" in before
    assert sensor.evaluate_tick(context).skip_message.startswith("No new file in ")
    assert rows() == before
    assert runs_of(instance) == set()


def test_skipped_ticks_are_kept_for_a_day_by_dagsters_own_retention(tmp_path):
    overrides = yaml.safe_load((PROJECT / "medallion_assets/templates/dagster.yaml").read_text())
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides=overrides) as instance:
        for kind in InstigatorType:
            days = {s.value: d for s, d in instance.get_tick_retention_settings(kind).items()}
            assert days["SKIPPED"] == 1, kind
            assert days["SUCCESS"] == days["FAILURE"] == 30, kind


def test_old_runs_go_and_the_newest_of_each_asset_and_check_stays(quick, instance, monkeypatch):
    monkeypatch.setenv("MEDALLION_RUNS_DAYS", "10")
    defs = build_definitions([shop(2)])
    first = ran(defs, instance, "shop_chain")
    assert first
    second = ran(defs, instance, "shop_chain")
    third = ran(defs, instance, "shop_chain", asset_selection=[dg.AssetKey(["shop", "bronze", "orders_0"])])
    young = ran(defs, instance, "plan", run_config={"ops": {"do_plan": {"config": {"tables": ["shop"]}}}})
    for run_id, days in ((first, 12), (second, 11), (third, 11), (young, 9)):
        aged(instance, run_id, days)
    night = ran(defs, instance, "retention")
    # orders_1 was last filled by the second run, orders_0 by the third.
    assert runs_of(instance) == {second, third, young, night}
    assert not Path(instance.event_log_storage.path_for_shard(first)).exists()
    for name, run_id in (("orders_0", third), ("orders_1", second)):
        key = dg.AssetKey(["shop", "bronze", name])
        assert instance.get_latest_materialization_event(key).run_id == run_id
    told = instance.get_latest_materialization_event(retention.KEY).asset_materialization.metadata
    assert (told["runs_deleted"].value, told["old_runs_kept"].value, told["days"].value) == (1, 2, 10)


def test_the_output_of_an_old_run_goes_with_it(instance):
    run = dg.DagsterRun("chain", status=dg.DagsterRunStatus.SUCCESS)
    instance.add_run(run)
    with instance.compute_log_manager.capture_logs([run.run_id, "compute_logs", "step"]):
        print("said")  # noqa: T201
    folder = Path(instance.compute_log_manager._base_dir) / run.run_id
    assert list(folder.rglob("*.out"))
    retention.delete(instance, run.run_id)
    assert not folder.exists()


def test_runs_of_another_code_location_are_its_own_to_delete(quick, instance):
    defs = build_definitions([shop()])
    kept = dg.DagsterRun(
        "chain", status=dg.DagsterRunStatus.SUCCESS, tags={".dagster/repository": "__repository__@other"}
    )
    instance.add_run(kept)
    aged(instance, kept.run_id, 99)
    ran(defs, instance, "retention", tags={".dagster/repository": "__repository__@shop"})
    assert kept.run_id in runs_of(instance)


def test_a_run_that_has_not_ended_stays_however_old_it_is(quick, instance):
    stuck = dg.DagsterRun("chain", status=dg.DagsterRunStatus.STARTED)
    instance.add_run(stuck)
    aged(instance, stuck.run_id, 99)
    ran(build_definitions([shop()]), instance, "retention")
    assert stuck.run_id in runs_of(instance)


def test_old_runs_are_deleted_each_night_without_being_switched_on():
    (nightly,) = [s for s in build_definitions([shop()]).schedules if s.name == "nightly"]
    assert nightly.job_name == "retention"
    assert nightly.default_status == dg.DefaultScheduleStatus.RUNNING


def test_one_blocking_check_of_several_in_a_step_runs_alone(quick, instance):
    defs = build_definitions([shop()])
    key = dg.AssetCheckKey(dg.AssetKey(["shop", "bronze", "orders_0"]), "values_conserved")
    job = defs.resolve_implicit_global_asset_job_def().get_subset(
        asset_selection=set(), asset_check_selection={key}
    )
    done = job.execute_in_process(instance=instance)
    assert [found.check_name for found in done.get_asset_check_evaluations()] == ["values_conserved"]
