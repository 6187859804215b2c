"""Land the new messages of a Kafka topic as files; needs the extra ``kafka``, and no Spark.

The broker's list of offsets says what there is to read; its messages are read by another call, and what they
lack of that range is counted. A file is there whole or not at all, and its name is its range: whoever dies in
between leaves nothing that lands twice.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.formats.messages import encoded
from medallion_assets.sources.kafka import (
    KafkaUnreachable,
    Landed,
    OffsetRange,
    OffsetsLost,
    Plan,
    Topic,
    landed_of,
    of_topic,
    planned,
    positions,
    refuse_loss,
    refuse_unread,
)
from medallion_assets.sources.options import Source
from medallion_assets.sources.walking import entries
from medallion_assets.storage import storage_of

MOST_BYTES, MOST_MESSAGES = 32 << 20, 200_000
"""Values and messages of a landing file, which are in memory while it is written."""

AT_ONCE, AT_ONCE_BYTES = 10_000, 8 << 20
"""Messages that the client is asked for at once, and about the bytes of their values."""

BUFFERED_KBYTES = 16 << 10
"""What the client holds of messages that were not asked for yet."""

OF_CONSUMERS = ("group.id", "queued.max.messages.kbytes")
PATIENCE, LOOK_PATIENCE = 30.0, 5.0
"""Seconds without an answer of the broker after which a run fails, and a look that writes nothing.

A sensor has a minute for all of its tables, those with files among them.
"""

_HEADERS = methodcaller("headers")
TIMED_OUT = "no answer within {:.0f} seconds"


@dataclass(frozen=True)
class Waiting:
    """What a topic has beyond what was landed: how many offsets, and a text that changes with them."""

    offsets: int
    mark: str


@dataclass
class _Broker:
    """The clients of one topic's broker; ``said`` is the last error that librdkafka reported by itself."""

    topic: Topic
    options: Mapping[str, Any]
    patience: float
    said: str = ""
    client: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        servers = {"bootstrap.servers": self.topic.servers} if self.topic.servers else {}
        self.client = {
            "group.id": "medallion",
            "log_level": 0,
            "queued.max.messages.kbytes": BUFFERED_KBYTES,
            "error_cb": self._hear,
            **self.options,
        } | servers
        if not self.client.get("bootstrap.servers"):
            raise KafkaUnreachable(
                f"topic {self.topic.name}: no broker is named. Nothing was read or written: give "
                "servers in the declaration, or bootstrap.servers in MEDALLION_KAFKA_CONF."
            )

    def _hear(self, error: Any) -> None:
        self.said = str(error.str())

    def described(self) -> tuple[str, dict[int, tuple[int, int]]]:
        """Return the topic's id, and by partition its first offset and the one after its last.

        The last is that of the messages no open transaction can take back.
        """
        from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
        from confluent_kafka.admin import AdminClient, OffsetSpec

        name, admin = self.topic.name, None
        try:
            admin = AdminClient({k: v for k, v in self.client.items() if k not in OF_CONSUMERS})
            found = admin.describe_topics(TopicCollection([name]), request_timeout=self.patience)[
                name
            ].result()
            places = [TopicPartition(name, partition.id) for partition in found.partitions]

            def ask(which: Any) -> dict[int, int]:
                answers = admin.list_offsets(
                    dict.fromkeys(places, which),
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=self.patience,
                )
                return {place.partition: answer.result().offset for place, answer in answers.items()}

            ends, begins = ask(OffsetSpec.latest()), ask(OffsetSpec.earliest())
        except KafkaException as error:
            # What went wrong with the connection is heard only now.
            if admin:
                admin.poll(0)
            raise self.unreachable(error.args[0].str()) from error
        # As Kafka's own tools write it; the client uses + and /.
        topic_id = str(found.topic_id).translate(str.maketrans("+/", "-_", "="))
        # Retention may go on between the two answers.
        return topic_id, {p: (begins[p], max(ends[p], begins[p])) for p in sorted(ends)}

    def unreachable(self, why: str) -> KafkaUnreachable:
        """Return the error for a broker that does not answer, or has no such topic."""
        heard = f"{why}; {self.said}" if self.said and self.said not in why else why
        return KafkaUnreachable(
            f"topic {self.topic.name} at {self.client['bootstrap.servers']} cannot be read: {heard}. No "
            "table was changed and nothing is lost: start the broker, create the topic, or correct the "
            "declaration or MEDALLION_KAFKA_CONF, and run again."
        )

    @contextmanager
    def reader(self) -> Iterator[Callable[[OffsetRange], Iterator[list[Any]]]]:
        """Return what reads the messages of a range, some at a time, for as long as the block runs."""
        from confluent_kafka import Consumer, KafkaException

        ours = {
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        # An offset that went meanwhile is an error, and no reason to read elsewhere.
        consumer = Consumer(self.client | ours | {"auto.offset.reset": "error"})
        try:
            yield partial(self._messages, consumer)
        except KafkaException as error:
            raise self.unreachable(error.args[0].str()) from error
        finally:
            consumer.close()

    def _messages(self, consumer: Any, wanted: OffsetRange) -> Iterator[list[Any]]:
        from confluent_kafka import KafkaError, TopicPartition

        place, at, end = wanted
        consumer.assign([TopicPartition(self.topic.name, place, at)])
        heard, asked = time.monotonic(), 100
        while at < end:
            found = []
            for message in consumer.consume(min(asked, end - at), 0.5):
                error, heard = message.error(), time.monotonic()
                if error and error.code() != KafkaError._PARTITION_EOF:
                    raise self.unreachable(error.str())
                # The end of what there is lies behind the last message where a transaction ended.
                at = max(at, message.offset() + (0 if error else 1))
                if not error and message.offset() < end:
                    found.append(message)
            if found:
                size = sum(len(message) + 1 for message in found)
                asked = max(1, min(AT_ONCE, AT_ONCE_BYTES * len(found) // size))
            yield found
            if time.monotonic() - heard > self.patience:
                why = TIMED_OUT.format(self.patience)
                raise self.unreachable(f"partition {place}, offset {at}: {why}")


def waiting(folder: Path | str, ledger: Path, source: Source, options: Mapping[str, Any]) -> Waiting | None:
    """Return what waits in the topic, None where nothing does; writes nothing.

    Raises:
        KafkaUnreachable: The broker does not answer, or has no such topic.
        OffsetsLost: What was to be read next is not in the topic any more.
    """
    _, _, plan, mark = _look(folder, ledger, source, options, LOOK_PATIENCE)
    return Waiting(plan.waiting, mark) if plan.read or plan.lost else None


def land_new(folder: Path | str, ledger: Path, source: Source, options: Mapping[str, Any]) -> None:
    """Write the topic's new messages to files of the landing zone, up to the end it has now.

    Only the holder of the ledger's lease may call this.

    Raises:
        KafkaUnreachable: The broker does not answer, or has no such topic; what landed before stays.
        OffsetsLost: Messages were removed before they were read.
    """
    broker, topic_id, plan, _ = _look(folder, ledger, source, options, PATIENCE)
    refuse_loss(broker.topic, plan.lost)
    if not plan.in_order:
        return
    with broker.reader() as messages:
        for wanted in plan.in_order:
            is_lost = wanted in plan.lost
            # An empty range has no message to wait for.
            found = iter(()) if is_lost or wanted.start == wanted.end else messages(wanted)
            for part, rows, size in _parts(wanted, found):
                _create(folder, Landed(broker.topic.name, topic_id, part, is_lost), encoded(rows, size))


def _look(
    folder: Path | str, ledger: Path, source: Source, options: Mapping[str, Any], patience: float
) -> tuple[_Broker, str, Plan, str]:
    assert source.kafka is not None
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise KafkaUnreachable(
            f"topic {source.kafka.name}: Kafka's client library is not installed. Nothing was read or "
            "written: pip install 'medallion-assets[kafka]', and run again."
        ) from error
    broker = _Broker(source.kafka, options, patience)
    topic_id, available = broker.described()
    in_ledger = _ranges(str(row["path"]) for row in ledgers.rows(ledger, "SELECT DISTINCT path FROM ledger"))
    root = str(folder)
    landed = in_ledger | _ranges(file.path.removeprefix(f"{root}/") for file in entries(folder, True))
    ours = of_topic(landed, source.kafka, topic_id)
    refuse_unread(source.kafka, ours, in_ledger, available)
    plan = planned(positions(ours), available, source.kafka, not landed)
    return broker, topic_id, plan, f"{topic_id} {plan}"


def _ranges(names: Iterable[str]) -> set[Landed]:
    return {found for name in names if (found := landed_of(name))}


def _parts(
    wanted: OffsetRange, messages: Iterator[list[Any]]
) -> Iterator[tuple[OffsetRange, list[tuple[Any, ...]], int]]:
    """Return the messages of a range in parts of bounded size, whose ranges join without a gap.

    Returns:
        Each part's range, its messages, and about their bytes.

    Raises:
        OffsetsLost: The broker gave a message twice, or of another place.
    """
    partition, start, end = wanted
    rows: list[tuple[Any, ...]] = []
    size, last = 0, start - 1
    for message in (message for some in messages for message in some):
        value, key, offset = message.value(), message.key(), message.offset()
        if message.partition() != partition or offset <= last:
            raise OffsetsLost(
                f"topic {message.topic()}: the broker gave partition {message.partition()} offset {offset} "
                f"after partition {partition} offset {last}. The part of the range that was read is kept, "
                "nothing is lost, and the next run goes on behind it."
            )
        kind, at = message.timestamp()
        rows.append((offset, at if kind else None, key, headers_of(message), value))
        size, last = size + len(value or b"") + len(key or b""), offset
        if size >= MOST_BYTES or len(rows) >= MOST_MESSAGES:
            yield OffsetRange(partition, start, offset + 1), rows, size
            start, rows, size = offset + 1, [], 0
    if start < end or wanted.start == end:
        yield OffsetRange(partition, start, end), rows, size


def headers_of(message: Any) -> list[dict[str, Any]] | None:
    """Return a message's headers, None where the client cannot give them: a key is no UTF-8."""
    # The client returns a broken list with its error set, which a call in Python's own fast path does not
    # look at: the process would end by a segmentation fault.
    try:
        return [{"key": key, "value": value} for key, value in _HEADERS(message) or ()]
    except (SystemError, UnicodeDecodeError):
        return None


def _create(folder: Path | str, landed: Landed, content: bytes) -> None:
    path = f"{str(folder).rstrip('/')}/{landed.path}"
    if not storage_of(path).create(path, content):
        raise OffsetsLost(
            f"topic {landed.topic}: {landed.path} is in the landing zone already, and no run of this table "
            "wrote it. Nothing was overwritten: two tables land this topic in one folder; give each a source "
            "of its own name, and run again."
        )
