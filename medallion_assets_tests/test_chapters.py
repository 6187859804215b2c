"""The notebooks in docs/notebooks run from end to end, and each cell shows what stands in it."""

import re

import nbformat
import pytest

from medallion_assets.settings import current_settings
from medallion_assets_tests.chapters import FOLDER, chapters, executed, shown
from medallion_assets_tests.examples import seldom

COUNT = re.compile(r"^\|\s*(\d+)\|$", re.MULTILINE)
COUNTS = re.compile(r"^\|([\d |]+)\|$", re.MULTILINE)


@pytest.mark.spark
# The others with `make thorough`: a minute and more each.
@pytest.mark.parametrize(
    "chapter", [c if c.stem == "school" else seldom(c) for c in chapters()], ids=lambda chapter: chapter.stem
)
def test_each_cell_of_a_chapter_shows_what_stands_in_it(chapter):
    now = shown(executed(chapter, str(current_settings().cache)))
    assert now == shown(nbformat.read(chapter, as_version=4))


def test_the_commerce_chapter_shows_what_each_loader_a_stream_and_two_views_took():
    told = [text.strip() for _, text in shown(nbformat.read(FOLDER / "commerce.ipynb", as_version=4))]
    assert [int(number) for text in told for number in COUNT.findall(text)] == [101, 3000]
    copied = [text for text in told if "num_affected_rows" in text]
    assert [re.findall(r"\d+", text) for text in copied] == [["100", "100"], ["0", "100"], ["330", "430"]]
    kept_up = [text for text in told if text.isdigit()]
    assert kept_up == ["1250", "2000"], "before and after the three batches that came while it streamed"
    assert "(0, True, 0)" in told, "the stream was stopped, named, and ended well"
    loaders = "{'Auto Loader': (110, 980), 'COPY INTO': (110, 980), 'CTAS': (980, 980)}"
    assert told.index(loaders) == told.index(loaders.replace("110, ", "870, ").replace("980", "870")) + 1
    in_memory, printed = (
        next(text for text in told if mark in text) for mark in ("batch 0: 2,250 rows", "┃")
    )
    assert re.search(r"\|\s+2250\|\s+2249\|", in_memory)
    assert re.search(r"orders_in_30_seconds_of_processing ┃\n.*\n│ 2250 ", printed)


def test_the_health_chapter_shows_the_counts_its_readers_know():
    told = shown(nbformat.read(FOLDER / "health.ipynb", as_version=4))
    counts = [tuple(map(int, row.split("|"))) for _, text in told for row in COUNTS.findall(text)]
    of_bronze = [(2232, 2232, 1), (4320,)]
    first, third_month, year = (4320, 4312, 8), (6552, 6539, 13), (26352, 26283, 69)
    assert counts == [*of_bronze, first, third_month, (1092, 6539), year, (4392, 26283)]


def test_the_school_chapter_shows_the_counts_its_readers_know():
    told = shown(nbformat.read(FOLDER / "school.ipynb", as_version=4))
    counts = [int(number) for _, text in told for number in COUNT.findall(text)]
    assert counts == [18, 3000, 3000, 4000, 4000, 5000]
    assert "15 in = 15 in groups" in "".join(text for _, text in told)
    assert sum(int(n) for n in re.findall(r"\|\s+(\d+)\|\s+\d+\|$", told[-4][1], re.MULTILINE)) == 6000
