"""Commerce's records as they landed, each table by another door or with other options."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets import Layout, stream
from medallion_assets.pipelines.commerce.pipeline import commerce

CUSTOMER = (
    "customer_id STRING, first_name STRING, last_name STRING, email STRING, phone STRING, city STRING, "
    "state STRING, country STRING, registration_date DATE, customer_segment STRING"
)


def with_origin(orders: DataFrame) -> DataFrame:
    """Return orders with the time they were taken and the file each came in."""
    return orders.withColumns(
        {"processing_time": F.current_timestamp(), "source_file": F.col("_source_file")}
    )


@commerce.bronze(layout=Layout(comment="Customers as delivered, bronze layer"))
def customers_batch(
    files: DataFrame = commerce.copy_into(
        "customers", format="csv", schema_hints="registration_date DATE", merge_schema=True
    ),
) -> DataFrame:
    """One row per delivered customer, by COPY INTO: each day's file once, as it lands."""
    return files.withColumn("_ingestion_timestamp", F.current_timestamp())


@commerce.bronze(once=True)
def customer_ctas(files: DataFrame = commerce.landing("customers", format="csv")) -> DataFrame:
    """One row per customer of the files that lay there when the table was made, by CTAS."""
    return files


@commerce.bronze(once=True)
def customer_ctas_copy(customers: DataFrame = stream(customer_ctas)) -> DataFrame:
    """One row per row of customer_ctas as it was when the copy was made."""
    return customers


@commerce.bronze()
def orders_autoloader(
    files: DataFrame = commerce.landing("orders", format="json", infer_column_types=True),
) -> DataFrame:
    """One row per order, by Auto Loader: new columns join, with the time and file each order came in."""
    return with_origin(files)


@commerce.bronze(trigger="10 seconds")
def orders_autoloader_continuous(
    files: DataFrame = commerce.landing("orders", format="json", infer_column_types=True),
) -> DataFrame:
    """One row per order, every ten seconds while `medallion stream` runs, whatever the other tables do."""
    return with_origin(files)


@commerce.bronze()
def orders_rescued(
    files: DataFrame = commerce.landing(
        "orders",
        format="json",
        schema="order_id STRING, customer_id STRING, total_amount DOUBLE",
        schema_evolution_mode="rescue",
    ),
) -> DataFrame:
    """One row per order of three known columns; every other field is in _rescued_data."""
    return files


@commerce.bronze()
def customers_with_validation(
    files: DataFrame = commerce.landing(
        "customers",
        format="csv",
        schema=CUSTOMER,
        malformed="PERMISSIVE",
        bad_records_path="bad_records/customers",
    ),
) -> DataFrame:
    """One row per delivered customer; one that fits not keeps its text in _corrupt_record."""
    return files
