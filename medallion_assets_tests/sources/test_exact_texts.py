"""A column of strings holds what stood in the file, whatever the file is wrapped in and lies beside."""

import gzip

import pytest

from medallion_assets_tests.sources.conftest import rescued

pytestmark = pytest.mark.spark
WRITTEN = ["1.10", "1e5", "-0", "0.1000000000000000055511151231257827", "1e400", "12345678901234567890",
           "true", '{"k" : [1.50, "é"]}', "[ ]"]  # fmt: skip
LINES = [f'{{"id": {number}, "t": {text}}}' for number, text in enumerate(WRITTEN)]
ODD = ['{"id": 20, "t": 2.50, "new": 1}', '{"id": "x", "t": 3.50}', '{"id": 21, "t": "as it is"}']
WRAPPED = {
    "lines.json": "\n".join(LINES).encode(),
    "odd.json": "\n".join([*LINES, *ODD, "broken"]).encode(),
    "packed.json.gz": gzip.compress("\n".join([*LINES, *ODD]).encode()),
    "array.json": f"[{', '.join(LINES)}]".encode(),
    "other.json": "\n".join(LINES).encode("utf-16"),
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("kind", ["INT", "DECIMAL(9, 0)"])
def test_a_number_is_written_as_it_stood(landed, autoload, rows, name, kind):
    folder = landed()
    folder.mkdir(parents=True)
    (folder / name).write_bytes(WRAPPED[name])
    result = autoload(folder, "json", schema=f"id {kind}, t STRING", schema_evolution_mode="rescue")
    found = {row["id"]: row for row in rows(result)}
    assert [found[number]["t"] for number in range(len(WRITTEN))] == WRITTEN
    if "odd" in name or "packed" in name:
        assert (found[20]["t"], rescued(found[20])) == ("2.50", {"new": 1})
        assert (found[None]["t"], rescued(found[None])) == ("3.50", {"id": "x"})
        assert found[21]["t"] == "as it is"
    assert result.rows_unaccounted == 0


def test_without_a_schema_every_column_is_what_was_written(landed, autoload, rows):
    folder = landed(a__json="\n".join(LINES))
    assert [row["t"] for row in sorted(rows(autoload(folder, "json")), key=lambda r: r["id"])] == WRITTEN
    landed(b__json='{"id":"x","t":1.0,"new":0.10}\nbroken\n')
    found = {row["id"]: row for row in rows(autoload(folder, "json"))}
    assert (found["x"]["t"], found["x"]["new"], len(found)) == ("1.0", "0.10", len(LINES) + 1)
