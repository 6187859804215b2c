"""Which frames are computed twice rather than kept."""

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.session.frames import is_row_by_row

pytestmark = pytest.mark.spark


def test_only_frames_that_are_alike_whenever_computed_are_computed_twice(spark, tmp_path):
    spark.range(10).write.parquet(str(tmp_path / "numbers"))
    numbers = spark.read.parquet(str(tmp_path / "numbers"))
    plain = (
        numbers.withColumn("odd", F.expr("id % 2 = 1"))
        .where("id > 2")
        .unionByName(numbers.withColumn("odd", F.lit(False)))
    )
    assert is_row_by_row(plain)
    assert is_row_by_row(plain.withColumn("at", F.expr("TIMESTAMP '2026-01-01'")))
    others = {
        "a current time": plain.where("TIMESTAMP '2026-01-01' < current_timestamp()"),
        "a current day": plain.withColumn("day", F.current_date()),
        "a time as a word": plain.where("to_timestamp('now') > TIMESTAMP '2026-01-01'"),
        "a day as a word": plain.withColumn("day", F.lit("Today UTC").cast("timestamp")),
        "any row": plain.where("id > (SELECT first(n) FROM (VALUES 1, 2) AS t(n))"),
        "chance": plain.where(F.rand() > 0.5),
        "Python": plain.withColumn("double", F.udf(lambda n: 2 * n, "bigint")("id")),
        "a window": plain.withColumn("place", F.row_number().over(Window.orderBy("id"))),
        "a join": plain.join(numbers, "id"),
        "groups": plain.groupBy("odd").count(),
    }
    assert [name for name, frame in others.items() if is_row_by_row(frame)] == []
