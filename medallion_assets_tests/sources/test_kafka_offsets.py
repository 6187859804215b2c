"""Which offsets a run takes, against a plain model of a topic."""

import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medallion_assets import Pipeline
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.sources.errors import SourceError
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
)
from medallion_assets.sources.kafka_landing import land_new
from medallion_assets_tests.examples import examples

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(0, 3), st.integers(1, 5)),
        st.tuples(st.just("retain"), st.integers(0, 3), st.integers(1, 8)),
        st.tuples(st.just("add"), st.just(0), st.just(0)),
        st.tuples(st.just("look"), st.integers(1, 4), st.just(0)),
    ),
    max_size=40,
)


@examples(200)
@given(steps=STEPS, starting=st.sampled_from(["earliest", "latest"]))
def test_every_offset_since_the_start_is_taken_once_or_named_as_lost(steps, starting):
    topic = Topic("t", starting_offsets=starting, fail_on_data_loss=False)
    begins, ends = [0], [0]
    starts: dict[int, int] = {}
    landed: list[Landed] = []
    for what, number, count in [*steps, ("look", 2, 0)]:
        place = number % len(ends)
        if what == "produce":
            ends[place] += count
        elif what == "retain":
            begins[place] = min(ends[place], begins[place] + count)
        elif what == "add":
            begins.append(0)
            ends.append(0)
        else:
            # What a reader that knows no position would do: all partitions begin where they are first met.
            for partition in range(len(ends)):
                first = ends[partition] if starting == "latest" else begins[partition]
                starts.setdefault(partition, first if not landed else 0)
            available = dict(enumerate(zip(begins, ends, strict=True)))
            plan = planned(positions(landed), available, topic, not landed)
            for lost in plan.lost:
                assert lost.end == begins[lost.partition]
                landed.append(Landed("t", "id", lost, lost=True))
            for partition, start, end in plan.read:
                assert begins[partition] <= start <= end == ends[partition]
                cuts = [*range(start, end, number), end] if start < end else [start, end]
                parts = itertools.pairwise(cuts)
                landed += [Landed("t", "id", OffsetRange(partition, *part)) for part in parts]
            again = planned(positions(landed), available, topic, False)
            assert (again.read, again.lost) == ([], [])
    for partition, end in enumerate(ends):
        taken = [n for f in landed if f.range.partition == partition for n in range(*f.range[1:])]
        assert sorted(taken) == list(range(starts[partition], end))
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


def test_without_the_extra_a_run_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    source = Pipeline("shop").kafka("orders", servers="localhost:9092").source
    with pytest.raises(KafkaUnreachable, match=r"pip install 'medallion-assets\[kafka\]'"):
        land_new(tmp_path / "landing", tmp_path / "ledger", source, {})


def test_two_tables_that_would_land_one_topic_in_one_folder_are_refused():
    shop = Pipeline("shop")

    def declare(name):
        def query(rows=shop.kafka("orders", servers="localhost:9092")):  # noqa: B008
            return rows

        query.__name__ = name
        return shop.bronze()(query)

    declare("first")
    with pytest.raises(DeclarationError, match="shop/bronze/first lands a topic as the source 'orders'"):
        declare("second")


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
    assert (is_whole, list(numbers.values())) == (True, [9, 4, 1, 4])
    assert "partition 0 offsets 5 to 8" in words
    words, _, is_whole = accounted({**whole, Landed("t", "id", OffsetRange(0, 10, 11)): 1})
    assert not is_whole
    assert "partition 0 was landed up to offset 9" in words
