"""What else a declaration may ask for: SQL, several streams, a horizon, a layout, names in SQL."""

import pytest
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Layout, Pipeline, static, stream
from medallion_assets.declare.errors import DeclarationError
from medallion_assets.delta import log
from medallion_assets.runs.run import refresh
from medallion_assets_tests.shop import json_lines

pytestmark = pytest.mark.spark
SCHEMA = "id INT, at TIMESTAMP, city STRING"


def shop_with(*names):
    shop = Pipeline("shop")

    def landed(name):
        def query(files=shop.landing(name, format="json", schema=SCHEMA)):  # noqa: B008
            """One row per record, as it landed."""
            return files

        query.__name__ = name
        return shop.bronze()(query)

    return shop, *(landed(name) for name in names)


def lines(*ids, day=1, city="Quito"):
    return json_lines(*({"id": i, "at": f"2024-01-{day:02d}T00:00:00", "city": city} for i in ids))


def test_a_query_may_be_sql_over_the_names_of_its_inputs(drop, refreshed, rows_of):
    shop, orders, cities = shop_with("orders", "cities")

    @shop.silver(unique_by="id")
    def named(orders=stream(orders), cities=static(cities)):
        """One row per order, with how many records its city has."""
        return """
            SELECT orders.id, orders.city, count(cities.id) AS known
            FROM orders LEFT JOIN cities ON cities.city = orders.city GROUP BY orders.id, orders.city
        """

    drop("shop/orders", "1.json", lines(1, 2))
    drop("shop/cities", "1.json", lines(7, 8))
    refreshed(orders, cities, named)
    assert rows_of("shop/silver/named", "SELECT id, known FROM t ORDER BY id") == [
        {"id": 1, "known": 2},
        {"id": 2, "known": 2},
    ]


def test_tables_are_readable_by_name_as_soon_as_they_stand(drop, refreshed, spark):
    _, orders = shop_with("named_orders")
    drop("shop/named_orders", "1.json", lines(1, 2))
    refreshed(orders)
    assert spark.sql("SELECT count(*) AS n FROM shop.bronze.named_orders").first().n == 2
    assert spark.table("shop.bronze.named_orders").count() == 2


def test_several_streams_fill_one_table_each_with_its_own_place(drop, refreshed, rows_of, lake, spark):
    shop, east, west = shop_with("east", "west")

    @shop.silver(unique_by="id")
    def orders(east=stream(east)):
        """One row per order, from wherever it came."""
        return east.select("id", F.lit("east").alias("side"))

    @shop.flow(into=orders)
    def from_west(west=stream(west)):
        """The western shop's orders."""
        return west.select("id", F.lit("west").alias("side"))

    drop("shop/east", "1.json", lines(1, 2))
    refreshed(east, orders)
    drop("shop/west", "1.json", lines(2, 3))
    drop("shop/east", "2.json", lines(4))
    refreshed(east, west, orders)
    drop("shop/west", "2.json", lines(5))
    *_, done = refreshed(east, west, orders)
    assert done.total("read") == 1
    found = {r["id"]: r["side"] for r in rows_of("shop/silver/orders", "SELECT id, side FROM t")}
    assert found == {1: "east", 2: "east", 3: "west", 4: "east", 5: "west"}
    spark.sql(f"DELETE FROM delta.`{lake.path(east)}` WHERE id = 2")
    refreshed(orders)
    found = {r["id"]: r["side"] for r in rows_of("shop/silver/orders", "SELECT id, side FROM t")}
    assert found == {1: "east", 2: "west", 3: "west", 4: "east", 5: "west"}


def test_a_stream_into_an_aggregate_is_refused():
    shop, east, west = shop_with("east", "west")

    @shop.gold(output_mode="complete", row_count_column="n")
    def totals(east=stream(east)):
        """One row per city."""
        return east.groupBy("city").agg(F.count("*").alias("n"))

    with pytest.raises(DeclarationError, match="does not append rows of tables"):

        @shop.flow(into=totals)
        def from_west(west=stream(west)):
            """The western shop's orders."""
            return west


def test_a_key_is_a_duplicate_only_within_its_horizon(drop, refreshed, rows_of):
    shop, events = shop_with("events")

    @shop.silver(unique_by="id", unique_over="at", unique_within="3 days")
    def seen(events=stream(events)):
        """One row per event that was not there in the three days before."""
        return events.select("id", "at")

    drop("shop/events", "1.json", lines(1, 1, 2))
    refreshed(events, seen)
    drop("shop/events", "2.json", lines(1, day=3) + lines(1, day=9) + lines(2, day=5))
    *_, done = refreshed(events, seen)
    assert done.total("duplicates") == 1
    found = rows_of("shop/silver/seen", "SELECT id, date_part('day', at) AS day FROM t ORDER BY id, at")
    assert [(r["id"], int(r["day"])) for r in found] == [(1, 1), (1, 9), (2, 1), (2, 5)]


def laid_out_with(**layout):
    shop, orders = shop_with("orders")

    @shop.silver(layout=Layout(**layout))
    def clean(orders=stream(orders)):
        """One row per order."""
        return orders.select("id", "at", "city")

    return orders, clean


def test_a_layouts_columns_clustering_comments_and_properties_are_those_of_the_table(
    drop, refreshed, rows_of, lake
):
    orders, clean = laid_out_with(
        generated={"day": "DATE AS (CAST(at AS DATE))"},
        cluster_by=("city",),
        properties={"delta.logRetentionDuration": "interval 60 days"},
        constraints={"known_id": "id > 0"},
        comment="Orders of the customer's city",
        schema="id INT COMMENT 'its number', at TIMESTAMP COMMENT 'when it was made', city STRING",
        column_comments={"at": "when it was ordered", "city": "where it goes"},
    )
    for number in (1, 2):
        drop("shop/orders", f"{number}.json", lines(number, day=number))
        refreshed(orders, clean)
    days = [str(r["day"]) for r in rows_of("shop/silver/clean", "SELECT day FROM t ORDER BY day")]
    assert days == ["2024-01-01", "2024-01-02"]
    held = log.properties(lake.path(clean))
    assert held["delta.logRetentionDuration"] == "interval 60 days"
    assert held["delta.constraints.known_id"] == "id > 0"
    assert log.opened(lake.path(clean)).metadata().description == "Orders of the customer's city"
    comments = {f.name: f.metadata.get("comment") for f in log.spark_schema(lake.path(clean)).fields}
    told = {"id": "its number", "at": "when it was ordered", "city": "where it goes", "day": None}
    assert comments == told, "a comment by itself wins over the schema's"


def test_a_row_that_breaks_a_constraint_stops_the_batch_and_nothing_moves(drop, lake, spark, rows_of):
    orders, clean = laid_out_with(constraints={"known_id": "id > 0"})
    drop("shop/orders", "1.json", lines(1, -2))
    refresh(orders, lake, lambda: spark)
    with pytest.raises(Exception, match=r"shop/silver/clean: .*known_id"):
        refresh(clean, lake, lambda: spark)
    assert rows_of("shop/silver/clean") == []


def test_a_query_with_other_columns_than_its_schema_is_refused_by_name(drop, lake, spark, rows_of):
    orders, clean = laid_out_with(schema="id BIGINT, at TIMESTAMP, city STRING")
    drop("shop/orders", "1.json", lines(1))
    refresh(orders, lake, lambda: spark)
    with pytest.raises(Exception, match=r"shop/silver/clean: .*id bigint, id int"):
        refresh(clean, lake, lambda: spark)
    assert rows_of("shop/silver/clean") == []


def test_a_column_that_joins_bronze_with_a_name_delta_refuses_reaches_silver(drop, refreshed, spark, lake):
    shop = Pipeline("shop")

    @shop.bronze()
    def orders(files=shop.landing("orders", format="json")):  # noqa: B008
        """One row per order, as it landed."""
        return files

    @shop.silver()
    def clean(orders=stream(orders)):
        """One row per order."""
        return orders.drop("_rescued_data")

    for number, record in enumerate(({"id": 1}, {"id": 2, "new; col": "x"}, {"id": 3, "new; col": "y"})):
        drop("shop/orders", f"{number}.json", json_lines(record))
        refreshed(orders, clean)
    rows = spark.read.format("delta").load(str(lake.path(clean))).select("id", "new; col").collect()
    assert sorted(tuple(r) for r in rows) == [("1", None), ("2", "x"), ("3", "y")]
