"""Commerce's customers with their history, and orders with the customer who made them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import expect, keep_changes, static, stream
from medallion_assets.pipelines.commerce import bronze
from medallion_assets.pipelines.commerce.pipeline import commerce


@commerce.silver(scd=keep_changes("customer_id", "delivered_at", type=2))
def customers(delivered: DataFrame = stream(bronze.customers_batch)) -> DataFrame:
    """One row per customer and state, from the delivery that brought it to the one that changed it.

    A customer who is there twice in one delivery, with different facts, has no order of states: both go
    to quarantine as untied_sequence.
    """
    facts = ["first_name", "last_name", "email", "phone", "city", "state", "country", "customer_segment"]
    return delivered.select("customer_id", *facts, F.col("_source_modified_at").alias("delivered_at"))


@commerce.silver(
    unique_by="order_id",
    expectations=[
        expect("positive_amount", "total_amount > 0"),
        expect("readable_time", "order_time IS NOT NULL"),
    ],
)
def orders_enriched(
    orders: DataFrame = stream(bronze.orders_autoloader),
    customers: DataFrame = static(customers, on="customer_id", unmatched="keep"),
) -> DataFrame:
    """One row per order, with its customer as known when it came; of an unknown customer with NULL."""
    now = customers.where("__END_AT IS NULL").select("customer_id", "first_name", "last_name", "email",
                                                     "city", "customer_segment")  # fmt: skip
    # Casts that fail give NULL and break a rule; Spark's default would fail the whole stream.
    time = F.col("order_datetime").try_cast("timestamp")
    amount = F.col("total_amount").try_cast("double")
    joined = orders.join(now, "customer_id", "left").withColumns({"order_time": time, "total_amount": amount})
    return joined.select("order_id", "customer_id", "order_time", "total_amount", "first_name", "last_name",
                         "email", "city", "customer_segment", "processing_time", "_source_file",
                         "_source_modified_at")  # fmt: skip
