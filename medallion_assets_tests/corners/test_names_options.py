"""Options and statements under the names people know mean ours, or are refused with the reason."""

import inspect
import os
from dataclasses import fields
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import DoubleType, StringType, StructField, StructType
from typer.testing import CliRunner

from medallion_assets.cli import app
from medallion_assets.declare import Pipeline, stream
from medallion_assets.delta import log
from medallion_assets.sources import autoload_to_table, copy_into, create_table_as, sql
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.load_target import NamedTable, source_of
from medallion_assets.sources.option_names import NAMES, table_of_names
from medallion_assets.sources.options import Source
from medallion_assets.sources.statements import copy_statement

DOORS = Path(__file__).parents[2] / "docs" / "doors.md"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"cloudFiles.format": "json", "cloudFiles.schemaLocation": "/s"}, {}),
        ({"cloudFiles.inferColumnTypes": "true"}, {"infer_column_types": True}),
        ({"CLOUDFILES.SCHEMAHINTS": "time DOUBLE"}, {"schema_hints": "time DOUBLE"}),
        ({"schemaEvolutionMode": "rescue"}, {"schema_evolution_mode": "rescue"}),
        ({"cloudFiles.maxFilesPerTrigger": "7"}, {"max_files_per_trigger": 7}),
        ({"cloudFiles.maxBytesPerTrigger": "10g"}, {"max_bytes_per_trigger": 10 << 30}),
        ({"cloudFiles.partitionColumns": "year, day"}, {"partition_columns": ("year", "day")}),
        ({"cloudFiles.allowOverwrites": "true"}, {"allow_overwrites": "append"}),
        (
            {
                "cloudFiles.cleanSource": "move",
                "cloudFiles.cleanSource.moveDestination": "/old",
                "cloudFiles.cleanSource.retentionDuration": "12 hours",
            },
            {
                "clean_source": "MOVE",
                "clean_source_move_destination": "/old",
                "clean_source_retention_days": 0.5,
            },
        ),
        ({"mode": "dropMalformed"}, {"malformed": "DROPMALFORMED"}),
        ({"badRecordsPath": "bad"}, {"bad_records_path": "bad"}),
        ({"rescuedDataColumn": "_r"}, {"rescued_data_column": "_r"}),
        ({"cloudFiles.json.multiline": True}, {"reader_options": {"multiLine": "true"}}),
        ({"mergeSchema": "true", "cloudFiles.useNotifications": "false"}, {}),
        ({"schema": StructType([StructField("a b", StringType()), StructField("c", DoubleType())])},
         {"schema": "`a b` string, `c` double"}),
    ],
)  # fmt: skip
def test_a_name_of_databricks_or_spark_means_ours(theirs, ours):
    assert source_of("t", "JSON", "/x", theirs) == Source("t", "json", "/x", **ours)
    assert Pipeline("p").landing("t", format="json", path="/x", **theirs).source == Source(
        "t", "json", "/x", **ours
    )


def test_a_reader_option_may_have_its_formats_name_before_it():
    told = {"cloudFiles.csv.delimiter": "|", "cloudFiles.csv.header": True, "multiLine": "true"}
    meant = {"delimiter": "|", "header": "true"}
    assert source_of("t", "CSV", "/x", told) == Source("t", "csv", "/x", reader_options=meant)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cloudFiles.schemaHint": "a INT"}, "did you mean cloudFiles.schemaHints"),
        ({"scehma": "a INT"}, "did you mean schema"),
        ({"merge_shema": True}, "did you mean mergeSchema or merge_schema|did you mean merge_schema"),
        ({"tiemstampFormat": "y"}, "did you mean timestampFormat"),
        ({"cloudFiles.useNotifications": "true"}, "a queue given as file_events says so"),
        ({"cloudFiles.region": "eu"}, "file_events takes the URL of an SQS queue"),
        ({"cloudFiles.resourceTag.team": "x"}, "file_events takes the URL of an SQS queue"),
        ({"allowSingleQuotes": "true"}, "changed or dropped in silence"),
        ({"primitivesAsString": "true"}, "without infer_column_types every column is text"),
        ({"prefersDecimal": "true"}, "types in schema_hints"),
        ({"timeZone": "Europe/Paris"}, "times without a zone are UTC"),
        ({"cloudFiles.privateKeyId": "x"}, "credentials come from the environment"),
        ({"mergeSchema": "false"}, "failOnNewColumns"),
        ({"cloudFiles.format": "csv"}, "the format was given as 'json'"),
        ({"cloudFiles.maxFilesPerTrigger": "many"}, "maxFilesPerTrigger='many'"),
        ({"inferSchema": "true", "infer_column_types": False}, "both say what infer_column_types is"),
        ({"mistyped": "DROP"}, "mistyped='DROP' is not one of"),
    ],
)
def test_a_name_without_a_counterpart_is_refused_with_the_reason(options, words):
    with pytest.raises(SourceError, match=words):
        source_of("t", "json", "/x", options)


def test_the_table_of_names_in_the_docs_is_the_one_in_the_code():
    assert table_of_names() in DOORS.read_text()


def test_every_name_that_means_ours_names_an_option_there_is():
    assert {option.ours for option in NAMES if option.ours} <= set(Source.__dataclass_fields__)


@pytest.mark.parametrize("uri", ["hdfs://node/x", "ftp://host/x", "dbfs:/x"])
def test_an_address_that_is_no_local_folder_is_an_error_and_not_a_load_of_no_file(lake, uri):
    with pytest.raises(SourceError, match=r"address\. Nothing was read"):
        copy_into("t", uri, "csv")
    with pytest.raises(SourceError, match=r"address\. Nothing was read"):
        autoload_to_table(uri, "csv", "t", "/tmp/checkpoint")


def test_a_statement_is_read_into_the_arguments_of_the_call():
    statement = """
        COPY INTO bronze.t FROM (
          SELECT id, TO_DATE(d, 'yyyy-MM-dd') as d, xs[0] AS x, -- the first, or none
                 EXTRACT(YEAR FROM d) AS year, ', FROM ' AS words
          FROM 'landing/day1'
        ) FILEFORMAT = CSV PATTERN = '*.csv' VALIDATE 10 ROWS
        FORMAT_OPTIONS ('header' = 'true', 'sep' = '\\t') COPY_OPTIONS ('mergeSchema' = 'true');"""
    assert copy_statement(statement) == {
        "table_name": "bronze.t",
        "data_source": "landing/day1",
        "select": ["id", "TO_DATE(d, 'yyyy-MM-dd') as d", "xs[0] AS x", "EXTRACT(YEAR FROM d) AS year",
                   "', FROM ' AS words"],
        "source_format": "CSV",
        "pattern": "*.csv",
        "validate": "10",
        "format_options": {"header": "true", "sep": "\t"},
        "copy_options": {"mergeSchema": "true"},
    }  # fmt: skip
    listed = copy_statement(
        "copy into `p`.bronze.t from `/x` fileformat json files = ('a', 'b') validate all"
    )
    assert (listed["table_name"], listed["data_source"], listed["files"]) == ("p.bronze.t", "/x", ["a", "b"])
    assert NamedTable.of("bronze.t") == NamedTable("default", "bronze", "t")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("COPY INTO t BY POSITION FROM '/x' FILEFORMAT = CSV", "matched by their names"),
        ("COPY INTO t (a, b) FROM '/x' FILEFORMAT = CSV", "column list"),
        ("COPY INTO t FROM '/x' WITH (CREDENTIAL c) FILEFORMAT = CSV", "come from the environment"),
        ("COPY INTO t FROM (SELECT a FROM '/x' WHERE a > 1) FILEFORMAT = CSV", "accounts for each record"),
        ("COPY INTO t FROM '/x'", "FILEFORMAT is expected"),
        ("COPY INTO t FROM '/x' FILEFORMAT = CSV FILES = ('a'", "a value is expected"),
        ("COPY INTO t FROM '/x' FILEFORMAT = CSV FILEFORMAT = JSON", "FILEFORMAT here"),
        ("COPY INTO t FROM '/x' FILEFORMAT = CSV COPY_OPTIONS ('forced' = 'true')", "no option forced"),
        ("COPY INTO t FROM '/x' FILEFORMAT = CSV COPY_OPTIONS ('force' = 'si')", "'si' is not true or false"),
        ("DELETE FROM t", "begins with DELETE"),
        ("INSERT INTO courses VALUES ('C16', 'Ada')", r"INSERT is not .* land one that holds these rows"),
        ("USE CATALOG main", "Tables are named pipeline.layer.table"),
        ("COPY INTO t FROM 'x", "not SQL"),
        ("", "begins with nothing"),
    ],
)
def test_a_statement_that_cannot_be_carried_out_whole_is_refused(lake, statement, words):
    with pytest.raises(SourceError, match=words):
        sql(statement)
    told = CliRunner().invoke(app, ["sql", statement])
    assert told.exit_code == 2


@pytest.mark.spark
def test_the_notebooks_statement_loads_dates_and_quarantines_what_is_none(landed, lake, spark, refused):
    folder = landed(**{"day1/a__csv": "customer_id,registration_date\n1,2024-01-31\n2,soon\n"})
    statement = f"""
        COPY INTO bronze.customers_batch
        FROM (
          SELECT customer_id, TO_DATE(registration_date, 'yyyy-MM-dd') as registration_date,
                 current_timestamp() as _ingestion_timestamp
          FROM '{folder}/*'
        )
        FILEFORMAT = CSV
        FORMAT_OPTIONS ('header' = 'true', 'inferSchema' = 'false', 'mergeSchema' = 'true')
        COPY_OPTIONS ('mergeSchema' = 'true')
    """
    done = sql(statement, spark=spark)
    assert (done.num_inserted_rows, done.load.rows_quarantined) == (1, 1)
    assert "cannot evaluate TO_DATE(registration_date" in refused(done.load)[0][1]
    assert sql(statement, spark=spark).num_inserted_rows == 0
    assert (
        sql("CREATE OR REPLACE TABLE copy AS SELECT * FROM default.bronze.customers_batch", spark=spark) == 0
    )
    sql(
        "CREATE TABLE told USING DELTA COMMENT 'as told' AS "
        "SELECT * FROM VALUES ('C16', 'Ada') AS t(course_id, instructor)",
        spark=spark,
    )
    assert log.opened(lake.root / "default/bronze/told").metadata().description == "as told"
    (row,) = sql("SELECT registration_date FROM default.bronze.copy;", spark=spark).collect()
    assert str(row.registration_date) == "2024-01-31"


@pytest.mark.spark
def test_a_bare_name_in_a_statement_is_the_table_a_load_of_that_name_fills(landed, lake, spark):
    folder = landed(a__csv="id\n1\n2\n")
    sql(f"COPY INTO visits FROM '{folder}' FILEFORMAT = CSV", spark=spark)
    sql("CREATE TABLE visits_copy AS SELECT id FROM visits", spark=spark)
    create_table_as("visits_again", "SELECT id FROM bronze.visits", spark=spark)

    def ids(name):
        return [row.id for row in sql(f"SELECT id FROM {name} ORDER BY id", spark=spark).collect()]

    names = ("visits", "bronze.visits_copy", "default.bronze.visits_again")
    assert [ids(name) for name in names] == [["1", "2"]] * 3
    assert sql("DESCRIBE HISTORY visits", spark=spark).first().operation == "WRITE"
    of_the_table = "WITH bronze AS (SELECT id FROM visits_copy) SELECT b.id FROM bronze b WHERE id > 1"
    view = sql(f"CREATE OR REPLACE TEMP VIEW visits_copy AS {of_the_table}", spark=spark)
    assert ([row.id for row in view.collect()], ids("visits_copy")) == (["2"], ["2"]), "a view goes before"
    assert ids("default.bronze.visits_copy") == ["1", "2"]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT id FROM no_visits", spark=spark)
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        sql("SELECT ids FROM visits", spark=spark)
    spark.catalog.dropTempView("visits_copy")


def comments(path):
    """Return the comment of each column of a table that has one."""
    found = {f.name: f.metadata.get("comment") for f in log.spark_schema(path).fields}
    return {name: comment for name, comment in found.items() if comment}


@pytest.mark.spark
def test_a_table_of_columns_is_made_empty_and_copy_into_keeps_its_types_and_comments(
    landed, lake, spark, rows, refused
):
    statement = """
        CREATE TABLE IF NOT EXISTS bronze.typed (
          customer_id INT COMMENT 'the shop''s own (since 2020)',
          registration_date DATE,
          price DECIMAL(10, 2)
        ) USING DELTA
        COMMENT 'Customers data - Bronze layer'
    """
    assert [sql(statement, spark=spark) for _ in range(2)] == [0, 0]
    path = lake.root / "default/bronze/typed"
    with pytest.raises(SourceError, match="exists already"):
        sql(statement.replace("IF NOT EXISTS", ""), spark=spark)
    assert log.opened(path).metadata().description == "Customers data - Bronze layer"
    assert comments(path) == {"customer_id": "the shop's own (since 2020)"}
    assert sql("SELECT * FROM default.bronze.typed", spark=spark).count() == 0
    folder = landed(a__csv="customer_id,registration_date,price\n1,2024-01-31,1.50\nx,2024-01-31,2\n")
    done = sql(f"COPY INTO bronze.typed FROM '{folder}' FILEFORMAT = CSV", spark=spark)
    assert (done.num_inserted_rows, done.load.rows_quarantined) == (1, 1)
    kinds = {f.name: f.dataType.simpleString() for f in log.spark_schema(path).fields}
    assert kinds | {"customer_id": "int", "price": "decimal(10,2)"} == kinds
    assert comments(path) == {"customer_id": "the shop's own (since 2020)"}
    assert sql(f"COPY INTO bronze.typed FROM '{folder}' FILEFORMAT = CSV", spark=spark).num_inserted_rows == 0


@pytest.mark.spark
def test_the_notebooks_table_takes_the_rows_of_its_select_list(landed, lake, spark):
    sql(
        "CREATE TABLE bronze.c (id STRING, registration_date DATE, _ingestion_timestamp TIMESTAMP)",
        spark=spark,
    )
    folder = landed(a__csv="id,registration_date\n1,2024-01-31\n")
    done = sql(
        f"COPY INTO bronze.c FROM (SELECT id, TO_DATE(registration_date, 'yyyy-MM-dd') AS registration_date, "
        f"current_timestamp() AS _ingestion_timestamp FROM '{folder}') FILEFORMAT = CSV "
        "FORMAT_OPTIONS ('header' = 'true') COPY_OPTIONS ('mergeSchema' = 'true')",
        spark=spark,
    )
    assert done.num_inserted_rows == 1
    (row,) = sql("SELECT * FROM default.bronze.c", spark=spark).collect()
    assert (str(row.registration_date), row._ingestion_timestamp is not None) == ("2024-01-31", True)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE OR REPLACE TABLE t (id INT)", "would lose its rows"),
        ("CREATE TABLE t (id INT", r"\) is expected"),
        ("CREATE TABLE t (id INT) AS SELECT 1", "rows come by COPY INTO"),
        ("CREATE TABLE t (id INT) PARTITIONED BY (id)", "rows come by COPY INTO"),
        ("CREATE TABLE IF NOT EXISTS t AS SELECT 1", "a list of them is expected"),
        ("CREATE TABLE t", "AS is expected"),
        ("CREATE TABLE t (id INT) COMMENT 'x' USING PARQUET", "USING DELTA is expected"),
    ],
)
def test_a_table_that_cannot_be_made_as_it_is_told_is_refused(lake, statement, words):
    with pytest.raises(SourceError, match=words):
        sql(statement)
    assert not lake.root.exists()


@pytest.mark.spark
def test_comments_in_a_schema_of_landing_files_are_deltas_and_a_changed_one_is_told(
    landed, autoload, drop, refreshed, lake
):
    folder = landed(a__json='{"id": 1, "city": "Quito"}\n')
    done = autoload(folder, "json", schema="id INT COMMENT 'of the order', city STRING")
    assert comments(done.path) == {"id": "of the order"}
    landed(b__json='{"id": 2, "city": "Lima"}\n')
    autoload(folder, "json", schema="id INT COMMENT 'of the order', city STRING COMMENT 'where it goes'")
    assert comments(done.path) == {"id": "of the order", "city": "where it goes"}

    def orders_of(schema):
        shop = Pipeline("shop")

        @shop.bronze()
        def orders(files=shop.landing("orders", format="json", schema=schema)):  # noqa: B008
            return files

        @shop.silver()
        def clean(orders=stream(orders)):
            return orders.select("id")

        return orders, clean

    for number, comment in enumerate(("first", "then")):
        drop("shop/orders", f"{number}.json", f'{{"id": {number}}}\n')
        tables = orders_of(f"id INT COMMENT '{comment}'")
        refreshed(*tables)
        assert comments(lake.path(tables[0])) == {"id": comment}


@pytest.mark.spark
def test_the_notebooks_loader_takes_the_options_its_readers_type(landed, lake, spark, rows, tmp_path):
    folder = landed(a__json='{"time":1.5}\n')
    options = {
        "cloudFiles.schemaLocation": str(tmp_path),
        "cloudFiles.schemaHints": "time DOUBLE",
        "mergeSchema": "true",
    }
    autoload_to_table(folder, "json", "t", tmp_path / "c", spark=spark, **options)
    landed(b__json='{"time":2.5,"new":1}\n')
    os.utime(folder / "b.json")
    done = autoload_to_table(folder, "json", "t", tmp_path / "c", spark=spark, **options)
    assert {(row["time"], row["new"]) for row in rows(done)} == {(1.5, None), (2.5, "1")}


def test_a_misspelt_option_of_a_landing_zone_is_told_with_the_line_it_stands_in():
    where = r"test_names_options\.py:\d+: landing zone 'orders': no option is called schemaHint"
    with pytest.raises(SourceError, match=where):
        Pipeline("shop").landing("orders", format="json", schemaHint="id INT")


OPTIONS_OF_A_TABLE = [
    parameter.name
    for parameter in inspect.signature(Pipeline.declare).parameters.values()
    if parameter.kind is parameter.KEYWORD_ONLY
]


def test_an_option_given_as_none_counts_as_not_given():
    shop, plain = Pipeline("shop"), Pipeline("shop")
    options = [field.name for field in fields(Source) if field.name not in ("name", "format")]
    zone = shop.landing("orders", format="json", **dict.fromkeys(options))
    assert zone == plain.landing("orders", format="json")

    def orders(files=zone):
        """One row per order."""
        return files

    told = shop.bronze(**dict.fromkeys(OPTIONS_OF_A_TABLE))(orders)
    assert told == plain.bronze()(orders)
