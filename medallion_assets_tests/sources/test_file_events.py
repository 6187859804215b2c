"""File events: what is found by S3's notifications is what a listing finds, whatever becomes of messages."""

import json
import time
import urllib.parse
import uuid
from collections import Counter

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from medallion_assets.declare import Pipeline
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.delta.batches import read_json, write_json
from medallion_assets.lake.arrivals import is_overdue
from medallion_assets.orchestration.sensors import requested
from medallion_assets.reports.state import files_of
from medallion_assets.sources import Source, copy_into, discover, ledger, looks
from medallion_assets.sources import discovery as discovering
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.file_events import Message, QueueUnreachable, objects_of
from medallion_assets.sources.looks import NoEventsOfThere, looks_of, notices
from medallion_assets.storage import storage_of
from medallion_assets_tests.examples import examples
from medallion_assets_tests.shop import orders_file, orders_of

NAMES = ("a.json", "day=1/a.json", "day=1/é +%20.json")


def event(bucket, key, **others):
    """A notification as S3 sends it."""
    said = {"bucket": {"name": bucket}, "object": {"key": urllib.parse.quote_plus(key)}}
    return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": said, **others}]})


class FakeQueue:
    """A queue of which a test says what becomes of its messages."""

    def __init__(self):
        self.messages, self.dies = [], False

    def __call__(self, address):
        return self

    def send(self, body):
        self.messages.append(Message(str(uuid.uuid4()), "", body))

    def receive(self):
        return list(self.messages)

    def acknowledge(self, messages):
        if self.dies:
            raise KeyboardInterrupt
        gone = {message.id for message in messages}
        self.messages = [message for message in self.messages if message.id not in gone]


@pytest.fixture
def queue(monkeypatch):
    """A queue, and a store in memory that counts as S3."""
    made = FakeQueue()
    monkeypatch.setattr(looks, "Queue", made)
    monkeypatch.setattr(looks, "IN_S3", "memory://")
    monkeypatch.setattr(looks, "objects_of", lambda b: [a.replace("s3:", "memory:") for a in objects_of(b)])
    return made


class World:
    """A bucket, its queue, and a ledger that is filled by events."""

    def __init__(self, folder, queue):
        self.bucket, self.ledger, self.queue = uuid.uuid4().hex, folder / uuid.uuid4().hex, queue
        self.zone = f"memory://{self.bucket}/zone"
        self.source = Source("s", "json", recursive_file_lookup=True, file_events="https://sqs/1/q")
        self.versions = {name: [] for name in (*NAMES, "_hidden.json")}
        self.queue.messages, self.queue.dies = [], False
        self.look()

    def look(self):
        return discover(self.zone, self.ledger, self.source)

    def put(self, name, sent=1):
        text = json.dumps({"n": sum(map(len, self.versions.values())) + 10})
        storage_of(self.zone).put(
            f"{self.zone}/{name}", f"{text}\n".encode() * (1 + len(self.versions[name]))
        )
        self.versions[name].append(text)
        for _ in range(sent):
            self.queue.send(event(self.bucket, f"zone/{name}"))

    def backfill(self):
        note = looks_of(self.ledger) / "listed.json"
        write_json(note, {**read_json(note), "at": 0.0})
        return self.look()

    def admitted(self):
        found = ledger.rows(
            self.ledger, "SELECT path, size FROM ledger WHERE status IN ('admitted','changed')"
        )
        return Counter((row["path"], row["size"]) for row in found)

    def newest(self):
        return {(name, len(texts) * (len(texts[-1]) + 1)) for name, texts in self.versions.items() if texts}


EVENTS = ("put", "lost", "doubled", "late", "look", "die", "shuffle", "purge", "malformed", "other", "gone")


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(NAMES)), min_size=1, max_size=15))
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_becomes_of_messages_each_object_is_in_the_ledger_once_per_version(tmp_path, queue, events):
    world, seen = World(tmp_path, queue), set()
    for number, (kind, name) in enumerate(events):
        if kind in ("put", "lost", "doubled"):
            world.put(name, {"put": 1, "lost": 0, "doubled": 2}[kind])
        elif kind == "late":
            queue.messages.insert(0, Message(str(number), "", event(world.bucket, f"zone/{name}")))
        elif kind == "look":
            world.look()
            assert queue.messages == []
        elif kind == "die":
            queue.dies = True
            with pytest.raises(KeyboardInterrupt):
                world.look()
            queue.dies = False
        elif kind == "shuffle":
            queue.messages.reverse()
        elif kind == "purge":
            queue.messages = []
        elif kind == "malformed":
            queue.send('{"Records": [{"s3": {"object": {"key": "%FF"}}}]}')
        elif kind == "other":
            queue.send(event("another", f"zone/{name}"))
        elif kind == "gone":
            queue.send(event(world.bucket, "zone/removed.json"))
        seen |= world.newest()
    world.backfill()
    found = world.admitted()
    assert world.newest() <= found.keys() <= seen
    assert set(found.values()) <= {1}
    world.look()
    assert world.admitted() == found
    assert queue.messages == []


def test_between_two_backfills_only_named_objects_are_taken_and_nothing_is_listed(
    tmp_path, queue, monkeypatch
):
    world = World(tmp_path, queue)
    world.put("a.json", sent=0)
    world.put("day=1/a.json")
    world.put("_hidden.json")
    listed = []
    monkeypatch.setattr(type(storage_of(world.zone)), "list", lambda self, *a: listed.append(a) or iter(()))
    assert world.look().admitted == 1
    assert listed == []
    monkeypatch.undo()


@pytest.mark.parametrize(
    "body", ["", "no JSON", "[]", "{}", '{"Records": 1}', '{"Records": [{"s3": null}]}', "[" * 100_000,
             event("", "a"), event("b", ""), '{"Type": "Notification", "Message": "x"}'],
)  # fmt: skip
def test_a_malformed_message_is_kept_with_its_text_and_reason_and_leaves_the_queue(tmp_path, queue, body):
    world = World(tmp_path, queue)
    queue.send(body)
    world.put("a.json")
    assert world.look().admitted == 1
    (told,) = notices(world.ledger)
    assert (told["kind"], told["text"]) == ("malformed event", body)
    assert "no notification of S3" in told["reason"]
    assert queue.messages == []


def test_names_no_object_can_be_read_by_are_told_and_events_of_elsewhere_are_counted(tmp_path, queue):
    world = World(tmp_path, queue)
    for key in ("zone/a//b.json", "zone/../b.json"):
        queue.send(event(world.bucket, key))
    for _ in range(3):
        queue.send(event(world.bucket, "zone2/a.json"))
    world.look()
    told = {row["path"].rpartition("/")[2]: (row["kind"], row["times"]) for row in notices(world.ledger)}
    assert told.keys() == {"b.json", "a.json"}
    assert told["a.json"] == ("event of elsewhere", 3)


def test_the_test_message_and_an_sns_envelope_are_understood():
    inner = event("b", "a b+c/é.json")
    assert objects_of(json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"})) == []
    assert objects_of(json.dumps({"Type": "Notification", "Message": inner})) == ["s3://b/a b+c/é.json"]


def test_an_event_of_eventbridge_names_its_object_by_the_key_as_it_is():
    detail = {"bucket": {"name": "b"}, "object": {"key": "a b+%20/é.json", "size": 8}}
    said = {"version": "0", "source": "aws.s3", "detail-type": "Object Created", "detail": detail}
    in_sns = json.dumps({"Type": "Notification", "Message": json.dumps(said)})
    for body in (json.dumps(said), in_sns):
        assert objects_of(body) == ["s3://b/a b+%20/é.json"]
    for wrong in ({}, {"bucket": {"name": "b"}, "object": {"key": 1}}):
        with pytest.raises(ValueError, match="no notification of S3"):
            objects_of(json.dumps({**said, "detail": wrong}))


def test_a_message_of_a_file_that_waits_to_settle_stays_in_the_queue(tmp_path, queue):
    world = World(tmp_path, queue)
    world.put("a.json")
    patient = discovering.DiscoveryOptions(settle_seconds=60)
    assert discover(world.zone, world.ledger, world.source, patient).admitted == 0
    assert len(queue.messages) == 1
    assert world.look().admitted == 1
    assert queue.messages == []


def test_nothing_is_acknowledged_where_the_ledger_could_not_be_written(tmp_path, queue, monkeypatch):
    world = World(tmp_path, queue)
    world.put("a.json")
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.look()
    assert len(queue.messages) == 1
    assert world.look().admitted == 1


def test_a_ledger_of_an_older_copy_or_a_lost_note_lists_the_whole_source(tmp_path, queue):
    world = World(tmp_path, queue)
    world.put("day=1/é +%20.json")
    assert world.look().admitted == 1
    copy = {f.name: f.read_bytes() for f in (world.ledger / "_delta_log").iterdir() if f.is_file()}
    world.put("a.json")
    assert world.look().admitted == 1
    for file in (world.ledger / "_delta_log").iterdir():
        if file.is_file() and file.name not in copy:
            file.unlink()
    assert world.look().admitted == 1
    world.put("day=1/a.json", sent=0)
    assert world.look().admitted == 0
    (looks_of(world.ledger) / "listed.json").unlink()
    assert world.look().admitted == 1


def test_events_are_refused_by_name_where_they_cannot_be(tmp_path, drop, lake):
    with pytest.raises(SourceError, match="not the URL of an SQS queue"):
        Source("s", "json", file_events="landing-queue")
    with pytest.raises(SourceError, match="the path /x is not in S3"):
        Source("s", "json", path="/x", file_events="https://sqs/1/q")
    with pytest.raises(SourceError, match="exclude each other"):
        Source("s", "json", file_events="https://sqs/1/q", use_incremental_listing=True)
    with pytest.raises(SourceError, match="COPY INTO lists the files"):
        copy_into("t", "s3://b/p", "json", file_events="https://sqs/1/q")
    with pytest.raises(NoEventsOfThere, match="is not in S3"):
        discover(tmp_path, tmp_path / "ledger", Source("s", "json", file_events="https://sqs/1/q"))
    shop = Pipeline("shop")
    orders_of(shop, file_events="https://sqs/1/q")

    with pytest.raises(DeclarationError, match="is that of shop/bronze/orders"):

        @shop.bronze()
        def others(files=shop.landing("others", format="json", file_events="https://sqs/1/q")):  # noqa: B008
            return files

    with pytest.raises(DeclarationError, match="is that of shop/bronze/orders"):
        orders_of(Pipeline("second_shop"), file_events="https://sqs/1/q")


@pytest.fixture
def sqs(s3):
    """A client of SQS, and the URL of a queue that the bucket notifies."""
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    client, store = boto3.client("sqs", "us-east-1"), boto3.client("s3")
    url = client.create_queue(QueueName=uuid.uuid4().hex, Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    told = {"QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]}
    store.put_bucket_notification_configuration(Bucket=s3[5:], NotificationConfiguration=told)
    return client, url


def test_objects_are_found_by_the_notifications_of_a_real_bucket_and_queue(s3, sqs, tmp_path):
    client, url = sqs
    zone, where = f"{s3}/{uuid.uuid4().hex}", tmp_path / "ledger"
    source = Source("s", "json", recursive_file_lookup=True, file_events=url)
    storage_of(zone).put(f"{zone}/old.json", b'{"n": 1}\n')
    assert discover(zone, where, source).admitted == 1
    for number in range(25):
        storage_of(zone).put(f"{zone}/day=1/é {number}+.json", b'{"n": 2}\n')
    client.send_message(QueueUrl=url, MessageBody="broken")
    found = discover(zone, where, source)
    assert (found.admitted, found.matched) == (25, 26)
    time.sleep(1.1)
    assert discover(zone, where, source).matched == 0
    assert client.receive_message(QueueUrl=url).get("Messages", []) == []
    assert [row["text"] for row in notices(where)] == ["broken"]


def test_an_object_that_was_uploaded_in_parts_is_found_by_its_notification(s3, sqs, tmp_path):
    import boto3

    zone, where = f"{s3}/{uuid.uuid4().hex}", tmp_path / "ledger"
    source, store = Source("s", "json", file_events=sqs[1]), boto3.client("s3")
    discover(zone, where, source)
    place = {"Bucket": s3[5:], "Key": f"{zone[len(s3) + 1 :]}/large.json"}
    upload = {**place, "UploadId": store.create_multipart_upload(**place)["UploadId"]}
    parts = [b'{"n": 1}\n' * 600_000, b'{"n": 2}\n']
    tags = [store.upload_part(**upload, PartNumber=n, Body=p)["ETag"] for n, p in enumerate(parts, 1)]
    assert discover(zone, where, source).admitted == 0
    made = {"Parts": [{"PartNumber": n, "ETag": tag} for n, tag in enumerate(tags, 1)]}
    store.complete_multipart_upload(**upload, MultipartUpload=made)
    found = discover(zone, where, source)
    assert (found.admitted, found.records) == (1, 600_001)


def test_a_queue_that_is_not_there_fails_the_look_by_name(s3, sqs, tmp_path):
    source = Source("s", "json", file_events=f"{sqs[1]}-gone")
    discover(f"{s3}/zone", tmp_path / "ledger", source)
    with pytest.raises(QueueUnreachable, match="Nothing was read or changed"):
        discover(f"{s3}/zone", tmp_path / "ledger", source)


def test_the_sensor_asks_for_a_run_where_messages_wait_and_where_a_listing_is_due(s3, sqs, lake):
    zone = f"{s3}/{uuid.uuid4().hex}"
    shop = Pipeline("shop")
    orders = orders_of(shop, path=zone, file_events=sqs[1])
    assert is_overdue(orders, lake)
    for _ in range(2):
        # The second takes S3's test message.
        discover(zone, lake.ledger(orders), orders.source)
    assert "No new file" in requested(shop, lake).skip_message
    storage_of(zone).put(f"{zone}/a.json", orders_file((1, 5)).encode())
    (request,) = requested(shop, lake).run_requests
    assert "1 file events" in request.tags["medallion/arrived"]
    sqs[0].send_message(QueueUrl=sqs[1], MessageBody="broken")
    discover(zone, lake.ledger(orders), orders.source)
    assert [row["status"] for row in files_of(orders, lake)] == ["waiting", "notice"]


@pytest.mark.spark
def test_a_table_fed_by_events_has_each_object_once(s3, sqs, refreshed, rows_of):
    zone = f"{s3}/{uuid.uuid4().hex}"
    orders = orders_of(Pipeline("shop"), path=zone, file_events=sqs[1])
    storage_of(zone).put(f"{zone}/a.json", orders_file((1, 5)).encode())
    refreshed(orders)
    storage_of(zone).put(f"{zone}/b.json", orders_file((2, 5)).encode())
    refreshed(orders)
    refreshed(orders)
    assert len(rows_of(orders.key)) == 2
