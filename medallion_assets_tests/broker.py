"""A Kafka broker of one node, started from the jars of Maven Central, for tests."""

import json
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from filelock import FileLock

from medallion_assets.session.java import java_command, spark_jars_folder
from medallion_assets.settings import current_settings

VERSION = "3.9.1"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.backoff.ms=200
log.retention.check.interval.ms=500
log.initial.task.delay.ms=100
file.delete.delay.ms=100
"""
SMALL_JVM = ("-Xmx400m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Broker:
    """A broker that was started; ``address`` is what clients are given."""

    def __init__(self, folder: Path) -> None:
        """Format a folder and start the broker on two free ports."""
        self.java, self.jars = java_command(), _jars()
        port, controller = _free_ports()
        self.address, self.folder = f"127.0.0.1:{port}", folder
        folder.mkdir(parents=True, exist_ok=True)
        self.properties = folder / "server.properties"
        self.properties.write_text(PROPERTIES.format(port=port, controller=controller, folder=folder))
        cluster = "MkU3OEVBNTcwNTJENDM2Qk"
        self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self.properties), wait=True)
        self.start()

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        self.process = self._java("kafka.Kafka", str(self.properties))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                self.admin().list_topics(timeout=2)
                return
            except Exception:
                time.sleep(0.2)
        self.stop()
        pytest.skip(f"Kafka's broker did not start: {(self.folder / 'out.log').read_text()[-500:]}")

    def stop(self) -> None:
        """End the broker."""
        self.process.kill()
        self.process.wait()

    def admin(self):
        """Return a client for topics."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def topic(self, partitions: int = 1, name: str = "", **config: str) -> str:
        """Create a topic, of a name of its own where none is given."""
        from confluent_kafka.admin import NewTopic

        name = name or f"topic-{uuid.uuid4().hex[:8]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin = self.admin()
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)
        return name

    def produce(self, topic: str, *values, partition: int = 0, key=None, headers=None, timestamp=0) -> None:
        """Send values, each a message; a dict as JSON."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address, "log_level": 0})
        for value in values:
            whole = json.dumps(value).encode() if isinstance(value, dict) else value
            producer.produce(topic, whole, key, partition, timestamp=timestamp, headers=headers)
        assert producer.flush(30) == 0

    def messages(self, topic: str):
        """Return the messages of a topic's first partition, with a consumer of the test's own."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "test", "log_level": 0,
                             "enable.partition.eof": True, "enable.auto.commit": False})  # fmt: skip
        consumer.assign([TopicPartition(topic, 0, 0)])
        while not (message := consumer.poll(10)).error():
            yield message
        consumer.close()

    def drop(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(30)
        while topic in admin.list_topics(timeout=5).topics:
            time.sleep(0.1)

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """Delete a partition's messages below an offset, as retention does."""
        from confluent_kafka import TopicPartition

        place, admin = TopicPartition(topic, partition, offset), self.admin()
        admin.delete_records([place])[place].result(30)

    def _java(self, main: str, *arguments: str, wait: bool = False) -> subprocess.Popen:
        command = [self.java, *SMALL_JVM, "-cp", f"{self.jars}/*", main, *arguments]
        with (self.folder / "out.log").open("ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.folder)
        if wait:
            process.wait()
        return process


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def _jars() -> Path:
    """Return the folder of the broker's jars, fetched once into the cache."""
    folder = current_settings().cache / f"kafka-{VERSION}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Tests run in several processes, and Ivy's cache has no lock of its own.
    with FileLock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            staged = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
            pattern = str(staged / "[artifact]-[revision].[ext]")
            command = [java_command(), "-cp", str(spark_jars_folder() / "*"), "org.apache.ivy.Main",
                       "-confs", "default", "-cache", str(staged / "ivy"), "-retrieve", pattern,
                       "-dependency", "org.apache.kafka", "kafka_2.13", VERSION]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            shutil.rmtree(staged / "ivy", ignore_errors=True)
            if done.returncode or not list(staged.glob("kafka_2.13-*.jar")):
                shutil.rmtree(staged, ignore_errors=True)
                pytest.skip(f"the broker's jars cannot be fetched: {done.stdout[-300:]}")
            staged.rename(folder)
    return folder
