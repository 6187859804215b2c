"""CSV text is cut into the records RFC 4180 means, whatever else stands beside them."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from medallion_assets.sources.formats.csv_header import header_names
from medallion_assets.sources.formats.csv_text import CsvText, Dialect

PLAIN = Dialect(",", '"', '"', "")
cells = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


tables = st.integers(1, 5).flatmap(lambda w: st.lists(st.lists(cells, min_size=w, max_size=w), min_size=1))


@given(tables)
def test_what_the_standard_library_writes_is_read_back(table):
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    rows = list(CsvText(text.getvalue(), PLAIN).rows())
    assert [list(row.cells) for row in rows] == table
    assert not any(row.problem for row in rows)


@given(st.text(st.sampled_from('a",\n\r '), max_size=60))
def test_no_character_is_lost_between_records(text):
    rows = list(CsvText(text, PLAIN).rows())
    kept = "".join(row.text for row in rows)
    assert sum(c not in "\r\n " for c in kept) == sum(c not in "\r\n " for c in text)


def test_another_escape_and_comments_are_read_as_declared():
    rows = CsvText('a;b\n# not a record\n"x\\"y";z\n', Dialect(";", '"', "\\", "#")).rows()
    assert [row.cells for row in rows] == [("a", "b"), ('x"y', "z")]


def test_header_names_are_trimmed_numbered_and_told_apart():
    assert header_names('a, b ,,a,"c,d",a') == ["a", "b", "_c2", "a_2", "c,d", "a_3"]
