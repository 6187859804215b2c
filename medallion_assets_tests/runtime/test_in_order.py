"""Events later than all before them: they meet what stands open, and the table is the model's."""

import random

import pytest

from medallion_assets.delta.batches import recorded
from medallion_assets.runs.run import refresh
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.runtime.feeds import loaded, model_rows, people, sortable, table_rows
from medallion_assets_tests.shop import json_lines

pytestmark = pytest.mark.spark
IN_ORDER = "in order: the new events and the open states"


def events_of_day(chance, day, count=12):
    """Events of one day, by key; a key may come twice, to the letter."""
    made = [
        {
            "id": f"p{chance.randrange(8)}",
            "at": day,
            "op": chance.choice(["upsert", "upsert", "delete"]),
            "city": chance.choice("QL"),
            "note": chance.choice("xy"),
        }
        for _ in range(count)
    ]
    once = {event["id"]: event for event in made}
    return [*once.values(), *list(once.values())[:2]]


@pytest.mark.parametrize("kind", [seldom(1), 2])
def test_later_events_meet_only_what_stands_open_and_a_late_one_its_whole_key(tmp_path, spark, kind):
    chance = random.Random(kind)
    days = [events_of_day(chance, day) for day in (1, 2, 4, 6)]
    late = [events_of_day(chance, 5)]
    tables = people(type=kind, apply_as_deletes="op = 'delete'", except_columns=["op"])
    batches = [days[0] + days[1], days[2], days[3], *late, events_of_day(chance, 9)]
    lake = loaded(tmp_path, spark, tables, batches)
    ways = [batch.strategy for batch in recorded(lake.path(tables[1]))]
    assert [way == IN_ORDER for way in ways] == [False, True, True, False, True]
    tail = ("__START_AT", "__END_AT") if kind == 2 else ()
    found = [tuple(r[c] for c in ("id", "city", "note", *tail)) for r in table_rows(lake, tables[1])]
    every = [event for batch in batches for event in batch]
    assert sortable(found) == sortable([s[: 3 + len(tail)] for s in model_rows(every, kind)])


@pytest.mark.parametrize("commit", [1, 2])
def test_events_in_order_are_taken_once_though_the_batch_dies(
    drop, lake, spark, rows_of, lakehouse_here, commit
):
    tables = people(type=2)
    event = {"id": "p1", "at": 1, "op": "upsert", "city": "Quito", "note": "x"}
    tied = [event | {"id": "p2", "at": 3}, event | {"id": "p2", "at": 3, "city": "Lagos"}]
    drop("shop/events", "1.json", json_lines(event))
    for table in tables:
        refresh(table, lake, lambda: spark)
    drop("shop/events", "2.json", json_lines(event | {"at": 3, "city": "Lagos"}, *tied))
    refresh(tables[0], lake, lambda: spark)
    with lakehouse_here.crash_at(commit):
        refresh(tables[1], lake, lambda: spark)
    refresh(tables[1], lake, lambda: spark)
    assert [batch.strategy == IN_ORDER for batch in recorded(lake.path(tables[1]))] == [False, True]
    found = rows_of(tables[1].key, 'SELECT city, "__END_AT" AS until FROM t ORDER BY city')
    assert found == [{"city": "Lagos", "until": None}, {"city": "Quito", "until": 3}]
    lakehouse_here.assert_conserved(*tables)
