"""A Kafka topic as a source: which offsets a run lands, and the names of the files they land in.

A run first lands a topic's new messages as files of its landing zone, each with a range of one partition's
offsets in its name. How far the topic was read follows from these names, those in the ledger with them, so
that nothing beside the files and the ledger has to be kept, and no range can land twice.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from medallion_assets.sources.errors import BatchRefused

LOST = ".lost"
"""Part of the name of a file without messages: its range was removed from the topic before it was read."""

NAME = re.compile(r"topic=([^/]+)/partition=(\d+)/(\d{20})-(\d{20})-([\w-]+?)(\.lost)?\.parquet")
TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
TAKES = ("json", "text", "binaryFile")
"""The formats of ``Source`` that a message's value can have."""


@dataclass(frozen=True)
class Topic:
    """A Kafka topic.

    Attributes:
        name: The topic.
        servers: ``host:port`` with commas; ``bootstrap.servers`` of the setting ``kafka_conf`` where empty.
        starting_offsets: ``earliest`` or ``latest``: where the first run begins.
        fail_on_data_loss: True to fail where messages were removed before they were read, or the topic was
            deleted and made again; false to record the loss and go on with what there is.
    """

    name: str
    servers: str = ""
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    fail_on_data_loss: bool = True


OF_FILES = {
    "path_glob_filter": "*", "recursive_file_lookup": True, "include_existing_files": True,
    "modified_after": "", "modified_before": "", "allow_overwrites": "ignore", "change_detection": "stat",
    "partition_columns": (), "settle_seconds": 0, "backfill_interval": "", "select": (),
}  # fmt: skip
"""Options of ``Source`` that choose among files, with what they are for a topic."""


def wrong_with_topic(source: Any) -> list[str]:
    """Return the problems of a source that reads a topic."""
    topic, problems = source.kafka, []
    if not TOPIC_NAME.fullmatch(topic.name) or topic.name in (".", ".."):
        problems.append(f"{topic.name!r} is no name of a Kafka topic")
    if topic.starting_offsets not in ("earliest", "latest"):
        problems.append(f"starting_offsets={topic.starting_offsets!r} is not one of earliest, latest")
    if source.format not in TAKES:
        problems.append(f"a message's value is one of {', '.join(TAKES)}, not {source.format}")
    given = [name for name, usual in OF_FILES.items() if getattr(source, name) != usual]
    given += [name for name in ("encoding", "multiLine", "wholetext") if name in source.reader_options]
    if given:
        problems.append(f"{', '.join(given)}: of files, and a topic's messages are read by their offsets")
    return problems


class KafkaUnreachable(BatchRefused):
    """The broker, the topic or the client library is not there."""


class OffsetsLost(BatchRefused):
    """Messages that were not read yet are no longer in the topic."""


class OffsetRange(NamedTuple):
    """Offsets of a partition from ``start`` up to, but without, ``end``."""

    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        """Return the range as messages name it."""
        return f"partition {self.partition} offsets {self.start} to {self.end - 1}"


class Landed(NamedTuple):
    """A range that landed as a file; ``lost`` where it has no messages since they were removed before."""

    topic: str
    topic_id: str
    range: OffsetRange
    lost: bool = False

    @property
    def path(self) -> str:
        """The file's name below the landing zone."""
        partition, start, end = self.range
        name = f"{start:020d}-{end:020d}-{self.topic_id}{LOST if self.lost else ''}.parquet"
        return f"topic={self.topic}/partition={partition}/{name}"


def landed_of(path: str) -> Landed | None:
    """Return the range that a landing file's name says, None for any other file."""
    found = NAME.fullmatch(path)
    if not found:
        return None
    topic, partition, start, end, topic_id, lost = found.groups()
    return Landed(topic, topic_id, OffsetRange(int(partition), int(start), int(end)), bool(lost))


def positions(landed: Iterable[Landed]) -> dict[int, int]:
    """Return up to where each partition of one topic was landed.

    Raises:
        OffsetsLost: The ranges of a partition leave offsets out, or overlap.
    """
    at: dict[int, int] = {}
    for file in sorted(landed, key=lambda file: file.range):
        partition, start, end = file.range
        if start != at.get(partition, start):
            raise OffsetsLost(
                f"topic {file.topic}: partition {partition} was landed up to offset {at[partition]}, and the "
                f"next file, {file.path}, begins at {start}. Nothing was read and nothing is lost in the "
                "topic: files were removed from the landing zone or copied into it by hand; put it back as "
                "it was, or run `medallion reset --landing` on the table and load what the topic still has."
            )
        at[partition] = end
    return at


class Plan(NamedTuple):
    """What a run does: ranges to read, and ranges that are not in the topic any more.

    Attributes:
        read: One range for each partition with news; an empty one marks where a new partition begins.
        lost: Ranges below those.
        begins: Where the partitions of a first run begin, as empty ranges: all, or none where all begin at 0.
    """

    read: list[OffsetRange]
    lost: list[OffsetRange]
    begins: list[OffsetRange]

    @property
    def waiting(self) -> int:
        """The offsets that were not taken yet, those that are lost with them."""
        return sum(end - start for _, start, end in (*self.read, *self.lost))

    @property
    def in_order(self) -> list[OffsetRange]:
        """The ranges in the order that lets a death in between be told from partitions that were added.

        Where a first run begins is written for the highest partition first, and all else for the lowest: a
        partition below one that landed was there at the first run, one above was added since.
        """
        return sorted(self.begins, reverse=True) + sorted([*self.lost, *self.read])


def planned(
    position: Mapping[int, int], available: Mapping[int, tuple[int, int]], topic: Topic, is_first: bool
) -> Plan:
    """Return what there is to read of a topic.

    Args:
        position: Up to where each partition was landed.
        available: By partition, the first offset there is, and the one after the last.
        topic: Says where the first run begins.
        is_first: True where nothing was landed yet, of this topic or of one that was there before it.

    Raises:
        OffsetsLost: A partition ends before its position, or is gone: its offsets name other messages now.
    """
    plan, highest = Plan([], [], []), max(position, default=-1)
    firsts = {p: there[topic.starting_offsets == "latest"] for p, there in available.items()}
    for partition, (begin, end) in sorted(available.items()):
        # A partition that was added since is read from its first message, whatever the first run did.
        is_of_first_run = partition not in position and (is_first or partition < highest)
        at = position.get(partition, firsts[partition] if is_of_first_run else 0)
        if at > end:
            raise _other_messages(topic, partition, at, end)
        if at < begin:
            plan.lost.append(OffsetRange(partition, at, begin))
        if is_of_first_run and len(available) > 1 and (not is_first or any(firsts.values())):
            plan.begins.append(OffsetRange(partition, firsts[partition], firsts[partition]))
        elif partition not in position and at >= end:
            plan.read.append(OffsetRange(partition, end, end))
        if max(at, begin) < end:
            plan.read.append(OffsetRange(partition, max(at, begin), end))
    for partition in sorted(position.keys() - available.keys()):
        raise _other_messages(topic, partition, position[partition], 0)
    return plan


def _other_messages(topic: Topic, partition: int, at: int, end: int) -> OffsetsLost:
    return OffsetsLost(
        f"topic {topic.name}: partition {partition} was landed up to offset {at}, and the topic has it only "
        f"up to {end}: the broker lost messages, and will give their offsets to others. Nothing was read or "
        "written, and what was landed stays: declare the topic as a source of another name, for a new table."
    )


def refuse_loss(topic: Topic, lost: Iterable[OffsetRange]) -> None:
    """Raise where messages were removed before they were read, unless the topic allows it.

    Raises:
        OffsetsLost: Names the ranges and the way on.
    """
    ranges = list(lost)
    if not ranges or not topic.fail_on_data_loss:
        return
    offsets = sum(end - start for _, start, end in ranges)
    raise OffsetsLost(
        f"topic {topic.name}: {offsets} offsets were removed by the topic's retention before they were read: "
        f"{'; '.join(map(str, ranges))}. Nothing was read or written, and what was loaded before stays: read "
        "them from a copy of the topic if there is one. To go on without them declare "
        "fail_on_data_loss=False, and the next run records them as lost and reads what follows."
    )


def refuse_unread(
    topic: Topic, landed: Iterable[Landed], ledger: set[Landed], available: Mapping[int, tuple[int, int]]
) -> None:
    """Raise where a ledger that was begun anew finds only the later of the files that landed.

    Args:
        topic: Says where the first run begins.
        landed: The ranges of the topic that landed.
        ledger: Those that the ledger knows.
        available: By partition, the first offset there is, and the one after the last.

    Raises:
        OffsetsLost: The topic has messages before those of the files.
    """
    if topic.starting_offsets != "earliest" or ledger:
        return
    for partition, (begin, _) in available.items():
        start = min((file.range.start for file in landed if file.range.partition == partition), default=0)
        if begin < start:
            raise OffsetsLost(
                f"topic {topic.name}: the landing zone has partition {partition} from offset {start} on, the "
                f"topic from {begin}, and the file ledger is new: a load would leave "
                f"{OffsetRange(partition, begin, start)} out, whose files were removed, as by clean_source. "
                "Nothing was read or written: put the files back, or run `medallion reset --landing` on the "
                "table and load what the topic still has."
            )


def of_topic(landed: Iterable[Landed], topic: Topic, topic_id: str) -> list[Landed]:
    """Return the ranges of the topic as it is now, told from one of its name that was there before.

    Raises:
        OffsetsLost: The topic was deleted and made again, or another was landed before.
    """
    known = list(landed)
    ours = [file for file in known if file.topic == topic.name and file.topic_id == topic_id]
    others = sorted({f"{file.topic} ({file.topic_id})" for file in known} - {f"{topic.name} ({topic_id})"})
    if known and not ours and topic.fail_on_data_loss:
        raise OffsetsLost(
            f"topic {topic.name} ({topic_id}) is not the one that was landed before, {', '.join(others)}: "
            "it was deleted and made again, or the declaration names another, so that its offsets start "
            "over. What the former topic had beyond the last run is lost; nothing was read or written now. "
            "To go on with the new topic from its first message, beside the rows there are, declare "
            "fail_on_data_loss=False; to begin anew declare it as a source of another name."
        )
    return ours


def accounted(landed: dict[Landed, int]) -> tuple[str, dict[str, int], bool]:
    """Return what was taken of a topic, in words and numbers, and whether its ranges join without a gap.

    Args:
        landed: The ranges in the ledger, each with its messages, as they came.
    """
    words: list[str] = []
    numbers = {"offsets": 0, "messages": 0, "offsets_without_message": 0, "offsets_lost": 0}
    # The newest first: a declaration may come back to a topic.
    topics = [*dict.fromkeys((file.topic, file.topic_id) for file in reversed(landed))]
    numbers["topics_before"] = len(topics[1:])
    is_whole = True
    for topic in topics:
        files = [file for file in landed if (file.topic, file.topic_id) == topic]
        try:
            positions(files)
        except OffsetsLost as gap:
            words.append(str(gap))
            is_whole = False
    for file, messages in landed.items():
        offsets = file.range.end - file.range.start
        numbers["offsets"] += offsets
        numbers["messages"] += messages
        numbers["offsets_lost" if file.lost else "offsets_without_message"] += offsets - messages
    lost = [str(file.range) for file in landed if file.lost]
    words += [f"removed from the topic before they were read: {'; '.join(lost)}"] if lost else []
    before = [f"{name} ({topic_id})" for name, topic_id in topics[1:]]
    words += [f"what {', '.join(before)} had beyond its last landing was not read"] if before else []
    words.append(
        f"{numbers['offsets']} offsets taken, {numbers['messages']} of them messages; "
        f"{numbers['offsets_without_message']} have none (ends of transactions, aborted or compacted)"
    )
    return "; ".join(words), numbers, is_whole
