"""The event log: what runs and their micro-batches did, as a Delta table people query."""

from datetime import datetime, timedelta, timezone

import pytest
from deltalake import write_deltalake

from medallion_assets.delta import events, log
from medallion_assets.delta.errors import LakeFormatUnknown
from medallion_assets.delta.events import delete_old_events, events_of
from medallion_assets.delta.rollback import FILE, check_format
from medallion_assets.operations import VerbRequest, carry_out
from medallion_assets.runs.run import refresh
from medallion_assets.sources import copy_into
from medallion_assets.sources.errors import SourceMissing
from medallion_assets_tests.shop import chain, orders_file

ALL = "SELECT * FROM t ORDER BY at, event"


@pytest.mark.spark
def test_each_refresh_and_micro_batch_is_told_with_its_quality_and_what_waited(
    lake, drop, spark, refreshed, monkeypatch
):
    orders, sales, _ = chain()
    drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    landed = drop("shop/orders", "b.json", orders_file((3, 9)))
    refreshed(orders, sales)
    batch, whole, of_sales, _ = log.rows(events_of(lake.root), ALL)
    assert (batch["event"], whole["event"], of_sales["table"]) == ("micro_batch", "refresh", sales.key)
    assert (whole["rows_read"], whole["rows_written"], whole["files"]) == (3, 3, 2)
    assert whole["backlog_files"] == 2
    assert whole["backlog_bytes"] > landed.stat().st_size
    assert 0 < whole["backlog_seconds"] < 600
    assert (of_sales["rows_quarantined"], dict(of_sales["broken_rules"])) == (1, {"above_zero": 1})
    refreshed(orders, sales)
    assert len(log.rows(events_of(lake.root), ALL)) == 4, "a refresh that did nothing is not told"

    def dies():
        raise RuntimeError("a person's number")

    drop("shop/orders", "c.json", orders_file((4, 1)))
    with pytest.raises(RuntimeError):
        refresh(orders, lake, dies)
    last = log.rows(events_of(lake.root), ALL)[-1]
    assert (last["event"], last["error"], last["backlog_files"]) == ("failure", "RuntimeError", 1)
    monkeypatch.setattr(events, "write_deltalake", lambda *args, **told: dies())
    assert refresh(orders, lake, lambda: spark).total("written") == 1


@pytest.mark.spark
def test_loads_and_operations_are_told_by_their_names(lake, drop, spark, refreshed, monkeypatch):
    monkeypatch.setenv("MEDALLION_LAKE", str(lake.root))
    orders, sales, _ = chain()
    landed = drop("shop/orders", "a.json", orders_file((1, 5), (2, -1)))
    refreshed(orders, sales)
    known = len(log.rows(events_of(lake.root), ALL))
    for _ in range(2):
        copy_into("copied", landed.parent, "json", spark=spark)
    for verb, dry_run in (("full_refresh", False), ("full_refresh", True), ("doctor", False)):
        assert carry_out(verb, sales, lake, lambda: spark, VerbRequest(dry_run=dry_run)).well
    with pytest.raises(SourceMissing):
        copy_into("copied", landed.parent / "none", "json", spark=spark)
    rows = log.rows(events_of(lake.root), ALL)[known:]
    told = [(r["event"], r["table"], r["files"], r["rows_written"], r["error"]) for r in rows]
    assert told == [
        ("load", "default/bronze/copied", 1, 2, None),
        ("micro_batch", "default/bronze/copied", 1, 2, None),
        ("full_refresh", sales.key, 0, 1, None),
        ("micro_batch", sales.key, 0, 1, None),
        ("failure", "default/bronze/copied", 0, 0, "SourceMissing"),
    ]
    assert all(row["run_id"] for row in rows)


def test_a_lake_of_another_format_gets_no_event_of_what_it_refused(lake, drop, no_spark, monkeypatch):
    monkeypatch.setenv("MEDALLION_LAKE", str(lake.root))
    orders, *_ = chain()
    landed = drop("shop/orders", "a.json", orders_file((1, 5)))
    check_format(lake.root)
    (lake.root / FILE).write_text('{"format": 99}')
    with pytest.raises(LakeFormatUnknown):
        refresh(orders, lake, no_spark)
    with pytest.raises(LakeFormatUnknown):
        copy_into("copied", landed.parent, "json")
    assert not carry_out("full_refresh", orders, lake, no_spark, VerbRequest()).well
    assert not events_of(lake.root).exists()


def test_events_are_kept_as_many_days_as_the_setting_says(lake):
    now = datetime.now(timezone.utc)
    for days in (0, 300, 400):
        at = now - timedelta(days=days)
        row = {"day": at.date(), "at": at, "event": "refresh", "table": str(days)}
        rows = events.pa.Table.from_pylist([row], events.COLUMNS)
        write_deltalake(str(events_of(lake.root)), rows, mode="append", partition_by=["day"])
    delete_old_events(lake.root, lake.settings.events_days)
    kept = log.rows(events_of(lake.root), 'SELECT "table" AS of FROM t ORDER BY at DESC')
    assert [row["of"] for row in kept] == ["0", "300"]


@pytest.mark.spark
def test_a_damaged_event_log_holds_up_neither_a_run_nor_the_upkeep(lake, drop, refreshed, do):
    orders, *_ = chain()
    for name in "ab":
        drop("shop/orders", f"{name}.json", orders_file((1, 5)))
        refreshed(orders)
    newest = max(events_of(lake.root).glob("_delta_log/*.json"))
    newest.write_bytes(newest.read_bytes()[:50])
    assert do("maintain", orders).well
    drop("shop/orders", "c.json", orders_file((2, 5)))
    assert refreshed(orders)[0].total("written") == 1
