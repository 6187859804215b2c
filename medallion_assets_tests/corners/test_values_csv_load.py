"""Odd CSV files through one load each: every value is in its column, rescued, or in quarantine."""

import base64
import json

import pytest

from medallion_assets.delta import log
from medallion_assets.sources import autoload_to_table

pytestmark = pytest.mark.spark


@pytest.fixture
def loaded(tmp_path, lake, spark):
    """Return a function that loads CSV files, and gives the result, the rows and the quarantine's entries."""

    def load(files, table, **options):
        folder = tmp_path / table
        folder.mkdir(exist_ok=True)
        for name, contents in files.items():
            (folder / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        target, checkpoint = f"web.bronze.{table}", tmp_path / "checkpoints" / table
        result = autoload_to_table(folder, "csv", target, checkpoint, spark=spark, **options)
        rows = [row.asDict() for row in spark.read.format("delta").load(str(result.path)).collect()]
        query = "SELECT row, rules, position, source_file, raw_base64 FROM t ORDER BY source_file, position"
        held = log.rows(result.quarantine, query) if result.quarantine.exists() else []
        assert (result.rows_unaccounted, result.values_unaccounted) == (0, {})
        return rows, held

    return load


def of_file(rows, name):
    return [row for row in rows if row["_source_file"].endswith(name)]


def rescued(row):
    found = json.loads(row["_rescued_data"] or "{}")
    found.pop("_file_path", None)
    return found


def test_odd_headers_and_cells_lose_no_value(loaded):
    rows, held = loaded(
        {
            "break.csv": 'id,"first\nname",last\n1,Ann,Lee\n',
            "long.csv": 'id,"' + "n" * 60_000 + '"\n2,"x"\n',
            "tab.csv": "a\tb\n3\t4\n",
            "mixed.csv": "\ufeff id , id,, LAST,last\n5,6,7,8,9\n",
            "huge.csv": 'id,last\n10,"' + "x" * 20_000_001 + '"\n',
        },
        "odd",
    )
    (broken,), (long,), (tab,) = (of_file(rows, f"{n}.csv") for n in ("break", "long", "tab"))
    assert (broken["id"], broken["last"], rescued(broken)) == ("1", "Lee", {"first\nname": "Ann"})
    assert (long["id"], rescued(long)) == ("2", {"n" * 60_000: "x"})
    assert rescued(tab) == {"a\tb": "3\t4"}
    (mixed,), (huge,) = of_file(rows, "mixed.csv"), of_file(rows, "huge.csv")
    assert [mixed[name] for name in ("id", "id_2", "_c2", "last")] == ["5", "6", "7", "9"]
    assert rescued(mixed) == {"LAST": "8"}
    assert len(huge["last"]) == 20_000_001
    assert held == []


@pytest.mark.parametrize("rescues", [True, False])
def test_a_header_over_two_lines_gives_a_declared_schema_its_columns(loaded, rescues):
    files = {
        "a.csv": 'id,"first\nname",last\n1,Ann,Lee\n2,"Bo\nb",\nx,Cy,Roe\n',
        "b.csv": '"first\r\nname","last",id\r\nDi,Fox,4\r\n',
    }
    options = {"schema_evolution_mode": "rescue"} if rescues else {"rescued_data_column": ""}
    rows, held = loaded(files, "header", schema="id INT, last STRING", **options)
    found = {row["id"] or "x": (row["last"], rescued(row) if rescues else None) for row in rows}
    name = "first\nname"
    left = {1: {name: "Ann"}, 2: {name: "Bo\nb"}, 4: {"first\r\nname": "Di"}, "x": {"id": "x", name: "Cy"}}
    last = {1: "Lee", 2: None, 4: "Fox", "x": "Roe"}
    taken = left if rescues else [1, 2, 4]
    assert found == {key: (last[key], left[key] if rescues else None) for key in taken}
    # Header and second record have two lines each.
    assert [(e["row"], e["position"]) for e in held] == ([] if rescues else [("x,Cy,Roe", "line 6")])


def test_each_malformed_record_has_its_line_and_its_bytes(loaded):
    rows, held = loaded(
        {
            "a.csv": b'id,name\n1,"two\nlines"\n2,caf\xe9\n3\n4,"open\nmany,x\n5,good\n',
            "b.csv": "id,name\n1,x\n".encode("utf-16")[:-1],
            "c.csv": '"id,name\n6,x\n',
            "d.csv": "ID,name\n7,x\n",
        },
        "places",
        schema="id INT, name STRING",
        rescued_data_column="",
    )
    assert sorted(row["id"] for row in rows) == [1, 5]
    found = [(e["source_file"][-5:], e["position"], e["rules"][0].split(":")[0]) for e in held]
    malformed, header = "malformed CSV", "the file's header cannot be read"
    assert found == [
        ("a.csv", "line 4", "not text in the file's encoding"), ("a.csv", "line 5", malformed),
        ("a.csv", "line 6", malformed), ("a.csv", "line 7", "does not fit the schema"),
        ("b.csv", "line 2", "not text in the file's encoding"),
        ("c.csv", "line 1", malformed), ("c.csv", "line 2", header),
        ("d.csv", "line 2",
         "the header differs from the schema in case only, and there is no rescued data column"),
    ]  # fmt: skip
    kept = {e["source_file"][-5:]: base64.b64decode(e["raw_base64"]) for e in held if e["raw_base64"]}
    assert kept == {"a.csv": b"2,caf\xe9", "b.csv": "1,x\n".encode("utf-16-le")[:-1]}


def test_no_cast_of_a_cell_rounds(loaded):
    columns = "d DECIMAL(9,2), n INT, f DOUBLE, r FLOAT, w DATE, t TIMESTAMP, b BOOLEAN, j ARRAY<INT>"
    names = ["d", "n", "f", "r", "w", "t", "b", "j"]
    good = ["1.20", "7", "0.5", "0.1", "2020-02-29", "2020-01-01 10:00:00", "true", "[1,2]"]
    bad = ["1.239", "7.0", "0.12345678901234567891", "1e39", "2020-02-30", "2020-01-01T10:00:00.123456789Z",
           "maybe", "[1,2.5]"]  # fmt: skip
    lines = [",".join(f'"{cell}"' for cell in cells) for cells in (names, good, bad)]
    case = "ID,d\n1,2\n"
    rows, held = loaded(
        {"a.csv": "\n".join(lines), "b.csv": case}, "exact", schema=columns, schema_evolution_mode="rescue"
    )
    assert held == []
    first, second = sorted(of_file(rows, "a.csv"), key=lambda row: row["n"] is None)
    assert (str(first["d"]), first["n"], first["f"], str(first["w"])) == ("1.20", 7, 0.5, "2020-02-29")
    assert (first["b"], first["j"], first["_rescued_data"]) == (True, [1, 2], None)
    assert rescued(second) == dict(zip(names, bad, strict=True))
    assert [second[name] for name in names] == [None] * len(names)
    assert [rescued(row) for row in of_file(rows, "b.csv")] == [{"ID": "1"}]


def test_an_inferred_column_takes_no_later_text_it_could_not_give_back(loaded):
    rows, _ = loaded(
        {"a.csv": "zip,n,t,price\n12345,1,08:30,1.10\n54321,2,F,2.50\n"}, "inferred", infer_column_types=True
    )
    assert [(row["zip"], row["n"], row["t"], str(row["price"])) for row in rows] == [
        (12345, 1, "08:30", "1.10"), (54321, 2, "F", "2.50")
    ]  # fmt: skip
    later = "zip,n,t,price\n01234,1e3,yes,2.505\n,007,,10\n"
    rows, _ = loaded({"b.csv": later}, "inferred", infer_column_types=True)
    first, second = of_file(rows, "b.csv")
    assert (first["zip"], first["n"], first["t"], first["price"]) == (None, None, "yes", None)
    assert rescued(first) == {"zip": "01234", "n": "1e3", "price": "2.505"}
    assert (second["n"], str(second["price"]), rescued(second)) == (None, "10.00", {"n": "007"})


def test_a_file_without_a_byte_brings_no_column(loaded):
    for files in ({"a.csv": "id,b\n1,2\n", "b.csv": ""}, {"a.csv": ""}):
        rows, held = loaded(files, "blank", allow_overwrites="replace")
        assert (held, [name for row in rows for name in row if name.startswith("_c")]) == ([], [])
    assert rows == []


def test_a_later_text_that_denotes_a_value_and_is_not_given_back_is_in_one_place(loaded):
    first = "i,d,m,t\n1,0.5,1.10,2026-01-01T00:00:00Z\n"
    later = "i,d,m,t\n007,01.5,01.25,2026-01-01T00:00:00+02:00\n-0,007,01.10,2026-01-01\n"
    loaded({"a.csv": first}, "spelled", infer_column_types=True)
    rows, _ = loaded({"b.csv": later}, "spelled", infer_column_types=True)
    names, *cells = (line.split(",") for line in later.splitlines())
    there = of_file(rows, "b.csv")
    assert [[row[name] for name in names] for row in there] == [[None] * 4] * 2
    assert sorted(rescued(row)["i"] for row in there) == ["-0", "007"]
    assert [rescued(row) for row in there] == [dict(zip(names, row, strict=True)) for row in cells]


def test_a_hint_of_a_decimal_rounds_no_cell(loaded):
    hinted = {"schema_hints": "d DECIMAL(9,2)", "infer_column_types": True}
    rows, _ = loaded({"a.csv": "id,d\n1,1.239\n2,1e-9\n3,1.2\n4,12e-1\n"}, "hinted", **hinted)
    found = {row["id"]: (row["d"] and str(row["d"]), rescued(row)) for row in rows}
    assert found == {
        1: (None, {"d": "1.239"}), 2: (None, {"d": "1e-9"}), 3: ("1.20", {}), 4: ("1.20", {}),
    }  # fmt: skip
