"""The columns and types of JSON are those that Spark infers from it."""

import pytest
from pyspark.sql.types import StructType

from medallion_assets.session.frames import frame_of
from medallion_assets.sources.discovery import DiscoveryOptions, entries_of
from medallion_assets.sources.formats import json_inference
from medallion_assets.sources.formats.json_inference import counted_keys, inferred
from medallion_assets.sources.formats.json_rows import object_of
from medallion_assets.sources.options import Source

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
def landed_types(tmp_path):
    """Return a function that gives the columns inferred from files of lines."""

    def types(files, **options):
        source = Source("t", "json", str(tmp_path), infer_column_types=True, **options)
        return inferred(files, source)

    return types


@pytest.mark.parametrize("lines", TOLD)
def test_a_block_of_sound_lines_says_its_types_by_itself(entries, landed_types, lines, monkeypatch):
    files = entries(lines)
    by_arrow = landed_types(files)
    monkeypatch.setattr(json_inference, "_by_arrow", lambda *_: False)
    assert by_arrow == landed_types(files)


@pytest.mark.spark
def test_what_is_inferred_is_what_spark_infers(entries, landed_types, spark):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        rounded = (['{"a":[1.5,1e400]}'], ['{"a":{"b":9007199254740993.5}}'])
        for lines in [*TOLD, *LEFT]:
            if lines in rounded:
                # Text here, and a double that is another number to Spark.
                continue
            (file,) = entries(lines)
            text = frame_of(spark, [(line,) for line in lines if is_sound(line)] or [("{}",)], "value STRING")
            assert landed_types([file]) == one_of_a_name(spark.read.json(text).schema), lines
            file.location.unlink()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def one_of_a_name(schema):
    """Return Spark's columns without those of a repeated name, which no table can have."""
    return StructType(list({field.name: field for field in reversed(schema.fields)}.values())[::-1])


def is_sound(line):
    return not isinstance(object_of(line), str)


def test_a_fraction_that_a_double_would_round_is_text(entries, landed_types):
    found = landed_types(
        entries(['{"a":0.12345678901234567891,"b":1e-400,"c":0.1}', '{"a":1.5,"b":1,"c":2}'])
    )
    assert found.simpleString() == "struct<a:string,b:string,c:double>"


def test_of_names_that_differ_in_case_the_more_frequent_is_the_first_whatever_the_file(entries):
    files = entries(['{"Id":1}', '{"Id":2}', '{"Id":3}'], ['{"id":1}', '{"x":0}'])
    assert counted_keys(files, Source("t", "json")) == ["Id", "id", "x"]
    assert inferred(files, Source("t", "json", infer_column_types=True)).names == ["Id", "id", "x"]
    (*_, files) = ([entry] for entry in entries(['{"id":1}', '{"id":2}', '{"id":3, "ID":4}']))
    assert inferred(files, Source("t", "json", infer_column_types=True)).names == ["id", "ID"]


def test_records_nested_deeper_than_the_fast_parser_goes_do_not_end_the_process(entries, landed_types):
    found = landed_types(entries(['{"a":' + "[" * 20_000 + "]" * 20_000 + ',"b":1}']))
    assert (found["b"].dataType.simpleString(), found["a"].dataType.simpleString()[:12]) == (
        "bigint",
        "array<array<",
    )
