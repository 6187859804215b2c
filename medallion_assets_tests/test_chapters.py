"""The notebooks in docs/notebooks run from end to end, and each cell shows what stands in it."""

import re

import nbformat
import pytest

from medallion_assets.settings import current_settings
from medallion_assets_tests.chapters import FOLDER, chapters, executed, shown

COUNT = re.compile(r"^\|\s*(\d+)\|$", re.MULTILINE)


@pytest.mark.spark
@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.stem)
def test_each_cell_of_a_chapter_shows_what_stands_in_it(chapter):
    now = shown(executed(chapter, str(current_settings().cache)))
    assert now == shown(nbformat.read(chapter, as_version=4))


def test_the_school_chapter_shows_the_counts_its_readers_know():
    told = shown(nbformat.read(FOLDER / "school.ipynb", as_version=4))
    counts = [int(number) for _, text in told for number in COUNT.findall(text)]
    assert counts == [18, 3000, 3000, 4000, 4000, 5000]
    assert "15 in = 15 in groups" in "".join(text for _, text in told)
    assert sum(int(n) for n in re.findall(r"\|\s+(\d+)\|\s+\d+\|$", told[-4][1], re.MULTILINE)) == 6000
