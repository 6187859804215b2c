"""Commerce's answers."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import stream
from medallion_assets.pipelines.commerce import bronze, silver
from medallion_assets.pipelines.commerce.pipeline import commerce


@commerce.gold(output_mode="update", unique_by=("window", "customer_id"), row_count_column="orders")
def orders_per_window(
    orders: DataFrame = stream(silver.orders_enriched, event_time="order_time", watermark="1 minute"),
) -> DataFrame:
    """One row per customer and 30 seconds, with the orders they made then."""
    window = F.window("order_time", "30 seconds").alias("window")
    sums = F.count("*").alias("orders"), F.sum("total_amount").alias("total_amount")
    return orders.groupBy(window, "customer_id").agg(*sums)


@commerce.gold(output_mode="update", unique_by=("window", "customer_id"), row_count_column="count")
def orders_counts(
    orders: DataFrame = stream(bronze.orders_autoloader, event_time="processing_time", watermark="1 minute"),
) -> DataFrame:
    """One row per customer and 30 seconds of processing time, with the orders that arrived then."""
    return orders.groupBy(F.window("processing_time", "30 seconds").alias("window"), "customer_id").count()


@commerce.gold(output_mode="incremental", row_count_column="orders")
def sales_by_segment(orders: DataFrame = stream(silver.orders_enriched)) -> DataFrame:
    """One row per customer segment and day, with sums that cost what is new."""
    day = F.to_date("order_time").alias("day")
    sums = F.count("*").alias("orders"), F.sum("total_amount").alias("total_amount")
    return orders.groupBy("customer_segment", day).agg(*sums, F.avg("total_amount").alias("mean_amount"))
