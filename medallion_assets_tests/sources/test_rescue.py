"""What no column takes stands in the rescued data column, whole enough to give the record back."""

import json
from collections import Counter

import pytest

from medallion_assets_tests.sources.conftest import rescued

pytestmark = pytest.mark.spark
RESCUE = {"schema_evolution_mode": "rescue"}
SCHEMA = "id BIGINT, x STRUCT<y: INT>, l ARRAY<STRUCT<q: INT>>, m DOUBLE"


@pytest.mark.parametrize(
    ("record", "kept", "left"),
    [
        ({"id": 1, "new": {"a": [1, "b"]}}, {"id": 1}, {"new": {"a": [1, "b"]}}),
        ({"id": "many"}, {"id": None}, {"id": "many"}),
        ({"ID": 1}, {"id": None}, {"ID": 1}),
        ({"id": 1, "x": {"y": 2, "z": 3}}, {"x": {"y": 2}}, {"x": {"z": 3}}),
        ({"id": 1, "x": {"y": "no"}}, {"x": {"y": None}}, {"x": {"y": "no"}}),
        ({"id": 1, "x": 5}, {"x": None}, {"x": 5}),
        ({"id": 1, "l": [{"q": 1}, {"q": 2, "w": 3}]}, {}, {"l": [{"q": 1}, {"q": 2, "w": 3}]}),
        ({"id": 99999999999999999999}, {"id": None}, {"id": 99999999999999999999}),
        ({"id": 1, "x": None, "new": None}, {"x": None}, {"new": None}),
        ({"id": 1, "_source_file": "forged"}, {"id": 1}, {"_source_file": "forged"}),
    ],
)
def test_json_fields_are_rescued_at_any_depth(landed, autoload, rows, record, kept, left):
    result = autoload(
        landed(a__json=json.dumps(record)), "json", schema=SCHEMA, schema_evolution_mode="rescue"
    )
    (row,) = rows(result)
    assert rescued(row) == left
    assert {name: row[name] for name in kept} == kept
    assert json.loads(row["_rescued_data"])["_file_path"].endswith("a.json")


def test_a_clean_record_rescues_nothing(landed, autoload, rows):
    record = {"id": 1, "x": {"y": 2}, "l": [{"q": 1}], "m": 1.5}
    (row,) = rows(
        autoload(landed(a__json=json.dumps(record)), "json", schema=SCHEMA, schema_evolution_mode="rescue")
    )
    assert row == record | {"_rescued_data": None}


def test_a_repeated_key_gives_all_its_values(landed, autoload, rows):
    (row,) = rows(autoload(landed(a__json='{"a":1,"a":2}'), "json"))
    assert row["_rescued_data"].startswith('{"a":1,"a":2,')


def test_csv_cells_are_rescued_by_their_names(landed, autoload, rows):
    folder = landed(a__csv="id,name,more\n1,Ann,x\nmany,Bo,\n")
    found = rows(autoload(folder, "csv", schema="id INT, name STRING", schema_evolution_mode="rescue"))
    assert {row["name"]: rescued(row) for row in found} == {"Ann": {"more": "x"}, "Bo": {"id": "many"}}


def test_the_column_can_be_renamed_or_left_out(landed, autoload, rows):
    folder = landed(a__json='{"id":1,"new":2}')
    (named,) = rows(autoload(folder, "json", "named", schema="id INT", rescued_data_column="_left"))
    (without,) = rows(autoload(folder, "json", "without", schema="id INT", rescued_data_column=""))
    assert (rescued({"_rescued_data": named["_left"]}), without) == ({"new": 2}, {"id": 1})


def test_under_a_declared_schema_a_mistyped_record_is_quarantined_not_emptied(landed, autoload, refused):
    result = autoload(landed(a__json='{"id":"many"}\n{"id":1e400}'), "json", schema="id DOUBLE")
    assert [text for text, _ in refused(result)] == ['{"id":"many"}', '{"id":1e400}']


def test_every_real_order_can_be_given_back_from_its_row(shared, autoload, rows):
    folder = shared("commerce") / "orders"
    known = "order_id STRING, customer_id STRING, total_amount DOUBLE"
    found = rows(autoload(folder, "json", schema=known, **RESCUE))
    orders = [json.loads(line) for file in sorted(folder.glob("*.json")) for line in file.open()]

    def counted(records):
        return Counter(tuple(sorted(record.items())) for record in records)

    back = ({k: v for k, v in row.items() if k != "_rescued_data"} | rescued(row) for row in found)
    assert counted(back) == counted(orders)
