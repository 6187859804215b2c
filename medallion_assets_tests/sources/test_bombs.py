"""A small file that unpacks to a large one: refused with a reason, or read whole, and never cut off."""

import gzip
import json
import sys

import pytest

from medallion_assets.sources import Source, discover
from medallion_assets.sources import ledger as ledgers
from medallion_assets.sources.counted_lines import LONGEST_LINE
from medallion_assets.sources.formats import json_scan


@pytest.fixture
def longest(monkeypatch):
    """The longest line any reader takes, made a hundredth of what it is."""
    few = LONGEST_LINE // 128
    for name, module in list(sys.modules.items()):
        if name.startswith("medallion_assets.") and hasattr(module, "LONGEST_LINE"):
            monkeypatch.setattr(module, "LONGEST_LINE", few)
    return few


def assert_the_bomb_alone_is_refused(folder, source, size):
    (folder / f"bomb.{source.format}.gz").write_bytes(gzip.compress(bytes(size + (2 << 20)), 1))
    (folder / f"sound.{source.format}").write_text('a\n"1"\n')
    assert discover(folder, folder / "ledger", source).admitted == 1
    (row,) = ledgers.rows(folder / "ledger", "SELECT * FROM ledger WHERE status = 'refused'")
    assert f"{size >> 20} MiB and more" in row["reason"]


@pytest.mark.parametrize("kind", ["json", "csv", "text"])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_gzip_that_is_one_line_no_reader_can_hold_is_refused_and_its_neighbour_is_not(
    tmp_path, kind, encoding, longest
):
    source = Source("s", kind, reader_options={"encoding": encoding})
    assert_the_bomb_alone_is_refused(tmp_path, source, longest)


def test_the_longest_line_a_reader_takes_is_shorter_than_128_mebibytes(tmp_path):
    assert_the_bomb_alone_is_refused(tmp_path, Source("s", "json"), 128 << 20)


def test_a_quoted_cell_over_many_lines_is_as_long_as_its_record(tmp_path, longest):
    lines = b"x" * 1023 + b"\n"
    text = b'a,b\n1,"' + lines * (longest // len(lines) + 1) + b'"\n'
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(text, 1))
    assert discover(tmp_path, tmp_path / "ledger", Source("s", "csv")).refused == 1


def test_documents_that_unpack_to_much_are_cut_up_in_windows(tmp_path, monkeypatch):
    monkeypatch.setattr(json_scan, "WINDOW", 64)
    values = [{"number": n} for n in range(1000)]
    (tmp_path / "many.json.gz").write_bytes(gzip.compress(json.dumps(values, indent=1).encode()))
    assert discover(tmp_path, tmp_path / "ledger", Source("s", "json")).records == len(values)


def test_a_value_that_no_reader_can_hold_refuses_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(json_scan, "WINDOW", 64)
    monkeypatch.setattr(json_scan, "LONGEST_LINE", 4096)
    (tmp_path / "long.json").write_text('[{"a":\n"' + "x" * 9000 + '"}]')
    assert discover(tmp_path, tmp_path / "ledger", Source("s", "json")).refused == 1
