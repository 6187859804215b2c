"""What becomes of row, column and run when files change: a truth table, and the docs' page made from it."""

import io
import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medallion_assets.sources.errors import NewColumns
from medallion_assets.sources.schema_versions import versions
from medallion_assets_tests.examples import seldom

pytestmark = pytest.mark.spark
PAGE = Path("docs/evolution.md")
MADE = Path(".pytest_cache/evolution.md")
MODES = ("addNewColumns", "addNewColumnsWithTypeWidening", "rescue", "failOnNewColumns", "none")
WIDE = 1 << 40
V32 = pa.schema([("id", pa.int64()), ("n", pa.struct([("x", pa.int64())])), ("v", pa.int32())])


def parquet(record, schema=None):
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([record], schema), out)
    return out.getvalue()


FIRST = {
    "json": '{"id":1,"n":{"x":1},"v":5}\n',
    "csv": "id,v\n1,5\n",
    "parquet": parquet({"id": 1, "n": {"x": 1}, "v": 5}, V32),
}
CHANGES = {
    "json": {
        "new column": '{"id":2,"n":{"x":2},"v":6,"extra":"e"}',
        "missing column": '{"id":2,"n":{"x":2}}',
        "retyped, wider": '{"id":2,"n":{"x":2},"v":6.5}',
        "retyped, other": '{"id":2,"n":{"x":2},"v":"six"}',
        "reordered": '{"id":2,"v":6,"n":{"x":2}}',
        "renamed case": '{"id":2,"n":{"x":2},"V":6}',
        "nested new": '{"id":2,"n":{"x":2,"y":3},"v":6}',
    },
    "csv": {
        "new column": "id,v,extra\n2,6,e\n",
        "missing column": "id\n2\n",
        "retyped, wider": "id,v\n2,6.5\n",
        "retyped, other": "id,v\n2,six\n",
        "reordered": "v,id\n6,2\n",
        "renamed case": "id,V\n2,6\n",
    },
    "parquet": {
        "new column": lambda n: parquet({"id": n, "n": {"x": 2}, "extra": "e"}),
        "missing column": lambda n: parquet({"id": n}),
        "retyped, wider": lambda n: parquet({"id": n, "v": WIDE}),
        "retyped, other": lambda n: parquet({"id": n, "v": "six"}),
        "reordered": lambda n: parquet({"n": {"x": 2}, "id": n}),
        "renamed case": lambda n: parquet({"id": n, "V": 6}),
    },
}


TOGETHER = (("new column", "missing column", "reordered", "renamed case", "nested new"),
            ("retyped, wider",), ("retyped, other",))  # fmt: skip
"""Changes that do not touch each other's columns land in one batch: a load each takes minutes."""


def records(source_format, change, number):
    """Return the changed file, its record known by its id."""
    made = CHANGES[source_format][change]
    if callable(made):
        return made(number)
    return made.replace("2", str(number), 1)


def told(row, columns, change):
    """Say in words what became of row and columns."""
    left = json.loads(row.get("_rescued_data") or "{}")
    left.pop("_file_path", None)
    grown = [f"added {name}" for name in sorted(set(row) - columns) if row[name] is not None]
    grown += ["added n.y"] if (row.get("n") or {}).get("y") is not None else []
    grown += ["widened"] if "wider" in change and row["v"] == WIDE else []
    what = "loaded" + (f", {', '.join(sorted(left))} rescued" if left else "")
    lost = change in ("new column", "nested new", "renamed case") and not left and not grown
    return what + (", the new field not kept" if lost else ""), ", ".join(grown) or "unchanged", "succeeds"


@pytest.fixture(scope="module")
def table():
    return {}


EACH = [(mode, source_format) for source_format in CHANGES for mode in MODES]
IN_CI = {(mode, "json") for mode in MODES} | {("addNewColumnsWithTypeWidening", "parquet"), ("rescue", "csv")}


@pytest.mark.parametrize(
    ("mode", "source_format"), [case if case in IN_CI else seldom(*case) for case in EACH]
)
def test_each_change_has_one_outcome_in_each_mode(mode, source_format, landed, autoload, rows, table):
    options = {"infer_column_types": True, "schema_evolution_mode": mode}
    numbers = {change: 10 + i for i, change in enumerate(CHANGES[source_format])}
    folder = landed(**{f"first__{source_format}": FIRST[source_format]})
    columns = set(rows(autoload(folder, source_format, **options))[0])
    seen = {}
    for together in TOGETHER:
        batch = [change for change in together if change in numbers]
        if mode == "failOnNewColumns" and "new column" in batch:
            stopped = ("stops, nothing written", "unchanged", "fails")
            for change in [c for c in ("new column", "nested new") if c in batch]:
                landed(**{f"new__{source_format}": records(source_format, change, 99)})
                with pytest.raises(NewColumns, match=r"extra|n\.y"):
                    autoload(folder, source_format, **options)
                (folder / f"new.{source_format}").unlink()
                seen[change] = stopped
            batch = [change for change in batch if change not in seen]
        landed(**{f"{numbers[c]}__{source_format}": records(source_format, c, numbers[c]) for c in batch})
        result = autoload(folder, source_format, **options)
        assert (result.rows_unaccounted, result.rows_quarantined) == (0, 0)
        by_id = {int(row["id"]): row for row in rows(result)}
        seen |= {change: told(by_id[numbers[change]], columns, change) for change in batch}
    table.update({(mode, source_format, change): what for change, what in seen.items()})
    assert seen["reordered"] == ("loaded", "unchanged", "succeeds")
    assert seen["missing column"] == ("loaded", "unchanged", "succeeds")
    assert (seen["new column"][1] == "added extra") == mode.startswith("addNewColumns")
    # JSON and CSV are inferred as BIGINT, and no double holds every one of those.
    widens = source_format == "parquet" and mode.endswith("Widening")
    assert (seen["retyped, wider"][1] == "widened") == widens
    if mode not in ("none", "failOnNewColumns"):
        assert "not kept" not in "".join(what for what, _, _ in seen.values())


def test_the_docs_page_is_what_the_tests_saw(table):
    lines = [f"| {f} | {c} | `{m}` | {' | '.join(table[m, f, c])} |"
             for f in CHANGES for c in CHANGES[f] for m in MODES if (m, f, c) in table]  # fmt: skip
    new = [line for line in lines if line not in PAGE.read_text().splitlines()]
    if new:
        MADE.write_text("\n".join(lines))
    assert not new, f"{PAGE} is not what was seen; the lines are in {MADE}"


NARROW = {"s": pa.int16(), "i": pa.int32(), "f": pa.float32(), "d": pa.decimal128(9, 2), "t": pa.date32()}
WIDER = {
    "s": pa.int32(),
    "i": pa.float64(),
    "f": pa.float64(),
    "d": pa.decimal128(12, 3),
    "t": pa.timestamp("us"),
}
WIDENED = {
    "s": (1 << 20, "int"),
    "i": (0.5, "double"),
    "f": (0.1, "double"),
    "d": (Decimal("123456789.125"), "decimal(12,3)"),
    "t": (datetime(2024, 1, 2, 3), "timestamp_ntz"),
}
"""By column: a value that only the wider type holds, and that type."""


def test_columns_widen_as_their_files_types_do(landed, autoload, rows, spark):
    first = {"s": 1, "i": 1, "f": 0.5, "d": Decimal("1.25"), "t": date(2024, 1, 1)}
    then = {name: value for name, (value, _) in WIDENED.items()}
    options = {"schema_evolution_mode": "addNewColumnsWithTypeWidening"}
    folder = landed(a__parquet=parquet(first, pa.schema(NARROW)))
    autoload(folder, "parquet", **options)
    landed(b__parquet=parquet(then, pa.schema(WIDER)))
    result = autoload(folder, "parquet", **options)
    kept = first | {"t": datetime(2024, 1, 1), "_rescued_data": None}
    assert sorted(rows(result), key=lambda r: r["s"]) == [kept, then | {"_rescued_data": None}]
    held = {
        f.name: f.dataType.simpleString() for f in spark.read.format("delta").load(str(result.path)).schema
    }
    assert {name: held[name] for name in WIDENED} == {name: kind for name, (_, kind) in WIDENED.items()}


def test_columns_of_types_that_a_table_has_to_be_asked_for_join_it(landed, autoload, rows):
    folder = landed(a__json='{"id":1}')
    autoload(folder, "json", schema_hints="id INT")
    landed(b__json='{"id":2,"t":["2024-01-01T01:02:03"],"v":{"x":1}}')
    result = autoload(folder, "json", schema_hints="id INT, t ARRAY<TIMESTAMP_NTZ>, v VARIANT")
    found = {row["id"]: (row["t"], row["v"] and json.loads(row["v"].toJson())) for row in rows(result)}
    assert found == {1: (None, None), 2: ([datetime(2024, 1, 1, 1, 2, 3)], {"x": 1})}


def test_each_version_of_the_schema_is_readable_and_names_what_caused_it(landed, autoload, tmp_path):
    folder = landed(a__json='{"id":"1"}')
    autoload(folder, "json")
    landed(b__json='{"id":"2","extra":"e"}')
    autoload(folder, "json")
    first, second = versions(tmp_path / "checkpoints" / "t" / "schemas")
    assert (first["version"], first["columns"]) == (0, "struct<id:string>")
    assert second["added"] == {"extra": "string"}
    assert second["brought_by"]["extra"].endswith("b.json")
    assert second["run_id"]


def test_a_hint_reaches_into_a_struct_and_may_add_a_column(landed, autoload, rows):
    folder = landed(a__json='{"a":{"zip":12}}')
    result = autoload(folder, "json", infer_column_types=True, schema_hints="a.zip STRING, later DATE")
    assert rows(result) == [{"a": {"zip": "12"}, "later": None, "_rescued_data": None}]


def test_names_delta_refuses_become_columns_by_mapping(landed, autoload, rows):
    (row,) = rows(autoload(landed(a__json='{"a b":"1","c,d":"2"}'), "json"))
    assert (row["a b"], row["c,d"]) == ("1", "2")


def test_columns_beyond_the_limit_are_rescued_not_lost(landed, autoload, rows):
    record = {f"c{i:03d}": str(i) for i in range(60)}
    (row,) = rows(autoload(landed(a__json=json.dumps(record)), "json", max_columns=50))
    left = json.loads(row.pop("_rescued_data"))
    left.pop("_file_path")
    assert len(row) == 50
    assert row | left == record
