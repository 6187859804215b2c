"""Verbs that look after tables: files put together, illnesses named, files judged and recounted."""

from datetime import datetime, timedelta, timezone
from functools import partial

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from medallion_assets.declare import Pipeline, stream
from medallion_assets.delta import events, log
from medallion_assets.lake.paths import Lake
from medallion_assets.operations import VERBS, VerbRequest
from medallion_assets.settings import current_settings
from medallion_assets_tests.shop import ABOVE_ZERO, chain, orders_file, orders_of

pytestmark = pytest.mark.spark
shop_with = partial(chain, gold="complete")


def test_validate_judges_what_landed_and_writes_nothing(drop, do, lake):
    orders = orders_of(Pipeline("shop"), rules=[ABOVE_ZERO])

    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)) + "{broken\n")
    told = do("validate", orders)
    assert (told.found["good"], told.found["malformed"], told.found["rules"]) == (2, 1, {"above_zero": 1})
    assert not told.well
    assert not list(lake.root.rglob("*.parquet"))


def test_maintenance_puts_files_together_forgets_old_events_and_no_stream_notices(
    drop, refreshed, rows_of, lake, spark, monkeypatch
):
    tables = shop_with()
    for number in range(3):
        drop("shop/orders", f"{number}.json", orders_file((number, 5), (number + 10, -1)))
        refreshed(*tables)
    monkeypatch.setenv("MEDALLION_EVENTS_DAYS", "100")
    for days in (99, 102):
        at = datetime.now(timezone.utc) - timedelta(days=days)
        row = {"day": at.date(), "at": at, "event": "refresh", "table": f"{days} days ago"}
        rows = pa.Table.from_pylist([row], events.COLUMNS)
        write_deltalake(str(events.events_of(lake.root)), rows, mode="append", partition_by=["day"])
    place = Lake(current_settings())
    files = [VERBS["maintain"](table, place, lambda: spark, VerbRequest()).found for table in tables]
    told = {row["table"] for row in log.rows(events.events_of(lake.root), 'SELECT "table" FROM t')}
    assert told == {"99 days ago", *(table.key for table in tables)}
    assert [(f["files_before"], f["files_now"]) for f in files][:2] == [(3, 1), (6, 2)]
    assert [done.total("read") for done in refreshed(*tables)] == [0, 0, 0]
    drop("shop/orders", "z.json", orders_file((99, 1)))
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 16, "sales": 4}]


def test_maintenance_keeps_what_a_table_downstream_has_not_taken(drop, refreshed, do, lake):
    orders, sales, totals = shop_with()
    office = Pipeline("office")

    @office.silver()
    def copies(orders=stream(orders)):
        """One row per order."""
        return orders.select("id")

    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(orders, sales, totals, copies)
    drop("shop/orders", "b.json", orders_file((2, 5)))
    refreshed(orders)
    behind = "shop/silver/sales, office/silver/copies has not taken all of it"
    assert behind in do("maintain", orders, dry_run=True).does
    # What reads it from another pipeline goes with it, too.
    told = do("reset", orders, dry_run=True)
    assert told.downstream == ("shop/silver/sales", "office/silver/copies", "shop/gold/totals")
    assert str(lake.path(copies)) in told.found["removed"]


def test_doctor_names_the_verb_for_each_illness(drop, refreshed, look, do, lake, spark):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(*tables)
    assert [look("doctor", t).does for t in tables] == ["well"] * 3
    kept = "('delta.logRetentionDuration' = 'interval 2 weeks 12 hours')"
    spark.sql(f"ALTER TABLE delta.`{lake.path(tables[0])}` SET TBLPROPERTIES {kept}")
    assert look("doctor", tables[1]).found["days_left"] == 14.5
    do("reset_checkpoint", tables[1])
    told = look("doctor", tables[1])
    assert told.well
    assert "its checkpoint is gone" in told.does
    spark.sql(f"DELETE FROM delta.`{lake.path(tables[0])}`")
    assert "run accept_changes --why" in look("doctor", tables[0]).does


def test_doctor_tells_what_was_written_by_hand_until_a_full_refresh_replaces_it(
    drop, refreshed, look, do, lake, spark
):
    tables = shop_with()
    drop("shop/orders", "a.json", orders_file((1, 5)))
    refreshed(*tables)
    do("maintain", tables[1])
    assert look("doctor", tables[1]).well
    spark.sql(f"UPDATE delta.`{lake.path(tables[1])}` SET total = 9")
    told = look("doctor", tables[1])
    assert "was written by hand (UPDATE), not by a run: run full_refresh" in told.does
    do("full_refresh", tables[1])
    assert look("doctor", tables[1]).well


def test_audit_finds_what_the_log_alone_cannot(drop, refreshed, do, lake, spark):
    tables = shop_with()
    file = drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)) + "{broken\n")
    refreshed(*tables)
    assert all(do("audit", t).well for t in tables)
    # One row for another: every sum still holds.
    path = lake.path(tables[0])
    spark.sql(f"UPDATE delta.`{path}` SET _source_file = 'elsewhere' WHERE id = 1")
    told = do("audit", tables[0])
    assert "a.json held 3 records when it was loaded, table and quarantine hold 2" in told.does
    assert "elsewhere, which the ledger does not know" in told.does
    file.write_text(orders_file((7, 7)))
    assert "a.json changed since it was loaded" in do("audit", tables[0]).does
    file.write_bytes(b"\x1f\x8b no gzip")
    assert "a.json cannot be read any more" in do("audit", tables[0]).does
