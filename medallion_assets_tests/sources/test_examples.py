"""What one line tells of a file is what Spark infers from all its lines; other files are read whole."""

import json

import pytest
from medallion_assets.sources.formats.json_examples import examples

from medallion_assets.sources.discovery import DiscoveryOptions, entries_of
from medallion_assets.sources.formats import objects
from medallion_assets.sources.inference import seen_schema
from medallion_assets.sources.options import Source
from medallion_assets.sources.staging import Staging

TOLD = [
    ['{"a":1}', '{"a":2.5}'], ['{"a":1,"b":null}', '{"b":null}'], ['{"a":[1,null]}', '{"a":[]}'],
    ['{"a":[]}'], ['{"a":[null]}'], ['{"a":[[1],[2.5]]}'],
    ['{"a":{"x":1}}', '{"a":{"y":[{"z":true}]}}', '{"a":null}'],
    ['{"a":{}}', '{"b":1}'], ["{}"], ['{"t":"2026-01-01T00:00:00Z","d":"2026-01-01","h":"10:00:00"}'],
    ['{"t":"2026-01-01 00:00:00"}', '{"t":"x"}'], ['{"z":1,"y":2,"é":3,"\U0001f600":4}'],
    ['{"a b":1,"c.d":{"e`f":"g"}}'], ['{"a":9223372036854775807,"b":-9223372036854775808}'],
    ['{"s":{"x":1,"X":2.5}}'], ['{"a":[{"x":1},{"y":"b"},null]}'], ['{"a":1e3}', '{"a":0.1}'],
]  # fmt: skip
LEFT = [
    ['{"a":1}', '{"a":"x"}'], ['{"a":12345678901234567890}'], ['{"a":[1.5,1e400]}'], ['{"a":1}', "broken"],
    ['{"a":1,"a":2}'], ['{"a":{"b":9007199254740993.5}}'], ['{"a":1}{"b":2}'], ["[1]"],
    ['{"a":{"b":1}}', '{"a":3}'], ['{"a":"\\ud800"}'], [""],
]  # fmt: skip


@pytest.fixture
def entries(tmp_path):
    """Return a function that lands lines as a file, and gives what discovery says of each landed."""
    landing = tmp_path / "landing"
    landing.mkdir()

    def land(*files):
        for number, lines in enumerate(files):
            (landing / f"{number}.json").write_text("\n".join(lines) + "\n", "utf-8", "surrogatepass")
        return entries_of(landing, tmp_path / "ledger", Source("t", "json", str(landing)), DiscoveryOptions())

    return land


@pytest.fixture
def seen(spark, tmp_path):
    """Return a function that gives the schema of files."""

    def schema(files, **options):
        source = Source("t", "json", str(tmp_path), **options)
        return seen_schema(spark, source, files, Staging(tmp_path / "staging", source))

    return schema


@pytest.mark.parametrize("lines", TOLD)
def test_a_file_of_sound_lines_is_told_by_one(entries, lines):
    told, others = examples(entries(lines))
    assert len(told) == 1
    assert not others
    assert set(json.loads(told[0])) == {key for line in lines for key in json.loads(line)}


@pytest.mark.parametrize("lines", LEFT)
def test_a_file_that_spark_might_read_otherwise_is_left_to_it(entries, lines):
    files = entries(lines)
    assert examples(files) == ([], files)


@pytest.mark.spark
@pytest.mark.parametrize("options", [{}, {"infer_column_types": True}])
def test_what_is_told_is_what_spark_infers_from_all_lines(entries, seen, options, monkeypatch):
    files = [[file] for file in entries(*TOLD)] + [entries(*TOLD[:6], *LEFT[:5], *TOLD[12:])]
    told = [seen(chosen, **options) for chosen in files]
    monkeypatch.setattr(objects, "examples", lambda files: ([], files))
    assert told == [seen(chosen, **options) for chosen in files]


@pytest.mark.spark
def test_of_names_that_differ_in_case_the_more_frequent_is_the_first_whatever_the_file(entries, seen):
    files = entries(['{"Id":1}', '{"Id":2}', '{"Id":3}'], ['{"id":1}', '{"x":0}'])
    assert seen(files).names == ["Id", "id", "x"]
