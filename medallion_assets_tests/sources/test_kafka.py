"""A Kafka topic as a bronze source: each message once, by its offset, from a real broker to gold."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import dagster as dg
import pytest
from pydantic import SecretStr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import Pipeline, stream
from medallion_assets.delta import log
from medallion_assets.lake.arrivals import take_arrivals, waiting_offsets
from medallion_assets.lake.paths import Lake
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.orchestration.build import build_definitions
from medallion_assets.orchestration.resources import LakeResource
from medallion_assets.quality.verdicts import offsets_conserved
from medallion_assets.runs.run import refresh
from medallion_assets.settings import Settings
from medallion_assets.sources.kafka import KafkaUnreachable, OffsetsLost, landed_of
from medallion_assets.storage.locations import LOCAL
from medallion_assets_tests.broker import Broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")
    running = Broker(tmp_path_factory.mktemp("kafka"))
    yield running
    running.stop()


def pipeline_of(broker, topic, **options):
    """A chain over a topic: orders of bronze, paid ones of silver, the sum of gold."""
    shop = Pipeline("kafka_shop", owners=("team:shop",))
    options = {"servers": broker.address, "schema": "id BIGINT, amount DOUBLE", **options}

    messages = shop.kafka("orders", topic=topic, **options)

    @shop.bronze()
    def orders(messages: DataFrame = messages) -> DataFrame:
        """One row per message."""
        return messages

    @shop.silver(unique_by="id")
    def paid(rows: DataFrame = stream(orders)) -> DataFrame:
        """One row per order."""
        return rows.select("id", "amount", "_partition")

    @shop.gold(output_mode="complete", row_count_column="orders")
    def total(rows: DataFrame = stream(paid)) -> DataFrame:
        """The sum of all."""
        return rows.groupBy("_partition").agg(F.sum("amount").alias("amount"), F.count("*").alias("orders"))

    return shop.tables["kafka_shop/bronze/orders"], paid, total


def rows_of(table, lake, columns="*", where="true", order="_partition, _offset"):
    return log.rows(lake.path(table), f"SELECT {columns} FROM t WHERE {where} ORDER BY {order}")


def offsets(table, lake):
    found = rows_of(table, lake, "_partition, _offset")
    return [(row["_partition"], row["_offset"]) for row in found]


@pytest.mark.spark
def test_messages_reach_gold_with_key_headers_and_time_and_later_ones_follow(broker, lake, refreshed):
    topic = broker.topic(2)
    chain = pipeline_of(broker, topic)
    broker.produce(
        topic, {"id": 1, "amount": 2.5}, key=b"\xff\x00", headers=[("trace", b"\x01"), ("n", None)]
    )
    broker.produce(topic, {"id": 2, "amount": 1.5}, partition=1, key=b"k")
    refreshed(*chain)
    broker.produce(topic, {"id": 3, "amount": 4.0}, partition=1, key=b"k")
    refreshed(*chain)
    first, second, third = rows_of(chain[0], lake)
    assert (first["_topic"], first["_partition"], first["_offset"], first["id"]) == (topic, 0, 0, 1)
    assert first["_key"] == b"\xff\x00"
    assert first["_tombstone"] is False
    assert [(h["key"], h["value"]) for h in first["_headers"]] == [("trace", b"\x01"), ("n", None)]
    assert first["_timestamp"] is not None
    assert third["_timestamp"] >= second["_timestamp"]
    assert (third["_partition"], third["_offset"]) == (1, 1)
    sums = rows_of(chain[2], lake, "_partition, amount", order="_partition")
    assert [tuple(row.values()) for row in sums] == [(0, 2.5), (1, 5.5)]
    balanced = offsets_conserved(chain[0], lake)
    assert balanced.passed
    assert (balanced.numbers["offsets"], balanced.numbers["messages"]) == (3, 3)
    assert refresh(chain[0], lake, None).skipped


@pytest.mark.spark
def test_values_that_are_no_rows_are_quarantined_with_topic_partition_and_offset(broker, lake, refreshed):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    values = [b'{"id": 1', b"\xff\xfe", b"", b" \n", b"[1]", b'{"id": "x\ny"}', b'{"id": "no number"}']
    broker.produce(topic, None, b'{"id":\r\n 7}', *values, {"id": 8}, key=b"k")
    # A producer that gives nanoseconds for milliseconds.
    broker.produce(topic, {"id": 9}, timestamp=1_700_000_000_000_000_000)
    (done,) = refreshed(orders)
    assert (done.total("written"), done.total("quarantined")) == (3, len(values) + 1)
    tombstone, spread, last = rows_of(orders, lake)
    assert tombstone["_tombstone"]
    assert tombstone["id"] is None
    assert tombstone["_key"] == b"k"
    assert (spread["id"], spread["_offset"], last["id"], last["_offset"]) == (7, 1, 8, 9)
    held = log.rows(lake.quarantine(orders), "SELECT * FROM t ORDER BY position")
    assert [entry["position"] for entry in held] == [f"offset {n}" for n in (10, *range(2, 9))]
    assert "1700000000000000000 ms since 1970" in held.pop(0)["rules"][0]
    assert {entry["source_file"].split("/")[0] for entry in held} == {f"topic={topic}"}
    assert {entry["source_file"].split("/")[1] for entry in held} == {"partition=0"}
    assert held[0]["row"] == '{"id": 1'
    assert held[1]["raw_base64"]


@pytest.mark.spark
@pytest.mark.thorough
def test_a_mended_message_is_replayed_as_the_message_it_was(broker, lake, spark, refreshed):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    broker.produce(topic, {"id": 1}, b'{"id": 2', key=b"k2", headers=[("h", b"v")])
    broker.produce(topic, {"id": 3}, timestamp=1_700_000_000_000_000)
    refreshed(orders)
    fix = "row = concat(row, if(row LIKE '%}', '', '}'))"
    VERBS["replay"](orders, lake, lambda: spark, VerbRequest(fix=fix))
    (late,) = rows_of(orders, lake, where="id = 3")
    assert (late["_offset"], late["_timestamp"]) == (2, None)
    (row,) = rows_of(orders, lake, where="id = 2")
    assert (row["_topic"], row["_partition"], row["_offset"], row["_key"]) == (topic, 0, 1, b"k2")
    assert row["_headers"][0]["key"] == "h"
    assert row["_timestamp"]


@pytest.mark.spark
@pytest.mark.thorough
def test_verbs_work_on_the_landed_messages_when_the_topic_has_them_no_more(broker, lake, spark, refreshed):
    topic = broker.topic()
    chain = pipeline_of(broker, topic)
    broker.produce(topic, {"id": 1, "amount": 1.0}, {"id": 2, "amount": 2.0}, b"{", key=b"k")
    refreshed(*chain)
    before = rows_of(chain[0], lake, "id, _offset, _key, _timestamp")
    broker.delete_before(topic, 3)
    for verb in ("audit", "doctor", "plan", "validate"):
        done = VERBS[verb](chain[0], lake, lambda: spark, VerbRequest())
        assert done.well, done.does
    assert VERBS["full_refresh"](chain[1], lake, lambda: spark, VerbRequest()).well
    assert VERBS["undo"](chain[1], lake, lambda: spark, VerbRequest()).well
    (file,) = {row["source_file"] for row in log.rows(lake.quarantine(chain[0]), "SELECT * FROM t")}
    assert VERBS["reprocess"](chain[0], lake, lambda: spark, VerbRequest(files=(file,))).well
    assert rows_of(chain[0], lake, "id, _offset, _key, _timestamp") == before
    assert VERBS["reset"](chain[0], lake, lambda: spark, VerbRequest()).well
    refreshed(*chain)
    assert rows_of(chain[0], lake, "id, _offset, _key, _timestamp") == before
    assert offsets_conserved(chain[0], lake).passed


@pytest.mark.spark
@pytest.mark.parametrize("value_format", ["text", "binaryFile"])
def test_values_that_are_no_json_are_taken_as_strings_or_bytes(broker, lake, refreshed, value_format):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic, format=value_format, schema=None)
    broker.produce(topic, b"two\nlines", b"", None, b"\xff")
    broker.produce(topic, b"late", None, timestamp=1_700_000_000_000_000)
    (done,) = refreshed(orders)
    found = [(row["value"], row["_tombstone"]) for row in rows_of(orders, lake)]
    if value_format == "binaryFile":
        assert found == [(b"two\nlines", False), (b"", False), (None, True), (b"\xff", False)]
        assert done.total("quarantined") == 2
    else:
        assert found == [("two\nlines", False), ("", False), (None, True)]
        assert done.total("quarantined") == 3


@pytest.mark.spark
def test_columns_are_inferred_and_added_and_a_field_of_a_provenance_name_is_rescued(broker, lake, refreshed):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic, schema=None, infer_column_types=True)
    # Of a topic without a message, and of one whose messages have no value, no column is known.
    refreshed(orders)
    broker.produce(topic, None)
    refreshed(orders)
    broker.produce(topic, {"id": 1, "_offset": 99})
    refreshed(orders)
    broker.produce(topic, {"id": 2, "extra": True})
    refreshed(orders)
    _, first, second = rows_of(orders, lake)
    assert (first["id"], first["_offset"], second["extra"]) == (1, 1, True)
    assert '"_offset": 99' in first["_rescued_data"]


def taken(table, lake):
    """Lands what is new and puts it into the ledger, without Spark; gives the ranges by partition."""
    take_arrivals(table, lake)
    found = [
        landed_of(row["path"]) for row in log.rows(lake.ledger(table), "SELECT path FROM t ORDER BY path")
    ]
    return [(file.range.partition, file.range.start, file.range.end) for file in found if not file.lost]


def test_partitions_that_are_added_are_read_from_their_first_message(broker, lake):
    from confluent_kafka.admin import NewPartitions

    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic, starting_offsets="latest")
    broker.produce(topic, b"{}", b"{}")
    assert taken(orders, lake) == [(0, 2, 2)]
    admin = broker.admin()
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    broker.produce(topic, b"{}", partition=1)
    assert waiting_offsets(orders, lake).offsets == 1
    assert taken(orders, lake) == [(0, 2, 2), (1, 0, 1)]
    assert waiting_offsets(orders, lake) is None


def test_the_broker_and_its_credentials_may_come_from_the_settings_alone(broker, lake, monkeypatch):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic, servers="")
    broker.produce(topic, b"{}")
    monkeypatch.setenv(
        "MEDALLION_KAFKA_CONF", f'{{"bootstrap.servers": "{broker.address}", "sasl.password": "pw"}}'
    )
    there = Lake(Settings().resolved())
    assert taken(orders, there) == [(0, 0, 1)]
    assert "pw" not in repr(there)


def test_messages_land_in_an_object_store_by_their_offsets(broker, lake, s3):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic, path=f"{s3}/landing/orders")
    for ranges in ([(0, 0, 1)], [(0, 0, 1), (0, 1, 2)]):
        broker.produce(topic, b"{}")
        assert taken(orders, lake) == ranges
        assert taken(orders, lake) == ranges


@pytest.mark.spark
@pytest.mark.thorough
def test_messages_of_an_object_store_are_loaded_and_replayed(broker, lake, spark, refreshed, s3):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic, path=f"{s3}/landing/loaded")
    broker.produce(topic, {"id": 1}, b'{"id": 2', key=b"k2")
    refreshed(orders)
    VERBS["replay"](orders, lake, lambda: spark, VerbRequest(fix="row = concat(row, '}')"))
    found = rows_of(orders, lake, "id, _offset, _key")
    assert [tuple(row.values()) for row in found] == [(1, 0, b"k2"), (2, 1, b"k2")]


def test_the_sensor_requests_a_run_where_a_topic_has_new_messages(broker, lake):
    topic = broker.topic()
    chain = pipeline_of(broker, topic)
    broker.produce(topic, b"{}", b"{}")
    pipeline = Pipeline("kafka_shop", tables=dict(chain[0].registry))
    sensor = build_definitions([pipeline])

    context = dg.build_sensor_context(
        instance=dg.DagsterInstance.ephemeral(), definitions=sensor, resources={"lake": LakeResource()}
    )
    (request,) = sensor.resolve_sensor_def("kafka_shop_landing").evaluate_tick(context).run_requests
    assert f"2 new offsets of topic {topic}" in request.tags["medallion/arrived"]
    assert VERBS["plan"](chain[0], lake, None, VerbRequest()).found["new_offsets"] == 2


def test_a_first_run_from_earliest_begins_where_the_topic_begins(broker, lake):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    broker.produce(topic, b"{}", b"{}", b"{}")
    broker.delete_before(topic, 2)
    assert taken(orders, lake) == [(0, 2, 3)]


def test_messages_that_retention_took_fail_the_run_by_name_and_are_counted_once_allowed(broker, lake):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    broker.produce(topic, b"{}", b"{}")
    assert taken(orders, lake) == [(0, 0, 2)]
    broker.produce(topic, b"{}", b"{}", b"{}")
    broker.delete_before(topic, 4)
    for _ in range(2):
        with pytest.raises(OffsetsLost, match=r"2 offsets were removed .*partition 0 offsets 2 to 3"):
            taken(orders, lake)
    allowed, *_ = pipeline_of(broker, topic, fail_on_data_loss=False)
    assert taken(allowed, lake) == [(0, 0, 2), (0, 4, 5)]
    verdict = offsets_conserved(allowed, lake)
    assert not verdict.passed
    assert not verdict.blocking
    assert verdict.numbers["offsets_lost"] == 2
    assert "partition 0 offsets 2 to 3" in verdict.words


def test_a_topic_that_was_deleted_and_made_again_is_refused_by_name(broker, lake):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic, starting_offsets="latest")
    taken(orders, lake)
    broker.produce(topic, b"{}", b"{}")
    taken(orders, lake)
    broker.drop(topic)
    with pytest.raises(KafkaUnreachable, match=topic):
        taken(orders, lake)
    broker.topic(name=topic)
    broker.produce(topic, b"{}", b"{}", b"{}")
    with pytest.raises(OffsetsLost, match="deleted and made again"):
        taken(orders, lake)
    allowed, *_ = pipeline_of(broker, topic, starting_offsets="latest", fail_on_data_loss=False)
    assert sorted(taken(allowed, lake)) == [(0, 0, 0), (0, 0, 2), (0, 0, 3)]
    verdict = offsets_conserved(allowed, lake)
    assert (verdict.passed, verdict.blocking) == (False, False)
    assert "had beyond its last landing was not read" in verdict.words


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_first_run_that_dies_between_two_partitions_began_for_all_of_them(
    broker, lake, monkeypatch, starting
):
    topic = broker.topic(3)
    orders, *_ = pipeline_of(broker, topic, starting_offsets=starting)
    for partition in range(3):
        broker.produce(topic, b"{}", b"{}", partition=partition)
        broker.delete_before(topic, 1, partition)
    create = type(LOCAL).create
    for dies_at in (2, 0):
        left = iter(range(dies_at))

        def dies(*given, left=left):
            return create(*given) if next(left, None) is not None else 1 / 0

        monkeypatch.setattr(type(LOCAL), "create", dies)
        with pytest.raises(ZeroDivisionError):
            take_arrivals(orders, lake)
    monkeypatch.undo()
    broker.produce(topic, b"{}", partition=2)
    first = {"earliest": 1, "latest": 2}[starting]
    found = taken(orders, lake)
    assert [min(start for p, start, _ in found if p == partition) for partition in range(3)] == [first] * 3
    assert max(end for *_, end in found) == 3
    assert offsets_conserved(orders, lake).passed


def test_ends_of_transactions_and_aborted_messages_are_offsets_without_a_message(broker, lake):
    from confluent_kafka import Producer

    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for commits in (True, False):
        producer.begin_transaction()
        producer.produce(topic, b'{"id": 1}', partition=0)
        producer.flush()
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce(topic, b'{"id": 2}', partition=0)
    producer.flush()
    # A message of an open transaction waits: it may be taken back.
    assert taken(orders, lake) == [(0, 0, 4)]
    verdict = offsets_conserved(orders, lake)
    numbers = verdict.numbers
    assert verdict.passed
    assert (numbers["offsets"], numbers["messages"], numbers["offsets_without_message"]) == (4, 1, 3)
    producer.commit_transaction(30)
    assert taken(orders, lake) == [(0, 0, 4), (0, 4, 6)]


def test_messages_that_compaction_removed_are_offsets_without_a_message(broker, lake):
    topic = broker.topic(
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )
    orders, *_ = pipeline_of(broker, topic)
    for _ in range(3):
        broker.produce(topic, b'{"id": 1}', key=b"k")
        time.sleep(0.2)
    broker.produce(topic, b'{"id": 2}', key=b"k")
    deadline = time.monotonic() + 30
    while len(list(broker.messages(topic))) > 3 and time.monotonic() < deadline:
        time.sleep(0.5)
    there = len(list(broker.messages(topic)))
    if there == 4:
        pytest.skip("the broker did not compact the topic in 30 seconds")
    assert taken(orders, lake) == [(0, 0, 4)]
    assert offsets_conserved(orders, lake).numbers["offsets_without_message"] == 4 - there


def test_files_that_were_taken_out_of_the_landing_zone_do_not_land_again(broker, lake, tmp_path):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    for ranges in ([(0, 0, 1)], [(0, 0, 1), (0, 1, 2)]):
        broker.produce(topic, b"{}")
        assert taken(orders, lake) == ranges
        for file in (tmp_path / "landing").rglob("*.parquet"):
            file.unlink()


def test_a_broker_that_is_not_there_fails_the_run_in_words(lake, monkeypatch):
    pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")
    monkeypatch.setattr("medallion_assets.sources.kafka_landing.PATIENCE", 0.3)
    gone = type("Gone", (), {"address": "127.0.0.1:1"})
    orders, *_ = pipeline_of(gone, "orders")
    with pytest.raises(KafkaUnreachable, match=r"127.0.0.1:1 cannot be read: .* nothing is lost"):
        take_arrivals(orders, lake)
    # A sensor, which has a minute for all of its tables, asks less long than a run.
    monkeypatch.setattr("medallion_assets.sources.kafka_landing.PATIENCE", 30.0)
    monkeypatch.setattr("medallion_assets.sources.kafka_landing.LOOK_PATIENCE", 0.3)
    with pytest.raises(KafkaUnreachable, match=r"127.0.0.1:1 cannot be read"):
        waiting_offsets(orders, lake)
    odd = Lake(lake.settings.model_copy(update={"kafka_conf": {"securty.protocol": SecretStr("SSL")}}))
    with pytest.raises(KafkaUnreachable, match=r'No such configuration property: "securty.protocol"'):
        take_arrivals(orders, odd)
    silent, *_ = pipeline_of(type("None_", (), {"address": ""}), "orders")
    with pytest.raises(KafkaUnreachable, match=r"bootstrap.servers in MEDALLION_KAFKA_CONF"):
        take_arrivals(silent, lake)


def test_a_landing_file_that_went_leaves_no_hole_unseen(broker, lake, tmp_path):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    for _ in range(3):
        broker.produce(topic, b"{}")
        taken(orders, lake)
    ledger = lake.ledger(orders)
    files = sorted((tmp_path / "landing").rglob("*.parquet"))
    files[1].unlink()
    ledger.rename(tmp_path / "gone")
    with pytest.raises(OffsetsLost, match="landed up to offset 1, and the next file"):
        taken(orders, lake)


KILLED = """
import os, signal, sys
sys.path[:0] = {path!r}
from medallion_assets.lake import arrivals
from medallion_assets.lake.paths import Lake
from medallion_assets.sources import load
from medallion_assets.runs.run import refresh
from medallion_assets.session import start_session
from medallion_assets.settings import current_settings
from medallion_assets_tests.sources.test_kafka import pipeline_of

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

lake, broker = Lake(current_settings()), type("B", (), {{"address": {address!r}}})
table = pipeline_of(broker, {topic!r})[0]
if {point!r} == "landed":
    arrivals.discover = die
    arrivals.take_arrivals(table, lake)
else:
    load.outcomes.record = die
    refresh(table, lake, lambda: start_session(lake.settings))
"""


def killed(broker, topic, point, lake):
    """Runs the first table in a process of its own, which is killed at a point."""
    text = KILLED.format(path=sys.path, address=broker.address, topic=topic, point=point)
    folders = {"MEDALLION_LAKE": str(lake.root), "MEDALLION_LANDING": str(lake.settings.landing)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(text)], env={**os.environ, **folders},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]


def test_a_process_killed_between_landing_and_ledger_lands_no_message_twice(broker, lake):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    broker.produce(topic, b"{}", b"{}")
    killed(broker, topic, "landed", lake)
    broker.produce(topic, b"{}")
    assert taken(orders, lake) == [(0, 0, 2), (0, 2, 3)]
    assert offsets_conserved(orders, lake).numbers["messages"] == 3


@pytest.mark.spark
@pytest.mark.thorough
def test_a_process_killed_after_its_commit_takes_no_message_twice(broker, lake, refreshed):
    topic = broker.topic()
    chain = pipeline_of(broker, topic)
    broker.produce(topic, {"id": 1}, {"id": 2}, b"{")
    killed(broker, topic, "committed", lake)
    broker.produce(topic, {"id": 3})
    refreshed(*chain)
    assert offsets(chain[0], lake) == [(0, 0), (0, 1), (0, 3)]
    assert [row["id"] for row in rows_of(chain[1], lake, "id", order="id")] == [1, 2, 3]
