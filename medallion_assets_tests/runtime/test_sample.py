"""What a check shows of the rows that broke its rule: where they are, and their content only on request."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion_assets.delta.batches import Batch
from medallion_assets.quality.verdicts import expectations
from medallion_assets_tests.shop import ABOVE_ZERO, commit_batch, orders_and_sales

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@pytest.fixture
def refused(lake):
    _, sales = orders_and_sales(ABOVE_ZERO)
    entries = [
        {
            "entry_id": f"{number:08d}-e",
            "row": f'{{"card": "4111-{number}"}}',
            "rules": ["above_zero"] if number else ["another"],
            "source_file": "/landing/a.json",
            "position": f"line {number}",
            "status": "open" if number < 6 else "replayed",
            "quarantined_at": NOON + timedelta(minutes=number),
        }
        for number in range(8)
    ]
    write_deltalake(str(lake.quarantine(sales)), pa.Table.from_pylist(entries))
    commit_batch(lake, sales, Batch(0, 10, 5, 5, rules={"above_zero": 5}))
    return sales


def sample(table, lake, rows=0):
    asked = replace(lake, settings=lake.settings.model_copy(update={"sample_rows": rows}))
    (verdict,) = expectations(table, asked)
    return str(verdict.numbers["sample"]).splitlines()


def test_the_newest_open_entries_of_the_rule_are_shown_by_place(refused, lake):
    assert sample(refused, lake) == [f"0000000{n} /landing/a.json line {n}" for n in (5, 4, 3)]


def test_what_is_in_them_is_shown_only_where_it_is_asked_for(refused, lake):
    found = sample(refused, lake, rows=4)
    assert found[0] == '00000005 /landing/a.json line 5: {"card": "4111-5"}'
    assert len(found) == 4
