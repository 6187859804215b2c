"""A batch that executors parse is the batch that this process parses: rows, quarantine, counts and errors."""

from datetime import datetime, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable

from medallion_assets.sources import staging
from medallion_assets.sources.errors import UnreadableFile
from medallion_assets.sources.formats.text_files import parse_batch
from medallion_assets.sources.ledger import ADMITTED, Entry
from medallion_assets.sources.options import Source

pytestmark = pytest.mark.spark
LINES = [f'{{"id":{number},"m":"{number}.50","at":"2026-01-01T00:00:00Z"}}' for number in range(2000)]
JSON = {"a": [*LINES, "broken", '{"id":"x","new":1}'], "b": LINES[:5], "c": ['{"id":7,"m":1.239}']}
CSV = {
    "a": ["id,m,at", "1,1.50,2026-01-01", "x,1.239,", "1,2", '2,"3.50",'],
    "b": ["m,id,n", '"2.50",3,"new"'],
}
SCHEMA = "id BIGINT, m DECIMAL(9,2), at TIMESTAMP"
HELD = ("row", "rules", "position", "source_file", "raw_base64")


def contents(result, rows):
    """Return a load's rows and its quarantine, each in an order of its own, and its counts."""
    held = DeltaTable(str(result.quarantine)).to_pyarrow_dataset().to_table(columns=list(HELD)).to_pylist()
    counts = (result.files, result.rows_loaded, result.rows_unaccounted, result.values_unaccounted)
    return sorted(map(repr, rows(result))), sorted(map(repr, held)), counts


@pytest.mark.parametrize(("kind", "files"), [("json", JSON), ("csv", CSV)])
def test_rows_quarantine_and_counts_are_those_of_the_driver(landed, autoload, rows, monkeypatch, kind, files):
    folder = landed(**{f"{name}__{kind}": "\n".join(lines) + "\n" for name, lines in files.items()})
    options = {"schema": SCHEMA, "schema_evolution_mode": "rescue"}
    by_driver = contents(autoload(folder, kind, "driver", **options), rows)
    made = []
    monkeypatch.setenv("MEDALLION_PARSE_ON_EXECUTORS_BYTES", "0")
    monkeypatch.setattr(staging, "parse_batch", lambda *given: made.append(parse_batch(*given)) or made[-1])
    assert contents(autoload(folder, kind, "executors", **options), rows) == by_driver
    assert all(Path(part).parent.name.startswith("0-") for parts in made for part in parts.rows)
    assert made


def test_a_file_that_executors_cannot_read_is_named(spark, landed, tmp_path, monkeypatch):
    folder = landed(a__json="{}\n")
    when = datetime(2026, 1, 1, tzinfo=timezone.utc)
    file = Entry("gone.json", 3, when, "", 1, "lines", "", ADMITTED, "", when, root=str(folder))
    monkeypatch.setenv("MEDALLION_PARSE_ON_EXECUTORS_BYTES", "0")
    schema = spark.range(0).schema
    with pytest.raises(UnreadableFile, match=r"gone\.json cannot be read: .*No such file"):
        parse_batch(spark, [file], schema, Source("s", "json", str(folder)), tmp_path / "parts")
