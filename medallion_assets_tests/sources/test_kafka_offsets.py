"""Which offsets a run takes, against a plain model of a topic."""

import itertools
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medallion_assets import Pipeline
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.formats.messages import (
    FIRST_TIME,
    LAST_TIME,
    NO_HEADERS,
    NO_LINE,
    NO_TIME,
    encoded,
    message_blocks,
    provenance,
)
from medallion_assets.sources.kafka import (
    KafkaUnreachable,
    Landed,
    OffsetRange,
    OffsetsLost,
    Topic,
    accounted,
    landed_of,
    of_topic,
    planned,
    positions,
    refuse_loss,
    refuse_unread,
)
from medallion_assets.sources.kafka_landing import headers_of, land_new
from medallion_assets_tests.examples import examples

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(0, 3), st.integers(1, 5)),
        st.tuples(st.just("retain"), st.integers(0, 3), st.integers(1, 8)),
        st.tuples(st.just("add"), st.just(0), st.just(0)),
        st.tuples(st.just("look"), st.integers(1, 4), st.none()),
        st.tuples(st.just("die"), st.integers(1, 4), st.integers(0, 4)),
    ),
    max_size=40,
)


@examples(300)
@given(steps=STEPS, starting=st.sampled_from(["earliest", "latest"]))
def test_every_offset_since_the_start_is_taken_once_or_named_as_lost_whoever_dies(steps, starting):
    topic = Topic("t", starting_offsets=starting, fail_on_data_loss=False)
    begins, ends = [0], [0]
    starts: list[int] | None = None
    landed: list[Landed] = []
    for what, number, count in [*steps, ("look", 2, None)]:
        place = number % len(ends)
        if what == "produce":
            ends[place] += count
        elif what == "retain":
            begins[place] = min(ends[place], begins[place] + count)
        elif what == "add":
            begins.append(0)
            ends.append(0)
        else:
            available = dict(enumerate(zip(begins, ends, strict=True)))
            plan = planned(positions(landed), available, topic, not landed)
            assert all(lost.end == begins[lost.partition] for lost in plan.lost)
            assert all(begins[p] <= start <= end == ends[p] for p, start, end in plan.read)
            files = []
            for wanted in plan.in_order:
                partition, start, end = wanted
                is_cut = wanted in plan.read and start < end
                parts = itertools.pairwise([*range(start, end, number), end] if is_cut else [start, end])
                ranges = [OffsetRange(partition, *part) for part in parts]
                files += [Landed("t", "id", each, wanted in plan.lost) for each in ranges]
            # A first run has begun once it noted where each partition begins, or has its first file.
            noted = len(plan.begins) or 1
            is_begun = count is None or count >= noted
            if starts is None and is_begun and (files or count is None):
                starts = ends.copy() if starting == "latest" else begins.copy()
                known = {file.range.partition: file.range.start for file in landed}
                starts = [known.get(partition, start) for partition, start in enumerate(starts)]
            landed += files[:count]
            if count is None:
                again = planned(positions(landed), available, topic, False)
                assert (again.read, again.lost, again.begins) == ([], [], [])
    assert starts is not None
    for partition, end in enumerate(ends):
        taken = [n for f in landed if f.range.partition == partition for n in range(*f.range[1:])]
        first = starts[partition] if partition < len(starts) else 0
        assert sorted(taken) == list(range(first, end))
    assert [landed_of(file.path) for file in landed] == landed


@given(gap=st.integers(1, 9), end=st.integers(10, 20))
def test_ranges_that_leave_offsets_out_or_overlap_are_refused(gap, end):
    first = Landed("t", "id", OffsetRange(0, 0, 10))
    for start in (10 + gap, 10 - gap):
        with pytest.raises(OffsetsLost, match="partition 0 was landed up to offset 10"):
            positions([first, Landed("t", "id", OffsetRange(0, start, end + 10))])


@pytest.mark.parametrize("available", [{0: (0, 4)}, {1: (0, 9)}], ids=["it ends before", "it is gone"])
def test_a_partition_that_ends_before_its_position_is_refused_whatever_is_declared(available):
    with pytest.raises(OffsetsLost, match="up to offset 5, and the topic has it only"):
        planned({0: 5}, available, Topic("t", fail_on_data_loss=False), False)


def test_a_loss_is_refused_with_its_range_and_the_way_on():
    with pytest.raises(OffsetsLost) as refused:
        refuse_loss(Topic("clicks"), [OffsetRange(3, 10, 25)])
    words = str(refused.value)
    assert "clicks: 15 offsets" in words
    assert "partition 3 offsets 10 to 24" in words
    assert "fail_on_data_loss=False" in words


def test_a_topic_that_was_made_again_is_told_from_the_one_before():
    before = [Landed("t", "old", OffsetRange(0, 0, 10))]
    with pytest.raises(OffsetsLost, match="deleted and made again"):
        of_topic(before, Topic("t"), "new")
    assert of_topic(before, Topic("t", fail_on_data_loss=False), "new") == []
    assert of_topic(before, Topic("t"), "old") == before


def test_a_new_ledger_beside_the_later_files_alone_is_refused_while_the_topic_has_the_earlier_ones():
    left = {Landed("t", "id", OffsetRange(0, 5, 9))}
    with pytest.raises(OffsetsLost, match="leave partition 0 offsets 2 to 4 out"):
        refuse_unread(Topic("t"), left, set(), {0: (2, 9)})
    refuse_unread(Topic("t"), left, left, {0: (2, 9)})
    refuse_unread(Topic("t"), left, set(), {0: (5, 9)})
    refuse_unread(Topic("t", starting_offsets="latest"), left, set(), {0: (2, 9)})


def test_what_a_topic_had_before_it_was_made_again_is_told_as_unknown():
    ranges = {Landed("t", "old", OffsetRange(0, 0, 5)): 5, Landed("t", "new", OffsetRange(0, 0, 2)): 2}
    words, numbers, is_whole = accounted(ranges)
    assert (is_whole, numbers["topics_before"]) == (True, 1)
    assert "what t (old) had beyond its last landing was not read" in words


def landing_file(tmp_path, *times):
    """A landing file of messages of these times, as a broker gives them."""
    path = tmp_path / Landed("t", "id", OffsetRange(0, 0, len(times))).path
    path.parent.mkdir(parents=True)
    rows = [(offset, time, b"k", [], b'{"id": 1}') for offset, time in enumerate(times)]
    path.write_bytes(encoded(rows, 0))
    return path


def test_a_time_that_no_row_can_hold_is_refused_with_its_number_and_is_null_when_replayed(tmp_path):
    edges = [FIRST_TIME, -1, None, LAST_TIME]
    odd = [FIRST_TIME - 1, LAST_TIME + 1, 1_700_000_000_000_000, 1_700_000_000_000_000_000]
    path = landing_file(tmp_path, *edges, *odd)
    (messages,) = message_blocks(path, str(path.relative_to(tmp_path)))
    assert messages.block.splitlines() == [b'{"id": 1}'] * 4 + [NO_LINE] * 4
    reasons = [messages[number].reason for number in range(8)]
    assert reasons == [""] * 4 + [NO_TIME.format(time) for time in odd]
    times = messages.beside(pa.table({"id": [1] * 8}), range(8))["_timestamp"].to_pylist()
    assert [time is None for time in times] == [False, False, True, False, *[True] * 4]
    assert [row[1] for row in provenance(path, range(8))] == times


def test_a_message_whose_headers_the_client_cannot_give_is_refused_by_name(tmp_path):
    class OfOddKey:
        def headers(self):
            raise SystemError("returned a result with an exception set")

    assert headers_of(OfOddKey()) is None
    path = tmp_path / "0.parquet"
    path.write_bytes(encoded([(0, 1, b"k", [], b"{}"), (1, 1, b"k", headers_of(OfOddKey()), b"{}")], 0))
    (messages,) = message_blocks(path, "")
    assert [messages[number].reason for number in range(2)] == ["", NO_HEADERS]


def test_without_the_extra_a_run_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    source = Pipeline("shop").kafka("orders", servers="localhost:9092").source
    with pytest.raises(KafkaUnreachable, match=r"pip install 'medallion-assets\[kafka\]'"):
        land_new(tmp_path / "landing", tmp_path / "ledger", source, {})


@pytest.mark.parametrize(
    ("pipelines", "names", "path"),
    [(("shop", "shop"), ("orders", "orders"), ""), (("shop", "shop"), ("a", "b"), "/landing/x"),
     (("shop", "other"), ("a", "a"), "/landing/x")],
    ids=["of one name", "of one path", "of two pipelines"],
)  # fmt: skip
def test_two_tables_that_would_land_a_topic_in_one_folder_are_refused(pipelines, names, path):
    def declare(pipeline, source, name):
        topic = pipeline.kafka(source, topic="orders", servers="localhost:9092", path=path)

        def query(rows=topic):
            return rows

        query.__name__ = name
        return pipeline.bronze()(query)

    made = {name: Pipeline(name) for name in pipelines}
    declare(made[pipelines[0]], names[0], "first")
    with pytest.raises(DeclarationError, match="shop/bronze/first lands a topic in the same folder"):
        declare(made[pipelines[1]], names[1], "second")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "a b"}, "no name of a Kafka topic"),
        ({"format": "csv"}, "json, text, binaryFile, not csv"),
        ({"starting_offsets": "newest"}, "not one of earliest, latest"),
        ({"path_glob_filter": "*.json"}, "path_glob_filter: of files"),
        ({"allow_overwrites": "replace"}, "allow_overwrites: of files"),
        ({"multiLine": "true"}, "multiLine: of files"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_declaration_that_cannot_work_is_refused_as_it_loads(options, words):
    with pytest.raises(SourceError, match=words):
        Pipeline("shop").kafka("orders", servers="localhost:9092", **options)


def test_ranges_in_a_ledger_are_accounted_for_and_a_gap_among_them_is_told():
    whole = {Landed("t", "id", OffsetRange(0, 0, 5)): 4, Landed("t", "id", OffsetRange(0, 5, 9), True): 0}
    words, numbers, is_whole = accounted(whole)
    assert (is_whole, list(numbers.values())) == (True, [9, 4, 1, 4, 0])
    assert "partition 0 offsets 5 to 8" in words
    words, _, is_whole = accounted({**whole, Landed("t", "id", OffsetRange(0, 10, 11)): 1})
    assert not is_whole
    assert "partition 0 was landed up to offset 9" in words
