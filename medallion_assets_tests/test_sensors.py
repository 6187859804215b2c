"""What a landing sensor asks for, and the words with which it asks for nothing."""

import time

import dagster as dg
import pytest

from medallion_assets.declare import Pipeline
from medallion_assets.definitions import defs
from medallion_assets.delta.batches import read_json, write_json
from medallion_assets.lake.arrivals import take_arrivals
from medallion_assets.orchestration.resources import LakeResource
from medallion_assets.orchestration.sensors import requested
from medallion_assets.pipelines import PIPELINES
from medallion_assets.simulators import land
from medallion_assets.sources import discover
from medallion_assets.sources.looks import looks_of


@pytest.fixture
def tick(lake):
    instance = dg.DagsterInstance.ephemeral()
    sensor = defs.resolve_sensor_def("school_landing")

    def evaluate():
        context = dg.build_sensor_context(
            instance=instance, definitions=defs, resources={"lake": LakeResource()}
        )
        return sensor.evaluate_tick(context)

    evaluate.instance = instance
    return evaluate


def test_an_empty_landing_zone_is_skipped_with_a_sentence(tick):
    found = tick()
    assert found.run_requests == []
    assert found.skip_message.startswith("No new file in ")
    assert found.skip_message.endswith("no table of school is behind.")


def test_new_files_ask_for_the_whole_chain_once_and_say_what_arrived(tick, lake):
    land("school", lake.settings.landing, 2)
    first, second = tick(), tick()
    assert [r.tags["medallion/arrived"] for r in first.run_requests] == [
        "2 new in school/enrollments; 1 new in school/students; 1 new in school/courses"
    ]
    assert [r.run_key for r in first.run_requests] == [r.run_key for r in second.run_requests]
    assert {e.asset_key.to_user_string() for e in first.asset_events} == {
        "school/landing/enrollments",
        "school/landing/students",
        "school/landing/courses",
    }


def test_a_run_started_by_hand_is_waited_for(lake, tick):
    land("school", lake.settings.landing, 1)
    key = dg.AssetKey(["school", "silver", "enrollments"])
    job = defs.resolve_implicit_global_asset_job_def()
    tick.instance.create_run_for_job(
        job, asset_selection=frozenset([key]), status=dg.DagsterRunStatus.STARTED
    )
    assert tick().skip_message.startswith("A run of school is under way")


def test_no_run_is_asked_for_while_the_pipeline_is_kept_up(tick, lake):
    land("school", lake.settings.landing, 1)
    tick.instance.create_run_for_job(
        defs.resolve_job_def("school_stream"), status=dg.DagsterRunStatus.STARTED
    )
    assert tick().skip_message.startswith("A run of school is under way")


def test_files_that_arrive_later_are_another_request(lake):
    land("school", lake.settings.landing, 1)
    first = requested(PIPELINES["school"], lake).run_requests[0].run_key
    land("school", lake.settings.landing, 1)
    assert requested(PIPELINES["school"], lake).run_requests[0].run_key != first


def test_files_a_dead_run_left_in_the_ledger_are_asked_for_again(lake):
    land("school", lake.settings.landing, 1)
    table = PIPELINES["school"].tables["school/bronze/enrollments"]
    discover(lake.landing("school", table.source), lake.ledger(table), table.source)
    words = requested(PIPELINES["school"], lake).run_requests[0].tags["medallion/arrived"]
    assert "files of school/enrollments wait to be loaded" in words


def test_a_pass_over_the_landing_zone_is_asked_for_when_its_interval_is_over(lake):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json", schema="id INT", backfill_interval="1 hour")):  # noqa: B008
        """One row per order."""
        return files

    words = requested(shop, lake).run_requests[0].tags["medallion/arrived"]
    assert words == "a pass over shop/orders is due"
    take_arrivals(orders, lake)
    assert isinstance(requested(shop, lake), dg.SkipReason)
    note = looks_of(lake.ledger(orders)) / "listed.json"
    write_json(note, {**read_json(note), "at": time.time() - 3601})
    first, second = (requested(shop, lake).run_requests[0].run_key for _ in range(2))
    assert first == second


def test_every_sensor_runs_without_being_switched_on():
    for sensor in defs.sensors:
        assert sensor.default_status == dg.DefaultSensorStatus.RUNNING


def test_automation_reaches_only_what_hangs_beside_the_chains():
    graph = defs.resolve_asset_graph()
    automated = [k.to_user_string() for k in graph.get_all_asset_keys() if graph.get(k).automation_condition]
    assert automated == ["report/lake_status"]
