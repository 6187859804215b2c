"""Queries over streams that cannot do what they say, told with file and line as they are declared."""

import re
import warnings

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import Layout, Pipeline, static, stream
from medallion_assets.declare.errors import DeclarationError, QueryWarning, RefreshFailed
from medallion_assets.orchestration.assets import _spec
from medallion_assets.orchestration.metadata import refreshed
from medallion_assets.pipelines import PIPELINES
from medallion_assets.runs.run import refresh
from medallion_assets.runtime.query_checks import query_warnings

CLICKS = "id STRING, who STRING, at TIMESTAMP, price STRING, n BIGINT"
WATERMARK = {"event_time": "at", "watermark": "1 minute"}
MODES = {
    "append": {},
    "update": {"unique_by": "who", "row_count_column": "n"},
    "complete": {"row_count_column": "n"},
    "incremental": {"row_count_column": "n"},
}


def landed():
    """Return a pipeline and its bronze table."""
    shop = Pipeline("shop")
    files = shop.landing("raw", format="json")

    @shop.bronze()
    def raw(files: DataFrame = files) -> DataFrame:
        return files

    return shop, raw


def declared(sql, mode="append", watermark=False, schema=""):
    """Return a table whose query is this SQL over ``clicks``, a stream, and ``people``."""
    shop, raw = landed()

    @shop.silver(layout=Layout(schema=schema) if schema else None)
    def events(raw: DataFrame = stream(raw)) -> DataFrame:
        return raw

    @shop.silver()
    def known(raw: DataFrame = stream(raw)) -> DataFrame:
        return raw

    def answer(
        clicks: DataFrame = stream(events, **(WATERMARK if watermark else {})),
        people: DataFrame = static(known),
    ) -> str:
        return sql

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", QueryWarning)
        asked = {"row_count_column": "n"} if watermark else {}
        table = shop.silver(output_mode=mode, **MODES[mode] | asked)(answer)
    assert [str(w.message) for w in told] == [f"shop/silver/answer: {w}" for w in table.query_warnings]
    assert {(w.filename, w.lineno > 0) for w in told} <= {(__file__, True)}
    return table


WINDOWS = [
    "SELECT window(at, '30 seconds') AS w, count(*) AS n FROM clicks GROUP BY window(at, '30 seconds')",
    "SELECT window, who, count(*) AS n FROM clicks GROUP BY window(at, '1 day', '1 hour'), who",
    "SELECT window(at, '1 day') AS w, count(*) AS n FROM clicks GROUP BY w",
    "SELECT window(at, '1 day'), who, count(*) AS n FROM clicks GROUP BY 1, 2",
    "SELECT window(at, '1 day') AS w, count(*) AS n FROM clicks GROUP BY ALL",
    "SELECT count(*) n FROM clicks GROUP BY who, session_window(at, '5 minutes')",
    "WITH c AS (SELECT *, window(at, '1 day') AS w FROM clicks) SELECT w.start, count(*) n FROM c GROUP BY w",
    "SELECT w.start, count(*) AS n FROM (SELECT window(at, '1 day') AS w FROM clicks) GROUP BY w.start",
    "SELECT count(*) AS n FROM clicks JOIN people USING (who) GROUP BY WINDOW(at, '1 day')",
    "SELECT 1 AS n FROM people JOIN clicks USING (who) GROUP BY window(clicks.at, '1 day')",
]


@pytest.mark.parametrize("mode", ["append", "update"])
@pytest.mark.parametrize("sql", WINDOWS)
def test_a_window_over_a_stream_needs_a_watermark_where_windows_have_to_close(sql, mode):
    with pytest.raises(
        DeclarationError, match=r"test_query_checks\.py:\d+: shop/silver/answer: .*by a window"
    ):
        declared(sql, mode)
    assert declared(sql, mode, watermark=True).query_warnings == ()
    assert declared(sql, "complete").query_warnings == ()
    assert declared(sql, "incremental")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT who, count(*) AS n FROM clicks GROUP BY who",
        "SELECT to_date(at) AS day, count(*) AS n FROM clicks GROUP BY to_date(at)",
        "SELECT count(*) FILTER (WHERE n > 1) AS n FROM clicks",
        "SELECT * FROM (SELECT who, max(at) AS last FROM clicks GROUP BY who)",
    ],
)
def test_groups_of_a_stream_are_refused_where_each_micro_batch_would_write_its_own(sql):
    with pytest.raises(DeclarationError, match="in append mode and has no watermark"):
        declared(sql)
    assert declared(sql, "update")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM clicks ORDER BY at DESC, id",
        "SELECT * FROM (SELECT * FROM clicks ORDER BY at LIMIT 5)",
        "SELECT * FROM people JOIN clicks USING (who) ORDER BY at",
        "SELECT * FROM clicks UNION ALL SELECT * FROM clicks ORDER BY at",
        "WITH c AS (SELECT * FROM clicks), d AS (SELECT * FROM c) SELECT * FROM d ORDER BY at",
    ],
)
def test_a_stream_cannot_be_sorted(sql):
    with pytest.raises(DeclarationError, match=r"sorts the stream clicks \(ORDER BY .*Leave ORDER BY out"):
        declared(sql)
    assert declared(sql, "complete")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM clicks",
        "SELECT * FROM clicks JOIN (SELECT who, lag(at) OVER (ORDER BY at) AS b FROM people) USING (who)",
        "SELECT clicks.* FROM clicks JOIN (SELECT * FROM people ORDER BY at LIMIT 1) p USING (who)",
        "SELECT clicks.* FROM clicks JOIN (SELECT who, max(at) AS at FROM people GROUP BY who) p USING (who)",
        "SELECT *, (SELECT max(at) FROM people) AS newest FROM clicks",
        "SELECT *, array_sort(array(1, 2)) AS a, window(at, '1 day') AS day FROM clicks",
        "SELECT try_cast(price AS INT) AS p, cast(id AS STRING) AS i, DATE '2020-01-01' AS d FROM clicks",
        "SELECT this is no SQL that anyone reads",
    ],
)
def test_no_false_alarm(sql):
    assert declared(sql).query_warnings == ()


@pytest.mark.parametrize(
    "cast", ["CAST(price AS INT)", "price::INT", "int(price)", "CAST(trim(price) AS INT)"]
)
def test_a_strict_cast_is_told_with_what_becomes_of_the_record(cast):
    (told,) = declared(f"SELECT {cast} AS p FROM clicks").query_warnings
    assert all(words in told for words in ("CAST(", "AS INT)", "quarantine as query_failed", "TRY_CAST("))


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT *, row_number() OVER (PARTITION BY who ORDER BY at) AS nth FROM clicks", "row_number"),
        ("SELECT *, max(n) OVER w AS n FROM clicks WINDOW w AS (PARTITION BY who ORDER BY at)", "max"),
        ("SELECT * FROM (SELECT lag(n) IGNORE NULLS OVER (ORDER BY at) AS b FROM clicks)", "lag"),
    ],
)
def test_a_function_over_rows_of_a_stream_is_told_to_see_one_micro_batch(sql, name):
    (told,) = declared(sql).query_warnings
    assert told.startswith(f"{name}() OVER (...) in its query sees the rows of one micro-batch")


def test_a_cast_that_cannot_fail_by_the_types_upstream_declares_is_not_told():
    sql = "SELECT CAST(n AS DOUBLE) AS a, CAST(at AS DATE) AS b, CAST(n AS BIGINT) AS c, {} AS d FROM clicks"
    assert declared(sql.format("CAST(n AS DECIMAL(38, 0))"), schema=CLICKS).query_warnings == ()
    assert len(declared(sql.format("CAST(price AS DATE)"), schema=CLICKS).query_warnings) == 1
    assert len(declared(sql.format("CAST(n AS INT)"), schema=CLICKS).query_warnings) == 1


def test_a_query_that_returns_a_frame_or_needs_one_for_its_sql_is_not_run_as_it_loads():
    asked = []
    shop, raw = landed()

    @shop.silver()
    def frame(clicks: DataFrame = stream(raw)) -> DataFrame:
        asked.append(clicks)
        return clicks.orderBy("at")

    @shop.silver()
    def columns(clicks: DataFrame = stream(raw)) -> str:
        return f"SELECT {', '.join(clicks.columns)} FROM clicks ORDER BY at"

    assert asked == []
    assert columns.query_warnings == ()


def test_groups_by_the_key_of_rows_that_come_once_are_no_groups_of_a_stream():
    shop, raw = landed()

    @shop.silver(unique_by="id")
    def counted(clicks: DataFrame = stream(raw), people: DataFrame = static(raw)) -> str:
        return (
            "SELECT c.id, count(p.id) AS n FROM clicks c LEFT JOIN people p USING (who) GROUP BY c.id, c.who"
        )

    assert counted.query_warnings == ()


def test_a_flow_is_read_like_a_table():
    shop, raw = landed()

    @shop.silver()
    def clicks(raw: DataFrame = stream(raw)) -> str:
        return "SELECT * FROM raw"

    def late(raw: DataFrame = stream(raw)) -> str:
        return "SELECT * FROM raw ORDER BY at"

    with pytest.raises(DeclarationError, match="flow late: its query sorts the stream raw"):
        shop.flow(clicks)(late)


JSON = '{"id": "1", "who": "a", "at": "2024-01-01T00:00:00", "price": "x"}\n'


def framed(mode, query, **options):
    """Return a bronze table and one that makes this of its rows."""
    shop = Pipeline("shop")

    @shop.bronze()
    def clicks(files=shop.landing("clicks", format="json", schema=CLICKS)):  # noqa: B008
        return files

    def made(clicks=stream(clicks)):
        return query(clicks)

    return clicks, shop.silver(output_mode=mode, **MODES[mode] | options)(made)


REFUSED = {
    "sorted": (
        "append",
        lambda rows: rows.select("id", "at").orderBy("at"),
        r"sorts the stream clicks \(ORDER BY at\)",
    ),
    "window": (
        "update",
        lambda rows: rows.groupBy("who", F.window("at", "1 day")).agg(F.count("*").alias("n")),
        "by a window and has no watermark",
    ),
    "grouped": (
        "append",
        lambda rows: rows.groupBy("who").count(),
        "in append mode and has no watermark",
    ),
    "uneven slide": (
        "complete",
        lambda rows: rows.groupBy(F.window("at", "50 seconds", "20 seconds")).agg(F.count("*").alias("n")),
        "lies in 2 or in 3 of its sliding windows",
    ),
    "overlap": (
        "incremental",
        lambda rows: rows.groupBy(F.window("at", "1 day", "8 hours"), "who").agg(F.count("*").alias("n")),
        "lies in 3 of its sliding windows, and it says window_overlap=1: .*Say window_overlap=3",
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("case", REFUSED)
def test_a_query_of_frames_is_refused_at_its_first_run_in_the_same_words(lake, drop, spark, case):
    mode, query, words = REFUSED[case]
    clicks, made = framed(mode, query)
    drop("shop/clicks", "1.json", JSON)
    refresh(clicks, lake, lambda: spark)
    with pytest.raises(RefreshFailed, match=rf"test_query_checks\.py:\d+: shop/silver/made: .*{words}"):
        refresh(made, lake, lambda: spark)
    assert not lake.path(made).exists()


@pytest.mark.parametrize("asked", ["input_file_name()", "_metadata.file_path", "r._metadata"])
def test_the_file_of_a_record_is_not_asked_of_spark_but_of_its_column(asked):
    shop = Pipeline("shop")
    words = rf"its query asks for {re.escape(asked)}, .*Use the columns _source_file and _source_modified_at"
    with pytest.raises(DeclarationError, match=words):

        @shop.bronze()
        def clicks(files: DataFrame = shop.landing("clicks", format="json")) -> str:  # noqa: B008
            return f"SELECT *, {asked} AS file FROM files AS r"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("asked", "words"),
    [(F.input_file_name, "asks for input_file_name"), (lambda: F.col("_metadata.file_path"), "_metadata")],
)
def test_a_query_of_frames_that_asks_spark_for_a_records_file_is_refused(lake, drop, spark, asked, words):
    shop = Pipeline("shop")

    @shop.bronze()
    def clicks(files=shop.landing("clicks", format="json", schema=CLICKS)):  # noqa: B008
        return files.withColumn("file", F.concat(asked(), F.lit("")))

    drop("shop/clicks", "1.json", JSON)
    with pytest.raises(RefreshFailed, match=words):
        refresh(clicks, lake, lambda: spark)
    assert not lake.path(clicks).exists()


@pytest.mark.spark
def test_a_strict_cast_of_a_frame_is_told_at_the_first_run_by_doctor_plan_and_dagster(
    lake, drop, spark, look, caplog
):
    cast = F.col("price").cast("int").alias("price"), F.col("n").cast("double").alias("n")
    clicks, made = framed(
        "append",
        lambda rows: rows.select(
            "id", F.max("at").over(Window.partitionBy("id").orderBy("at")).alias("at"), *cast
        ),
    )
    drop("shop/clicks", "1.json", JSON + JSON.replace('"x"', '"7"').replace('"1"', '"2"'))
    refresh(clicks, lake, lambda: spark)
    done = refresh(made, lake, lambda: spark)
    # The record with no number is where the words say.
    assert (done.total("written"), done.total("quarantined")) == (1, 1)
    told, window = query_warnings(made, lake)
    assert window.startswith("max() OVER (...) in its query sees the rows of one micro-batch")
    assert told.startswith("CAST(price AS INT) in its query fails on a value that is no INT")
    assert f"{made.declared_at}: shop/silver/made: {told}" in caplog.text
    assert all(f"warning: {told}" in look(verb, made).does for verb in ("doctor", "plan"))
    assert told in refreshed(made, lake, done)["query_warnings"].value
    assert query_warnings(clicks, lake) == []


def test_a_warning_stands_in_dagsters_description_of_the_table():
    assert (
        "Warning: CAST(price AS INT) in its query fails"
        in _spec(declared("SELECT CAST(price AS INT) AS p FROM clicks")).description
    )


def test_the_packages_own_pipelines_warn_of_nothing():
    assert [t.key for p in PIPELINES.values() for t in p.tables.values() if t.query_warnings] == []
