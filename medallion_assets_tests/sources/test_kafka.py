"""A Kafka topic as a bronze source: each message once, by its offset, from a real broker to gold."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import Pipeline, stream
from medallion_assets.delta import log
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.quality.verdicts import offsets_conserved, verdicts
from medallion_assets.runs.run import refresh
from medallion_assets.sources.kafka import KafkaUnreachable, OffsetsLost
from medallion_assets_tests.broker import Broker

pytestmark = pytest.mark.spark


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

    @shop.bronze()
    def orders(messages: DataFrame = shop.kafka("orders", topic=topic, **options)) -> DataFrame:
        """One row per message."""
        return messages

    @shop.silver(unique_by="id")
    def paid(rows: DataFrame = stream(orders)) -> DataFrame:
        """One row per order."""
        return rows.where("NOT _tombstone").select("id", "amount", F.col("_key").cast("string").alias("key"))

    @shop.gold(output_mode="complete")
    def total(rows: DataFrame = stream(paid)) -> DataFrame:
        """The sum of all."""
        return rows.groupBy("key").agg(F.sum("amount").alias("amount"), F.count("*").alias("orders"))

    return shop.tables["kafka_shop/bronze/orders"], paid, total


def rows_of(table, lake, columns="*", where="true", order="_partition, _offset"):
    return log.rows(lake.path(table), f"SELECT {columns} FROM t WHERE {where} ORDER BY {order}")


def offsets(table, lake):
    found = rows_of(table, lake, "_partition, _offset")
    return [(row["_partition"], row["_offset"]) for row in found]


def test_messages_reach_gold_with_key_headers_and_time_and_later_ones_follow(broker, lake, refreshed):
    topic = broker.topic(2)
    chain = pipeline_of(broker, topic)
    broker.produce(topic, {"id": 1, "amount": 2.5}, key=b"\xff\x00", headers=[("trace", b"\x01"), ("n", None)])
    broker.produce(topic, {"id": 2, "amount": 1.5}, partition=1, key=b"k")
    refreshed(*chain)
    broker.produce(topic, {"id": 3, "amount": 4.0}, partition=1, key=b"k")
    refreshed(*chain)
    first, second, third = rows_of(chain[0], lake)
    assert (first["_topic"], first["_partition"], first["_offset"], first["id"]) == (topic, 0, 0, 1)
    assert first["_key"] == b"\xff\x00" and first["_tombstone"] is False
    assert [(h["key"], h["value"]) for h in first["_headers"]] == [("trace", b"\x01"), ("n", None)]
    assert first["_timestamp"] is not None and third["_timestamp"] >= second["_timestamp"]
    assert (third["_partition"], third["_offset"]) == (1, 1)
    sums = {row["key"]: row["amount"] for row in rows_of(chain[2], lake, order="key")}
    assert sums["k"] == 5.5
    assert refresh(chain[0], lake, None).skipped


def test_values_that_are_no_rows_are_quarantined_with_topic_partition_and_offset(broker, lake, refreshed):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    values = [b'{"id": 1', b"\xff\xfe", b"", b" \n", b"[1]", b'{"id": "x\ny"}', b'{"id": "no number"}']
    broker.produce(topic, None, b'{"id":\r\n 7}', *values, {"id": 8}, key=b"k")
    (done,) = refreshed(orders)
    assert (done.total("written"), done.total("quarantined")) == (3, len(values))
    tombstone, spread, last = rows_of(orders, lake)
    assert tombstone["_tombstone"] and tombstone["id"] is None and tombstone["_key"] == b"k"
    assert (spread["id"], spread["_offset"], last["id"], last["_offset"]) == (7, 1, 8, 9)
    held = log.rows(lake.quarantine(orders), "SELECT * FROM t ORDER BY position")
    assert [entry["position"] for entry in held] == [f"offset {n}" for n in range(2, 9)]
    assert {entry["source_file"].split("/")[0] for entry in held} == {f"topic={topic}"}
    assert {entry["source_file"].split("/")[1] for entry in held} == {"partition=0"}
    assert held[0]["row"] == '{"id": 1' and held[1]["raw_base64"]


def test_a_mended_message_is_replayed_as_the_message_it_was(broker, lake, spark, refreshed):
    topic = broker.topic()
    orders, *_ = pipeline_of(broker, topic)
    broker.produce(topic, {"id": 1}, b'{"id": 2', key=b"k2", headers=[("h", b"v")])
    refreshed(orders)
    VERBS["replay"](orders, lake, lambda: spark, VerbRequest(fix="row = concat(row, '}')"))
    (row,) = rows_of(orders, lake, where="id = 2")
    assert (row["_topic"], row["_partition"], row["_offset"], row["_key"]) == (topic, 0, 1, b"k2")
    assert row["_headers"][0]["key"] == "h" and row["_timestamp"]
