"""A shop's files: orders by the batch, and the customers of each day."""

import csv
import io
import json
from datetime import datetime, timedelta
from random import Random

FILES = 20
ORDERS_A_FILE = 250
CUSTOMERS_A_DAY = 100
FIRST_DAY = datetime(2025, 1, 1)
COLUMNS = ["customer_id", "first_name", "last_name", "email", "phone", "city", "state", "country",
           "registration_date", "customer_segment"]  # fmt: skip
BAD_ORDER = {
    "order_id": "ORD_BAD",
    "customer_id": "CUST000001",
    "total_amount": "INVALID_NUMBER",
    "new_col": "x",
}
BAD_CUSTOMER = ["CUST_BAD", "Bad", "Date", "bad@shop.example", "", "Quito", "", "EC", "NOT_A_DATE", "Basic"]
"""The bad data the course this pipeline follows shows its readers."""


def file_name(number: int) -> str:
    """Return the name of order batch ``number``."""
    return f"orders_{number:04d}.json"


def orders(number: int, random: Random) -> list[str]:
    """Return one batch of orders as JSON lines, some of them of unknown customers."""
    return [json.dumps(_order(number, i, random)) for i in range(ORDERS_A_FILE)]


def bad_orders() -> list[str]:
    """Return an order whose amount is no number and which has a column of its own."""
    return [json.dumps(BAD_ORDER)]


def references(random: Random) -> dict[str, str]:
    """Return nothing: customers come day by day."""
    return {}


def day(number: int, random: Random, with_faults: bool) -> dict[str, str]:
    """Return day ``number``'s customers: new ones, and some that come again, changed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    first = (number - 1) * CUSTOMERS_A_DAY
    again = random.sample(range(first), min(10, first))
    writer.writerows(_customer(n, number, random) for n in (*range(first, first + CUSTOMERS_A_DAY), *again))
    if with_faults:
        writer.writerow(BAD_CUSTOMER)
    return {f"customers/day{number}.csv": text.getvalue()}


def _order(number: int, position: int, random: Random) -> dict[str, object]:
    price, quantity = round(random.uniform(2, 300), 2), random.randint(1, 5)
    at = FIRST_DAY + timedelta(days=number - 1, seconds=position * 2 + random.randrange(2))
    return {
        "order_id": f"ORD{number:04d}{position:05d}",
        "customer_id": f"CUST{random.randrange(number * CUSTOMERS_A_DAY + 5):06d}",
        "product_id": f"PROD{random.randrange(500):06d}",
        "store_id": f"STORE{random.randrange(80):03d}",
        "order_datetime": at.isoformat(),
        "quantity": quantity,
        "unit_price": price,
        "discount_percent": random.choice((0, 0, 5, 10)),
        "total_amount": round(price * quantity, 2),
        "payment_method": random.choice(("Cash", "Credit Card", "Debit Card")),
    }


def _customer(position: int, number: int, random: Random) -> list[object]:
    first, last = random.choice(("Amara", "Björn", "Zoë")), random.choice(("Osei", "Łukasz", "O'Neil"))
    city = random.choice(("Lagos", "Umeå", "Quito"))
    day = (FIRST_DAY + timedelta(days=number - 1)).date()
    mail = f"customer{position:06d}@shop.example"
    phone = f"+{random.randrange(10**9, 10**10)}"
    segment = random.choice(("Basic", "Premium", "VIP"))
    return [f"CUST{position:06d}", first, last, mail, phone, city, city[:2].upper(), "XX", day, segment]
