"""Commerce end to end, on simulated and on real files, against computations without Spark."""

import csv
import json
import shutil
from collections import Counter, defaultdict
from datetime import datetime

import pytest

from medallion_assets.pipelines import PIPELINES
from medallion_assets.quality.conservation import balance
from medallion_assets.runs.run import run_tables
from medallion_assets.simulators import land
from medallion_assets_tests.crash.sweep import everything

pytestmark = pytest.mark.spark


def test_days_of_orders_and_customers_reach_windows_and_sums(lake, run, rows_of):
    for _ in range(3):
        land("commerce", lake.settings.landing, 1)
        run("commerce")
    for table in PIPELINES["commerce"].tables.values():
        assert balance(table, lake).holds, str(balance(table, lake))
    copies = [f"commerce/bronze/orders_autoloader{name}" for name in ("", "_continuous")]
    assert [rows_of(copy, "SELECT count(*) AS n FROM t") for copy in copies] == [[{"n": 1500}]] * 2
    landing = lake.settings.landing / "commerce"
    customers = defaultdict(list)
    for day in range(1, 4):
        for row in csv.DictReader((landing / f"customers/day{day}.csv").open(newline="")):
            customers[row["customer_id"]].append(row)
    orders = [json.loads(line) for f in landing.glob("orders/*.json") for line in f.read_text().splitlines()]
    known = [o for o in orders if o["customer_id"] in customers]
    history = rows_of("commerce/silver/customers", 'SELECT customer_id, "__END_AT" AS e FROM t')
    assert Counter(r["customer_id"] for r in history if r["e"] is None) == Counter(
        dict.fromkeys(customers, 1)
    )
    assert len(history) >= len(customers)
    enriched = rows_of("commerce/silver/orders_enriched", "SELECT order_id, first_name FROM t")
    assert {r["order_id"] for r in enriched} == {o["order_id"] for o in known}
    assert all(r["first_name"] for r in enriched)
    windows = Counter()
    for order in known:
        seconds = int(datetime.fromisoformat(order["order_datetime"] + "+00:00").timestamp())
        windows[seconds - seconds % 30, order["customer_id"]] += 1
    rows = rows_of("commerce/gold/orders_per_window", 'SELECT "window" AS w, customer_id AS c, orders FROM t')
    found = {(int(r["w"]["start"].timestamp()), r["c"]): r["orders"] for r in rows}
    late = sum(windows.values()) - sum(found.values())
    assert found.items() <= windows.items() or late
    sums = rows_of("commerce/gold/sales_by_segment", "SELECT sum(orders) AS n, sum(total_amount) AS t FROM t")
    assert sums[0]["n"] == len(known)
    assert sums[0]["t"] == pytest.approx(sum(o["total_amount"] for o in known))


def test_the_real_customers_who_stand_twice_multiply_no_order(lake, run, rows_of, shared):
    landing = lake.settings.landing / "commerce"
    for name in ("customers", "orders"):
        (landing / name).mkdir(parents=True)
    shutil.copy2(shared("commerce") / "customers/customers.csv", landing / "customers")
    files = sorted((shared("commerce") / "orders").glob("*.json"))
    shutil.copy2(files[0], landing / "orders")
    bronze = ("bronze/customers_batch", "bronze/orders_autoloader")
    tables = (*bronze, "silver/customers", "silver/orders_enriched", "gold/sales_by_segment")
    done = run(*(f"commerce/{t}" for t in tables))
    for key in tables:
        table = PIPELINES["commerce"].tables[f"commerce/{key}"]
        assert balance(table, lake).holds, str(balance(table, lake))
    orders = [json.loads(line) for line in files[0].read_text().splitlines()]
    rows = list(csv.DictReader((landing / "customers/customers.csv").open(newline="")))
    contents = defaultdict(set)
    for row in rows:
        contents[row["customer_id"]].add(
            tuple(v for k, v in row.items() if k not in ("customer_id", "registration_date"))
        )
    known = {key for key, facts in contents.items() if len(facts) == 1}
    good = {o["order_id"] for o in orders if o["customer_id"] in known and (o["total_amount"] or 0) > 0
            and o["order_datetime"] and o["order_id"]}  # fmt: skip
    found = [r["order_id"] for r in rows_of("commerce/silver/orders_enriched", "SELECT order_id FROM t")]
    assert len(found) == len(set(found))
    assert set(found) == good
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
