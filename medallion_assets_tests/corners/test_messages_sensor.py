"""A table that is behind asks for a run; one that no run moves asks again after growing pauses."""

from itertools import pairwise
from types import SimpleNamespace

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion_assets.definitions import defs
from medallion_assets.delta import log
from medallion_assets.orchestration.resources import LakeResource
from medallion_assets.orchestration.sensors import FIRST_PAUSE, LONGEST_PAUSE, requested
from medallion_assets.pipelines import PIPELINES
from medallion_assets.runs.run import refresh
from medallion_assets.simulators import land
from medallion_assets_tests.dagster_home import daemon_up, until
from medallion_assets_tests.shop import chain, orders_file


class Shop:
    """A shop whose tables are written without Spark, and the ticks of its sensor."""

    def __init__(self, lake):
        self.lake, self.cursor = lake, ""
        self.orders, self.sales, self.totals = chain()
        self.pipeline = SimpleNamespace(name="shop", tables=self.orders.registry)

    def commit(self, table):
        write_deltalake(self.lake.path(table), pa.table({"id": [1]}), mode="append")

    def tick(self, now):
        found = requested(self.pipeline, self.lake, self.cursor, now)
        self.cursor = found.cursor if isinstance(found, dg.SensorResult) else self.cursor
        return found


@pytest.fixture
def shop(lake):
    return Shop(lake)


def is_request(found):
    return isinstance(found, dg.SensorResult)


def asked_at(shop, start, end, step=15):
    """The times at which ticks between two times request a run."""
    return [now for now in range(start, end, step) if is_request(shop.tick(now))]


def test_a_table_behind_its_upstream_asks_for_a_run_though_no_file_lands(shop):
    assert not is_request(shop.tick(1000))
    shop.commit(shop.orders)
    (request,) = shop.tick(1015).run_requests
    assert request.tags["medallion/arrived"] == "shop/silver/sales is behind its upstream"


def test_a_table_no_run_moves_is_asked_for_ever_more_rarely_with_a_new_key_each_time(shop):
    shop.commit(shop.orders)
    keys, times = [], []
    for now in (*range(0, 1000, 15), *range(1000, 4 * 3600, 300)):
        found = shop.tick(now)
        if is_request(found):
            keys.append(found.run_requests[0].run_key)
            times.append(now)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[:4] == [30, 60, 120, 240]
    assert pauses[0] == FIRST_PAUSE
    assert max(pauses) == LONGEST_PAUSE
    assert len(set(keys)) == len(keys)


def test_the_skip_reason_of_a_pause_says_what_is_stuck_and_when_it_is_tried_again(shop):
    shop.commit(shop.orders)
    shop.tick(0)
    told = shop.tick(15).skip_message
    assert "shop/silver/sales is behind its upstream" in told
    assert "requested at 00:00:30 UTC" in told


def test_a_file_that_lands_and_a_table_that_moved_end_the_pause(shop, drop):
    shop.commit(shop.orders)
    asked_at(shop, 0, 300)
    assert not is_request(shop.tick(300))
    drop("shop/orders", "a.json", orders_file((1, 5)))
    assert "1 new in shop/orders" in shop.tick(301).run_requests[0].tags["medallion/arrived"]
    assert not is_request(shop.tick(302)), "the same file asks once"
    shop.commit(shop.sales)
    assert is_request(shop.tick(303))


def test_a_repeated_tick_asks_for_the_same_run(shop):
    shop.commit(shop.orders)
    first, second = (requested(shop.pipeline, shop.lake, "", now) for now in (0, 15))
    assert first.run_requests[0].run_key == second.run_requests[0].run_key


def test_a_table_that_cannot_be_read_does_not_end_the_tick_and_files_still_ask(shop, drop):
    shop.commit(shop.orders)
    shop.commit(shop.sales)
    for entry in (shop.lake.path(shop.sales) / "_delta_log").glob("*.json"):
        entry.write_text("{")
    words = shop.tick(0).run_requests[0].tags["medallion/arrived"]
    assert "cannot be" in words
    assert not is_request(shop.tick(15))
    drop("shop/orders", "a.json", orders_file((1, 5)))
    assert is_request(shop.tick(16))


def test_a_failed_run_is_followed_by_another_in_a_real_instance(lake, monkeypatch):
    """Dagster drops a run request whose key it has seen: the third must have a key of its own."""
    land("school", lake.settings.landing, 1)
    monkeypatch.setattr("medallion_assets.orchestration.sensors.FIRST_PAUSE", 0.0)
    sensor = defs.resolve_sensor_def("school_landing")
    with dg.DagsterInstance.ephemeral() as instance:
        keys, cursor = [], None
        for _ in range(4):
            context = dg.build_sensor_context(
                instance=instance, definitions=defs, resources={"lake": LakeResource()}, cursor=cursor
            )
            found = sensor.evaluate_tick(context)
            keys += [request.run_key for request in found.run_requests]
            cursor = found.cursor
            instance.create_run_for_job(
                defs.resolve_job_def("school_chain"), status=dg.DagsterRunStatus.FAILURE
            )
    assert len(set(keys)) == 4


@pytest.mark.spark
@pytest.mark.thorough
def test_what_a_dead_run_left_behind_reaches_gold_under_the_daemon_without_a_new_file(lake, spark, tmp_path):
    land("health", lake.settings.landing, 1)
    tables = PIPELINES["health"].tables
    bronze = [table for table in tables.values() if table.source]
    for table in bronze:
        refresh(table, lake, lambda: spark)
    gold = lake.root / "health/gold/daily_patient_avg"
    with daemon_up(tmp_path / "dagster_home", lake.root, lake.settings.landing) as said:
        assert until(lambda: log.row_count(gold) > 0, 240), said.read_text()[-3000:]
        assert until(lambda: "RUN_SUCCESS" in said.read_text(), 60)
    assert said.read_text().count('Started execution of run for "health_chain"') == 1
