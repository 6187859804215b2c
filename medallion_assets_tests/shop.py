"""A shop as small as a chain of tables can be, for tests that look at one thing of it."""

import json
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import functions as F  # noqa: N812

from medallion_assets.declare import Pipeline, expect, stream
from medallion_assets.delta.batches import stamp
from medallion_assets.delta.commit import Transaction

ABOVE_ZERO = expect("above_zero", "total > 0")


def json_lines(*records: Any) -> str:
    """The text of a file that holds these records."""
    return "".join(json.dumps(record) + "\n" for record in records)


def orders_file(*orders):
    """The text of a file of orders, each told as its number and its total."""
    return json_lines(*({"id": number, "total": total} for number, total in orders))


def totals_file(*totals, start=0):
    """The text of a file with one order for each total, numbered from ``start``."""
    return orders_file(*enumerate(totals, start))


def order(number, total, at="2026-01-01T00:00:00.123456Z"):
    """An order at a time."""
    return {"id": number, "total": total, "at": at}


def bought(number, total, customer="a"):
    """An order of a customer."""
    return {"id": number, "customer": customer, "total": total}


def orders_and_sales(*rules, **options):
    """Orders, and the sales among them."""
    shop = Pipeline("shop")
    orders = orders_of(shop)

    @shop.silver(expectations=rules, **options)
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "total")

    return orders, sales


def orders_of(shop, rules=(), name="orders", **landing):
    """The shop's orders, as they land."""
    told = {"format": "json", "schema": "id INT, total INT"} | landing

    def orders(files=shop.landing("orders", **told)):  # noqa: B008
        """One row per order, as it landed."""
        return files

    orders.__name__ = name
    return shop.bronze(expectations=rules)(orders)


def commit_batch(lake, table, batch):
    """Commit a batch's account to a table as a run does, without rows or Spark."""
    path = lake.path(table)
    signed = stamp(Transaction("", batch.position, {"run_id": "test"}), path, table.flow, batch)
    told = CommitProperties(custom_metadata={"userMetadata": json.dumps(signed.commit_metadata)})
    rows = pa.table({"id": pa.array([], pa.int64())})
    write_deltalake(str(path), rows, mode="append", commit_properties=told)


def chain(rules=(ABOVE_ZERO,), keys="id", bronze_rules=(), gold="incremental", **landing):
    """Orders, the sales among them, and what they come to."""
    shop = Pipeline("shop")
    orders = orders_of(shop, bronze_rules, **{"schema": "id INT, total INT, at TIMESTAMP"} | landing)

    @shop.silver(unique_by=keys, expectations=rules)
    def sales(orders=stream(orders)):
        """One row per sale."""
        return orders.select("id", "total", "at")

    @shop.gold(output_mode=gold, row_count_column="sales")
    def totals(sales=stream(sales)):
        """One row per kind of sale."""
        sums = F.sum("total").alias("total"), F.count("*").alias("sales")
        return sales.groupBy(F.lit("all").alias("of")).agg(*sums)

    return orders, sales, totals
