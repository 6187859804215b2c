"""A small file that unpacks to a large one: refused with a reason, or read whole, and never cut off."""

import gzip
import json

import pytest

from medallion_assets.sources import Source, discover
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.counted_lines import LONGEST_LINE
from medallion_assets.sources.formats import json_documents as documents

ONE_LINE = bytes(LONGEST_LINE + (2 << 20))


@pytest.mark.parametrize("kind", ["json", "csv", "text"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_gzip_that_is_one_line_no_reader_can_hold_is_refused_and_its_neighbour_is_not(
    tmp_path, kind, encoding
):
    source = Source("s", kind, reader_options={"encoding": encoding})
    (tmp_path / f"bomb.{kind}.gz").write_bytes(gzip.compress(ONE_LINE, 1))
    (tmp_path / f"sound.{kind}").write_text('a\n"1"\n')
    assert discover(tmp_path, tmp_path / "ledger", source).admitted == 1
    (row,) = ledgers.rows(tmp_path / "ledger", "SELECT * FROM ledger WHERE status = 'refused'")
    assert "128 MiB and more" in row["reason"]


def test_a_quoted_cell_over_many_lines_is_as_long_as_its_record(tmp_path):
    lines = b"x" * 1023 + b"\n"
    text = b'a,b\n1,"' + lines * (LONGEST_LINE // len(lines) + 1) + b'"\n'
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(text, 1))
    assert discover(tmp_path, tmp_path / "ledger", Source("s", "csv")).refused == 1


def test_documents_that_unpack_to_more_than_is_cut_up_in_memory_are_counted_line_by_line(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(documents, "PROBE_CHARACTERS", 64)
    monkeypatch.setattr(documents, "MAX_DOCUMENT_BYTES", 4096)
    values = [{"number": n} for n in range(1000)]
    text = json.dumps(values, indent=1)
    (tmp_path / "many.json.gz").write_bytes(gzip.compress(text.encode()))
    assert (tmp_path / "many.json.gz").stat().st_size < 4096
    found = discover(tmp_path, tmp_path / "ledger", Source("s", "json"))
    assert found.records == len(text.splitlines())
