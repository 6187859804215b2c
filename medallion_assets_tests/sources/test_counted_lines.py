"""Records are counted by blocks as they would be line by line, whatever a block's end cuts."""

import io
import re

from hypothesis import given
from hypothesis import strategies as st

from medallion_assets.sources import counted_lines
from medallion_assets.sources.counted_lines import counted_records, lines_in, records_on
from medallion_assets_tests.examples import examples

PIECES = [b"a", b"bc", b" ", b"\t", b"\r", b"\n", b"\r\n", b"\n\n", b"\x0b"]


def lines_of(data):
    found = re.split(rb"\r\n|\r|\n", data)
    return found if found[-1] else found[:-1]


@examples(40)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join), st.integers(1, 9))
def test_a_file_holds_as_many_records_as_lines_that_are_not_blank(data, block):
    wanted = sum(1 for line in lines_of(data) if line.strip(b" \t"))
    assert counted_by(block, data, records_on) == wanted


@examples(40)
@given(st.lists(st.sampled_from([b"a", b" ", b"\n", b"\r\n", b"\r"]), max_size=30).map(b"".join))
def test_a_text_holds_as_many_records_as_lines(data):
    assert counted_by(4, data, lines_in) == len(lines_of(data))


def counted_by(size, data, records_in):
    before, counted_lines.BLOCK_BYTES = counted_lines.BLOCK_BYTES, size
    try:
        return counted_records(io.BytesIO(data), records_in)
    finally:
        counted_lines.BLOCK_BYTES = before
