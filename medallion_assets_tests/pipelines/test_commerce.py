"""Commerce end to end, on simulated and on real files, against computations without Spark."""

import csv
import json
import shutil
from collections import Counter, defaultdict
from datetime import date, datetime, timezone

import pytest

from medallion_assets import bad_records
from medallion_assets.declare.triggers import Timing, timings_of
from medallion_assets.delta import log
from medallion_assets.pipelines import PIPELINES
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.run import run_tables
from medallion_assets.simulators import land
from medallion_assets.simulators.commerce import BAD_CUSTOMER, BAD_ORDER
from medallion_assets_tests.crash.sweep import everything

pytestmark = pytest.mark.spark


def windows_of(orders, seconds_of):
    """Return orders and what they come to, by 30 seconds of a time and customer."""
    found = defaultdict(lambda: [0, 0.0])
    for order in orders:
        seconds = int(seconds_of(order))
        entry = found[seconds - seconds % 30, order["customer_id"]]
        entry[0] += 1
        entry[1] += order["total_amount"]
    return {key: (number, pytest.approx(total)) for key, (number, total) in found.items()}


def test_days_of_orders_and_customers_reach_windows_and_sums(lake, run, rows_of):
    begun, made_once = datetime.now(timezone.utc), []
    for _ in range(3):
        land("commerce", lake.settings.landing, 1)
        run("commerce")
        made_once.append([rows_and_version(name, rows_of, lake) for name in ONCE])
    assert made_once == [[made_once[0][0], made_once[0][1]]] * 3, "neither table takes what lands later"
    for table in PIPELINES["commerce"].tables.values():
        assert balance(table, lake).holds, str(balance(table, lake))
    copies = [f"commerce/bronze/orders_autoloader{name}" for name in ("", "_continuous")]
    assert [rows_of(copy, "SELECT count(*) AS n FROM t") for copy in copies] == [[{"n": 750}]] * 2
    landing = lake.settings.landing / "commerce"
    customers = defaultdict(list)
    for day in range(1, 4):
        for row in csv.DictReader((landing / f"customers/day{day}.csv").open(newline="")):
            customers[row["customer_id"]].append(row | {"day": day})
    for ids, _ in made_once[0]:
        assert ids == sorted(key for key, rows in customers.items() if rows[0]["day"] == 1)
    orders = [json.loads(line) for f in landing.glob("orders/*.json") for line in f.read_text().splitlines()]
    history = rows_of("commerce/silver/customers", 'SELECT customer_id, "__END_AT" AS e FROM t')
    assert Counter(r["customer_id"] for r in history if r["e"] is None) == Counter(
        dict.fromkeys(customers, 1)
    )
    assert len(history) >= len(customers)
    types = dict(log.schema(lake.root / "commerce/silver/orders_enriched"))
    assert [types[name] for name in ("order_time", "processing_time")] == ["timestamp"] * 2
    enriched = rows_of("commerce/silver/orders_enriched")
    assert Counter(r["order_id"] for r in enriched) == Counter(o["order_id"] for o in orders)
    # An order's number begins with its file's, and the customers of that day landed beside it.
    known = {c: min(int(row["day"]) for row in rows) for c, rows in customers.items()}
    unknown = {o["order_id"] for o in orders if known.get(o["customer_id"], 9) > int(o["order_id"][3:7])}
    assert {r["order_id"] for r in enriched if r["first_name"] is None} == unknown != set()
    mails = {key: {row["email"] for row in rows} for key, rows in customers.items()}
    assert all(r["email"] in mails[r["customer_id"]] for r in enriched if r["first_name"] is not None)
    made = windows_of(orders, lambda o: datetime.fromisoformat(o["order_datetime"] + "+00:00").timestamp())
    rows = rows_of("commerce/gold/orders_per_window", 'SELECT "window" AS w, * FROM t')
    assert {start_of(r): (r["orders"], r["total_amount"]) for r in rows} == made
    assert_windows_of_processing_time(rows_of, begun)
    times = {r["order_id"]: r["processing_time"] for r in rows_of("commerce/bronze/orders_autoloader")}
    assert {r["order_id"]: r["processing_time"] for r in enriched} == times
    sums = rows_of("commerce/gold/sales_by_segment", "SELECT sum(orders) AS n, sum(total_amount) AS t FROM t")
    assert sums[0]["n"] == len(orders)
    assert sums[0]["t"] == pytest.approx(sum(o["total_amount"] for o in orders))
    bronze = log.opened(lake.path(PIPELINES["commerce"].tables["commerce/bronze/customers_batch"]))
    assert bronze.metadata().description == "Customers as delivered, bronze layer"


ONCE = ("customer_ctas", "customer_ctas_copy")


def rows_and_version(name, rows_of, lake):
    rows = rows_of(f"commerce/bronze/{name}", "SELECT customer_id FROM t ORDER BY customer_id")
    return [row["customer_id"] for row in rows], log.version(lake.root / "commerce/bronze" / name)


def start_of(row):
    return int(row["w"]["start"].timestamp()), row["customer_id"]


def assert_windows_of_processing_time(rows_of, begun):
    for name in ("orders_autoloader_continuous", "orders_autoloader"):
        bronze = rows_of(f"commerce/bronze/{name}")
        assert len({row["processing_time"] for row in bronze}) == 3
        assert all(begun < row["_ingested_at"] <= row["processing_time"] for row in bronze)
        files = {(row["source_file"], row["_source_file"]) for row in bronze}
        assert files == {(f"orders_000{number}.json",) * 2 for number in (1, 2, 3)}
    arrived = windows_of(bronze, lambda row: row["processing_time"].timestamp())
    rows = rows_of("commerce/gold/orders_counts", 'SELECT "window" AS w, * FROM t')
    assert {start_of(r): r["count"] for r in rows} == {key: number for key, (number, _) in arrived.items()}


def test_the_continuous_copy_of_the_orders_is_taken_every_ten_seconds():
    table = PIPELINES["commerce"].tables["commerce/bronze/orders_autoloader_continuous"]
    assert timings_of([table])[table.key] == Timing(every_seconds=10)


def test_a_registration_date_arrives_as_a_date_and_a_text_that_is_none_in_quarantine(
    lake, run, rows_of, spark
):
    begun = datetime.now(timezone.utc)
    land("commerce", lake.settings.landing, 1, with_faults=True)
    run("commerce/bronze/customers_batch", *(f"commerce/bronze/{name}" for name in VALIDATED))
    assert_bad_data_is_kept(rows_of, spark)
    types = dict(log.schema(lake.root / "commerce/bronze/customers_batch"))
    assert (types["registration_date"], types["_ingestion_timestamp"]) == ("date", "timestamp")
    found = rows_of("commerce/bronze/customers_batch")
    assert {row["registration_date"] for row in found} == {date(2025, 1, 1)}
    assert all(begun < row["_ingestion_timestamp"] < datetime.now(timezone.utc) for row in found)
    (refused,) = rows_of("commerce/quarantine/customers_batch", "SELECT rules, row FROM t")
    assert refused["rules"] == ["does not fit the schema: registration_date"]
    assert "NOT_A_DATE" in refused["row"]


VALIDATED = ("customers_with_validation", "orders_rescued")


def assert_bad_data_is_kept(rows_of, spark):
    """The bad customer is a row with its text, and a bad record; the bad order has its fields rescued."""
    validated, rescued = (f"commerce/bronze/{name}" for name in VALIDATED)
    corrupt = (
        "SELECT customer_id, registration_date, _corrupt_record FROM t WHERE _corrupt_record IS NOT NULL"
    )
    (customer,) = rows_of(validated, corrupt)
    assert customer["_corrupt_record"] == ",".join(BAD_CUSTOMER)
    assert (customer["customer_id"], customer["registration_date"]) == ("CUST_BAD", None)
    assert rows_of(validated, "SELECT count(*) AS n FROM t") == [{"n": 101}]
    assert rows_of("commerce/quarantine/customers_with_validation") == []
    (record,) = bad_records("bad_records/customers", spark).collect()
    reason = "does not fit the schema: registration_date"
    assert (record.path, record.record, record.reason) == ("day1.csv", ",".join(BAD_CUSTOMER), reason)
    (order,) = rows_of(rescued, "SELECT total_amount, _rescued_data FROM t WHERE order_id = 'ORD_BAD'")
    left = json.loads(order["_rescued_data"])
    assert order["total_amount"] is None
    assert (left["total_amount"], left["new_col"]) == (BAD_ORDER["total_amount"], BAD_ORDER["new_col"])


def test_the_real_customers_who_stand_twice_multiply_no_order(lake, run, rows_of, shared):
    landing = lake.settings.landing / "commerce"
    for name in ("customers", "orders"):
        (landing / name).mkdir(parents=True)
    shutil.copy2(shared("commerce") / "customers/customers.csv", landing / "customers")
    files = sorted((shared("commerce") / "orders").glob("*.json"))
    shutil.copy2(files[0], landing / "orders")
    bronze = ("bronze/customers_batch", "bronze/orders_autoloader")
    tables = (*bronze, "silver/customers", "silver/orders_enriched", "gold/sales_by_segment")
    dates = {row["registration_date"] for row in csv.DictReader((landing / "customers/customers.csv").open())}
    done = run(*(f"commerce/{t}" for t in tables))
    for key in tables:
        table = PIPELINES["commerce"].tables[f"commerce/{key}"]
        assert balance(table, lake).holds, str(balance(table, lake))
    days = rows_of("commerce/bronze/customers_batch", "SELECT DISTINCT registration_date AS d FROM t")
    assert {row["d"].isoformat() for row in days} == dates
    orders = [json.loads(line) for line in files[0].read_text().splitlines()]
    rows = list(csv.DictReader((landing / "customers/customers.csv").open(newline="")))
    contents = defaultdict(set)
    for row in rows:
        contents[row["customer_id"]].add(
            tuple(v for k, v in row.items() if k not in ("customer_id", "registration_date"))
        )
    known = {key for key, facts in contents.items() if len(facts) == 1}
    good = {o["order_id"]: o["customer_id"] for o in orders if (o["total_amount"] or 0) > 0
            and o["order_datetime"] and o["order_id"]}  # fmt: skip
    rows = rows_of("commerce/silver/orders_enriched", "SELECT order_id, first_name FROM t")
    found = {r["order_id"]: r["first_name"] for r in rows}
    assert len(found) == len(rows)
    assert found.keys() == good.keys()
    names = {key: next(iter(facts))[0] or None for key, facts in contents.items() if key in known}
    once = {order for order, times in Counter(o["order_id"] for o in orders).items() if times == 1}
    assert {o: name for o, name in found.items() if o in once} == {
        o: names.get(customer) for o, customer in good.items() if o in once
    }
    assert done["commerce/silver/orders_enriched"].total("quarantined") > 0


def unwell(tables, lake, spark):
    """Return what went wrong in a run, by table."""
    outcomes = run_tables(tables, lake, lambda: spark)
    return {o.table.key: o.error or str(o.balance) for o in outcomes if not o.is_well}


def forget_the_last_commit(lake):
    """Leaves each checkpoint as a process does that died after its tables' commits and before its own."""
    for table in PIPELINES["commerce"].tables.values():
        commits = lake.state(table, "checkpoint") / "commits"
        numbers = [int(f.name) for f in commits.iterdir() if f.name.isdigit()] if commits.is_dir() else []
        if numbers and not table.once:
            (commits / str(max(numbers))).unlink()
            (commits / f".{max(numbers)}.crc").unlink(missing_ok=True)


@pytest.mark.thorough
def test_a_run_killed_before_its_checkpoints_commit_equals_an_undisturbed_one(lake, run, spark, tmp_path):
    from medallion_assets.declare.pipeline import chosen
    from medallion_assets.lake.paths import Lake

    tables = chosen(PIPELINES, ["commerce"])
    calm = Lake(lake.settings.model_copy(update={"lake": tmp_path / "calm"}))
    for number in range(2):
        land("commerce", lake.settings.landing, 1, with_faults=number == 1)
        for place in (lake, calm):
            assert not unwell(tables, place, spark)
        forget_the_last_commit(lake)
    assert not unwell(tables, lake, spark)
    shaken, expected = everything(lake, tables), everything(calm, tables)
    assert {key: len(rows) for key, rows in shaken.items()} == {
        key: len(rows) for key, rows in expected.items()
    }
    assert shaken == expected
