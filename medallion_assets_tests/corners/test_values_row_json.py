"""A row as JSON text is read back as the row it was, whatever types its columns have."""

import json
import random

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import IntegerType, MapType, StructField, StructType

from medallion_assets.sources.row_json import read_row, row_json
from medallion_assets_tests.shop import json_lines

pytestmark = pytest.mark.spark
VALUES = {
    "INT": ("-2147483648", "7"),
    "BIGINT": ("9223372036854775807L", "-1L"),
    "STRING": ("''", "'a\"b.c'", "'{}'"),
    "DATE": ("DATE'0001-01-01'", "DATE'2024-02-29'", "DATE'+12020-01-02'"),
    "TIMESTAMP": (
        "TIMESTAMP'0001-01-01 00:00:00.000001Z'",
        "TIMESTAMP'2020-11-01 01:04:05.123456-04:00'",
        "TIMESTAMP'2020-11-01 01:04:05.123456-05:00'",
    ),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2020-01-02 03:04:05.123456'",),
    "DECIMAL(38,10)": ("CAST('1234567890123456789012345678.0000000001' AS DECIMAL(38,10))",),
    "BOOLEAN": ("true", "false"),
    "DOUBLE": ("1.7976931348623157E308D", "double('NaN')", "double('-Infinity')", "0.1D"),
    "FLOAT": ("float('0.1')",),
    "BINARY": ("X''", "X'00FF'"),
}
TRIALS = 8


def value_of(chosen, depth, as_key=False):
    """Return the SQL of a value of some random type, that of a key where only that may stand."""
    shape = chosen.choice(["plain", "map", "struct", "array"] if depth else ["plain"])
    if as_key and shape == "map":
        shape = "plain"
    if shape == "plain":
        return chosen.choice(chosen.choice(list(VALUES.values())))
    if shape == "array":
        return f"array({value_of(chosen, depth - 1, as_key)})"
    if shape == "struct":
        a, b = (value_of(chosen, depth - 1, as_key) for _ in "ab")
        return f"named_struct('a', {a}, 'the b', {b})"
    keys = chosen.choice([*VALUES.values(), (value_of(chosen, depth - 1, as_key=True),)])
    one = value_of(chosen, depth - 1)
    return f"map({', '.join(f'{key}, {one}' for key in keys)})"


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_a_row_of_random_types_is_read_back_exactly(spark, zone, monkeypatch):
    chosen = random.Random(zone)
    texts = [f"map({keys[0]}, map({keys[-1]}, {keys[0]}))" for keys in VALUES.values()]
    texts += [value_of(chosen, 2) for _ in range(TRIALS)]
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        given = spark.range(1).select(*(F.expr(text).alias(f"c{at}") for at, text in enumerate(texts)))
        given = given.select("*", *(F.lit(None).cast(f.dataType).alias(f"n{f.name}") for f in given.schema))
        read = read_row(row_json({c: F.col(c) for c in given.columns}, given.schema), given.schema, "unfit")
        told = given.select(*given.columns, read.alias("read")).localCheckpoint()
        # As texts: Spark compares no maps.
        same = {c: (F.to_csv(F.struct(c)), F.to_csv(F.struct(f"read.{c}"))) for c in given.columns}
        shown = told.select(*(F.struct(*pair).alias(c) for c, pair in same.items())).first()
        types = told.select("read.*").drop("unfit").dtypes
        assert told.select("read.unfit").first()[0] is None
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert types == given.dtypes
    assert not {texts[int(c.strip("cn"))]: tuple(shown[c]) for c in given.columns if len({*shown[c]}) > 1}


@pytest.mark.parametrize(
    "text", ['{"a":1,"2":3}', '{"1":1,"01":3}', '{"12.5":1}', '{"99999999999":1}', '{"1":"x"}', '{"1":1']
)
def test_a_text_whose_keys_are_none_of_the_type_says_that_it_does_not_fit(spark, text):
    schema = StructType([StructField("m", MapType(IntegerType(), IntegerType()))])
    text = f'{{"m":{text}}}'
    (row,) = spark.range(1).select(read_row(F.lit(text), schema, "unfit").alias("r")).select("r.*").collect()
    assert (row["m"], row["unfit"]) == (None, text)


def test_declared_maps_with_numbers_as_keys_are_loaded_or_refused_with_their_text(
    landed, autoload, rows, refused
):
    records = [
        {"id": 1, "m": {"7": {"-1": "a"}}},
        {"id": 2, "m": {"x": {}}},
        {"id": 3, "m": {"7": {"01": "a"}}},
        {"id": 4, "m": {}},
        {"id": 5, "m": None},
    ]
    folder = landed(a__json=json_lines(*records))
    done = autoload(folder, "json", schema="id INT, m MAP<BIGINT, MAP<INT, STRING>>")
    assert {row["id"]: row["m"] for row in rows(done, "id", "m")} == {1: {7: {-1: "a"}}, 4: {}, 5: None}
    assert [json.loads(text) for text, _ in refused(done)] == records[1:3]
