"""Slowly changing dimensions: any order of the same events gives the table an independent model gives."""

import io
import json
import random
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medallion_assets.declare import Pipeline, keep_changes, stream
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.run import refresh
from medallion_assets_tests.runtime.feeds import loaded, model_rows, people, sortable, table_rows
from medallion_assets_tests.shop import json_lines

EVENT = st.fixed_dictionaries(
    {
        "id": st.sampled_from([f"p{i}" for i in range(12)]),
        "at": st.integers(1, 9),
        "op": st.sampled_from(["upsert", "upsert", "upsert", "delete"]),
        "city": st.sampled_from(["Quito", "Lagos"]),
        "note": st.sampled_from(["x", "y"]),
    }
)


@pytest.mark.spark
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=st.lists(EVENT, min_size=30, max_size=80), seed=st.integers(0, 9))
def test_any_order_and_any_cut_of_the_events_gives_the_models_history(tmp_path_factory, spark, events, seed):
    random.Random(seed).shuffle(events)
    third = len(events) // 3
    tables = people(type=2, apply_as_deletes="op = 'delete'")
    batches = [events[:third], events[third : 2 * third], events[2 * third :]]
    lake = loaded(tmp_path_factory.mktemp("scd"), spark, tables, batches)
    rows = table_rows(lake, tables[1])
    found = [(r["id"], r["city"], r["note"], r["__START_AT"], r["__END_AT"]) for r in rows]
    assert sortable(found) == sortable(model_rows(events, 2))


@pytest.mark.spark
def test_type_1_keeps_the_newest_state_and_a_late_one_never_brings_a_deleted_key_back(tmp_path, spark):
    chance = random.Random(7)
    events = [
        {
            "id": f"p{chance.randrange(30)}",
            "at": chance.randrange(1, 12),
            "op": chance.choice(["upsert", "upsert", "delete"]),
            "city": chance.choice("QL"),
            "note": "n",
        }
        for _ in range(150)
    ]
    tables = people(apply_as_deletes="op = 'delete'")
    lake = loaded(tmp_path, spark, tables, [events[:50], events[50:60], events[60:]])
    found = [(r["id"], r["city"], r["note"]) for r in table_rows(lake, tables[1])]
    assert sortable(found) == sortable([s[:3] for s in model_rows(events, 1)])


@pytest.mark.spark
def test_two_different_events_of_one_sequence_are_quarantined_by_name_also_when_the_second_is_late(
    drop, lake, spark, rows_of
):
    tables = people(type=2)
    event = {"id": "p1", "at": 5, "op": "upsert", "city": "Quito", "note": "x"}
    for number, told in enumerate([event, event | {"at": 7}, event | {"city": "Lagos"}, event]):
        drop("shop/events", f"{number}.json", json_lines(told))
        for table in tables:
            refresh(table, lake, lambda: spark)
            assert balance(table, lake).holds
    held = rows_of("shop/quarantine/people", "SELECT row, rules FROM t")
    assert {json.loads(r["row"])["city"] for r in held} == {"Quito", "Lagos"}
    assert {tuple(r["rules"]) for r in held} == {("untied_sequence",)}
    found = rows_of("shop/silver/people", 'SELECT "__START_AT" AS s FROM t')
    assert found == [{"s": 7}]


NOON = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
NEXT = NOON + timedelta(microseconds=1)
# Two values of each type that differ by as little as they can.
NEAR = {
    "seen": (pa.timestamp("us", "UTC"), NOON, NEXT),
    "local": (pa.timestamp("us"), NOON.replace(tzinfo=None), NEXT.replace(tzinfo=None)),
    "ratio": (pa.float64(), 0.1, 0.10000000000000002),
    "price": (pa.decimal128(38, 10), Decimal("1.0000000001"), Decimal("1.0000000002")),
    "number": (pa.int64(), 2**53, 2**53 + 1),
    "bytes": (pa.binary(), b"\xff", b"\xfe"),
    "text": (pa.string(), "a", "a "),
    "day": (pa.date32(), NOON.date(), NOON.date() + timedelta(days=1)),
    "places": (pa.struct([("at", pa.timestamp("us", "UTC"))]), {"at": NOON}, {"at": NEXT}),
    "list": (pa.list_(pa.timestamp("us", "UTC")), [NOON], [NEXT]),
    "named": (pa.map_(pa.string(), pa.timestamp("us", "UTC")), [("a", NOON)], [("a", None)]),
}


@pytest.mark.spark
def test_the_least_difference_of_any_type_begins_a_state_and_is_no_tie(drop, lake, spark, rows_of):
    shop, columns = Pipeline("shop"), {name: kind for name, (kind, *_) in NEAR.items()}

    @shop.bronze()
    def events(files=shop.landing("events", format="parquet")):  # noqa: B008
        """One row per event."""
        return files

    @shop.silver(scd=keep_changes("id", "at", type=2))
    def people(events=stream(events)):
        """One row per person and state."""
        return events.select("id", "at", *NEAR)

    records = [
        {"id": f"{kind} {name}", "at": number if kind == "state" else 1, name: value}
        for kind in ("state", "tie")
        for name, (_, *two) in NEAR.items()
        for number, value in enumerate(two)
    ]
    schema = pa.schema([("id", pa.string()), ("at", pa.int64()), *columns.items()])
    written = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records, schema), written)
    drop("shop/events", "1.parquet", written.getvalue())
    for table in (events, people):
        refresh(table, lake, lambda: spark)
        assert balance(table, lake).holds
    states = rows_of("shop/silver/people", "SELECT id, count(*) AS n FROM t GROUP BY id")
    assert {row["id"]: row["n"] for row in states} == {f"state {name}": 2 for name in NEAR}
    held = rows_of("shop/quarantine/people", "SELECT row FROM t")
    assert sorted(json.loads(row["row"])["id"] for row in held) == sorted(
        [f"tie {name}" for name in NEAR] * 2
    )


@pytest.mark.spark
def test_only_tracked_columns_begin_a_state_and_others_change_in_place(tmp_path, spark):
    tables = people(type=2, track_history_columns=["city"], except_columns=["op"])
    base = {"id": "p1", "op": "upsert", "city": "Quito"}
    events = [base | {"at": 1, "note": "a"}, base | {"at": 3, "note": "c"}]
    late = [base | {"at": 2, "note": "b", "city": "Lagos"}]
    lake = loaded(tmp_path, spark, tables, [events])
    assert [(r["note"], r["__START_AT"]) for r in table_rows(lake, tables[1])] == [("c", 1)]
    lake = loaded(tmp_path, spark, tables, [events, late])
    rows = sorted((r["__START_AT"], r["__END_AT"], r["city"], r["note"]) for r in table_rows(lake, tables[1]))
    assert rows == [(1, 2, "Quito", "a"), (2, 3, "Lagos", "b"), (3, None, "Quito", "c")]
    assert "op" not in table_rows(lake, tables[1])[0]


@pytest.mark.spark
def test_a_key_missing_from_a_snapshot_is_closed_at_it(tmp_path, spark):
    tables = people(type=2, from_snapshots=True)
    person = {"op": "", "note": "n"}
    days = [
        [person | {"id": "a", "at": 1, "city": "Q"}, person | {"id": "b", "at": 1, "city": "Q"}],
        [person | {"id": "a", "at": 2, "city": "Q"}],
        [person | {"id": "a", "at": 3, "city": "L"}, person | {"id": "b", "at": 3, "city": "Q"}],
    ]
    lake = loaded(tmp_path, spark, tables, days)
    rows = [(r["id"], r["city"], r["__START_AT"], r["__END_AT"]) for r in table_rows(lake, tables[1])]
    assert sortable(rows) == sortable(
        [("a", "Q", 1, 3), ("a", "L", 3, None), ("b", "Q", 1, 2), ("b", "Q", 3, None)]
    )


@pytest.mark.spark
def test_a_truncation_takes_every_key_and_later_events_stand(tmp_path, spark):
    tables = people(apply_as_truncates="op = 'truncate'")
    row = {"op": "upsert", "city": "Q", "note": "n"}
    first = [row | {"id": "a", "at": 1}, row | {"id": "b", "at": 2}]
    second = [row | {"id": "a", "at": 5, "op": "truncate"}, row | {"id": "c", "at": 6}]
    late = [row | {"id": "d", "at": 4}]
    lake = loaded(tmp_path, spark, tables, [first, second, late])
    assert [r["id"] for r in table_rows(lake, tables[1])] == ["c"]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"type": 3}, "neither 1 nor 2"),
        ({"track_history_columns": ["city"]}, "track_history is for type 2"),
        ({"type": 2, "apply_as_truncates": "true"}, "for type 1"),
        ({"apply_as_deletes": "op = = 1"}, "does not parse"),
        ({"from_snapshots": True, "apply_as_deletes": "true"}, "by absence"),
    ],
)
def test_what_cannot_be_kept_is_refused_as_it_is_declared(told, why):
    with pytest.raises(DeclarationError, match=why):
        keep_changes("id", "at", **told)
