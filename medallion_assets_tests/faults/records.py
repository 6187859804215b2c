"""Faults of records: poison, odd strings, fields and headers that drift (D3, D4)."""

import json
from random import Random

from medallion_assets.delta import log
from medallion_assets.sources import autoload_to_table
from medallion_assets_tests.faults.trial import fault
from medallion_assets_tests.shop import json_lines

STRINGS = 500
PIECES = [
    "'; DROP TABLE t; --", '"', "`", "\\", "../", "%00", "${id}", "$(id)", "<script>", "&amp;", "{{7*7}}",
    "\u202e", "\u200b", "\ufeff", "\u0301", "\U0001f469\u200d\U0001f4bb", "\U0010fffd", "\ufdfa", "\x7f",
    "\x01", "\u2028", "\n", "\r", "\t", "null", "NaN", "1e400", "-0", "0x1F", "=1+1", "é", "ß", "İ", "字",
    "\u0627", " ", "  ", "",
]  # fmt: skip
NAMELESS = 9
DRIFTS = {
    "the columns in order": "id,name\n1,n1\n2,n2\n",
    "reordered": "name,id\nn3,3\n",
    "of another case": "ID,Name\n4,n4\n",
    "without a header": "5,n5\n6,n6\n",
    "semicolons": "id;name\n7;n7\n",
    "bars": "id|name\n8|n8\n",
    "a column fewer": f"id\n{NAMELESS}\n",
    "a column more": "id,name,extra\n10,n10,e\n",
}


@fault("D3", "poison: 1e30, NaN, deep nesting, a long line, second objects, byte marks, NUL", "held by name")
def poison_records(trial):
    good = trial.text(broken=0)
    bad = [
        '{"id": 1e30, "total": 1}',
        '{"id": NaN}',
        "[" * 1100,
        '{"id": 1}{"id": 2}',
        '{"id": 1} x',
        '{"id":"\0"}',
        '{"id": "' + "x" * 300_000 + '"}',
        '{"id": 9999999999999999999999, "total": 1}',
        "\ufeff{",
        "null",
        "[]",
        '{"id": 5, "total": "' + "9" * 1500 + '"}',
    ]
    trial.malformed += len(bad)
    (trial.zone / "poison.json").write_text(good + "\n".join(bad) + "\n")
    (trial.zone / "utf16.json").write_bytes(trial.text(broken=0).encode("utf-16"))
    (trial.zone / "latin.json").write_bytes(trial.text(broken=0).encode() + b'{"id": 1, "x": "\xe9"}\n')
    trial.malformed += 1
    trial.go()
    return trial.holds()


@fault(
    "D3", f"{STRINGS} strings of SQL, paths, markup and signs of every kind, as names", "each to the letter"
)
def odd_strings(trial):
    random = Random(3)
    names = ["".join(random.choices(PIECES, k=random.randrange(1, 9))) for _ in range(STRINGS)]
    zone, check = trial.zone.with_name("people"), str(trial.lake.root.parent / "check")
    zone.mkdir()
    (zone / "people.json").write_text(json_lines(*({"id": i, "name": n} for i, n in enumerate(names))))
    with trial.patched():
        autoload_to_table(str(zone), "json", "shop.bronze.people", check, schema="id BIGINT, name STRING")
    path = trial.lake.root / "shop/bronze/people"
    assert log.rows(path, "SELECT id, name FROM t ORDER BY id") == [
        {"id": i, "name": name} for i, name in enumerate(names)
    ]
    return f"{STRINGS} names, each as it was sent"


@fault("D3", "a record of 25,000 fields, and one of 5 MB beside small ones", "rows, and nothing stops")
def wide_and_long(trial):
    wide = {"id": 900000, "total": 5} | {f"field{n}": n for n in range(25_000)}
    long = {"id": 900001, "total": 5, "text": "x" * (5 << 20)}
    trial.rows_sent += [wide, long]
    trial.land("shop/orders", "wide.json", json_lines(wide, long) + trial.text())
    trial.go()
    return trial.holds()


@fault("D4", f"CSV files with {', '.join(DRIFTS)}", "right columns or told; none lost")
def csv_drift(trial):
    zone, check = trial.zone.with_name("lists"), str(trial.lake.root.parent / "check")
    zone.mkdir()
    for name, text in DRIFTS.items():
        (zone / f"{name}.csv").write_text(text)
    with trial.patched():
        told = {"schema": "id BIGINT, name STRING", "rescued_data_column": "_rescued_data"}
        done = autoload_to_table(str(zone), "csv", "shop.bronze.lists", check, **told)
    lines = sum(len(text.splitlines()) - 1 for text in DRIFTS.values())
    assert done.rows_read == lines == done.rows_loaded + done.rows_quarantined, done
    path = trial.lake.root / "shop/bronze/lists"
    assert [name for name, _ in log.schema(path) if not name.startswith("_")] == ["id", "name"]
    rows = log.rows(path, "SELECT id, name, _rescued_data AS rest FROM t ORDER BY id")
    # The file without names has none to lose.
    right = [row for row in rows if row["name"] == f"n{row['id']}" or row["id"] == NAMELESS]
    assert all(row["rest"] for row in rows if row not in right), rows
    rescued = sum(1 for row in rows if row["rest"])
    return f"{len(right)} in their columns, {rescued} rescued, {done.rows_quarantined} quarantined"


@fault("D4", "fields that are new, missing, of another type or another case", "no record lost")
def drift(trial):
    made = [
        {"id": 900001, "total": 5, "new": {"deep": 1}},
        {"total": 3, "id": 900002},
        {"id": 900003, "Total": 9},
    ]
    text = "".join(json.dumps(row) + "\n" for row in made) + '{"id": "five", "total": 5}\n'
    trial.rows_sent += [{"id": 900001, "total": 5}, {"id": 900002, "total": 3}, {"id": 900003, "total": -1}]
    trial.malformed += 1
    trial.land("shop/orders", "drift.json", text)
    trial.send()
    trial.go()
    return trial.holds()
