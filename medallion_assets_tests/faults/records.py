"""Faults of records: poison, odd strings, fields and headers that drift (D3, D4)."""

import json

from medallion_assets_tests.faults.trial import fault


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
    ]
    trial.malformed += len(bad)
    (trial.zone / "poison.json").write_text(good + "\n".join(bad) + "\n")
    (trial.zone / "utf16.json").write_bytes(trial.text(broken=0).encode("utf-16"))
    (trial.zone / "latin.json").write_bytes(trial.text(broken=0).encode() + b'{"id": 1, "x": "\xe9"}\n')
    trial.malformed += 1
    trial.go()
    return trial.holds()


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
