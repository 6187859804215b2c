"""A table's position, epoch and account are in its own commits: nothing beside it is needed to go on."""

import json
import shutil
from dataclasses import replace

import pytest

from medallion_assets.declare.errors import RefreshFailed
from medallion_assets.delta import log
from medallion_assets.delta.batches import Batch, newest, newest_flows, recorded, stamp
from medallion_assets.delta.commit import PENDING, Transaction
from medallion_assets.delta.errors import LakeFormatUnknown, LateCommit
from medallion_assets.delta.position import app_id, epoch_of, position_of
from medallion_assets.delta.progress import agrees, goes_on
from medallion_assets.delta.rollback import FILE, ROLLED_BACK, check_format, unfinished, version_before
from medallion_assets.quarantine.choice import QuarantineFilter
from medallion_assets.quarantine.quarantined import append_refused
from medallion_assets.replay.replay import replay
from medallion_assets.runs.run import refresh
from medallion_assets.runtime import write
from medallion_assets_tests.corners.history_model import Shop, steps_of
from medallion_assets_tests.examples import seldom
from medallion_assets_tests.shop import chain, json_lines, order, orders_and_sales, totals_file

KEY = "shop/silver/sales"


def commit_to(path, told, txn=None, operation="WRITE"):
    """Commit nothing but a transaction and metadata, as a writer would that Spark or a person runs."""
    folder = path / "_delta_log"
    first = not folder.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.glob("*.json")))
    info = {"timestamp": number, "operation": operation, "operationParameters": {}}
    actions = [{"commitInfo": {**info, **({"userMetadata": json.dumps(told)} if told else {})}}]
    if first:
        columns = {"type": "struct", "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}}]}  # fmt: skip
        actions += [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": {
            "id": "t", "format": {"provider": "parquet", "options": {}}, "configuration": {},
            "schemaString": json.dumps(columns), "partitionColumns": []}}]  # fmt: skip
    actions += [{"txn": {"appId": txn[0], "version": txn[1]}}] if txn else []
    (folder / f"{number:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def batch_to(path, position, flow="", epoch=0, run_id="r", before=None, **numbers):
    batch = replace(Batch(position, 1, 1, 0), **numbers)
    app = app_id(KEY, epoch, flow)
    signed = stamp(Transaction(app, position, {"run_id": run_id, "epoch": epoch}, before), path, flow, batch)
    commit_to(path, signed.commit_metadata, (app, position))


def test_position_and_totals_are_found_below_any_number_of_foreign_commits(tmp_path):
    for position in range(3):
        batch_to(tmp_path, position, dropped=2, statics={"cities": position})
    for _ in range(120):
        commit_to(tmp_path, None, operation="OPTIMIZE")
    assert position_of(tmp_path, KEY) == 2
    last = newest(tmp_path)
    assert (last.total_dropped, last.total_applied, last.statics) == (6, 3, {"cities": 2})
    assert [batch.position for batch in recorded(tmp_path)] == [0, 1, 2]


def test_a_flow_keeps_its_position_and_totals_below_any_number_of_another_ones_commits(tmp_path):
    batch_to(tmp_path, 4, flow="west", duplicates=3)
    for position in range(130):
        batch_to(tmp_path, position)
    assert (position_of(tmp_path, KEY, "west"), position_of(tmp_path, KEY)) == (4, 129)
    # Delta drops old entries of a log: the newest of ours alone still knows the other flow.
    told = newest_flows(tmp_path)
    assert newest_flows(tmp_path, upto=130) == told
    assert told["west"]["batch"]["total_duplicates"] == 3


def test_a_new_epoch_lets_a_position_go_back_and_keeps_those_of_other_flows(tmp_path):
    batch_to(tmp_path, 9)
    batch_to(tmp_path, 5, flow="west")
    batch_to(tmp_path, 3, epoch=1)
    assert epoch_of(tmp_path, KEY) == 1
    assert (position_of(tmp_path, KEY), position_of(tmp_path, KEY, "west")) == (3, 5)
    batch_to(tmp_path, 4, epoch=1)
    assert position_of(tmp_path, KEY) == 4


def test_what_a_quarantine_took_counts_once_its_table_has_committed(tmp_path):
    path, quarantine = tmp_path / "t", tmp_path / "q"
    batch_to(path, 0)
    commit_to(quarantine, {"run_id": "old"})
    half = Transaction(app_id(KEY, 0), 1, {"run_id": "r"}, before=0).of_quarantine
    for _ in range(2):
        commit_to(quarantine, half.commit_metadata)
    for _ in range(3):
        commit_to(quarantine, None, operation="OPTIMIZE")
    found = unfinished(path, quarantine)
    assert (found.version, found.before) == (1, 0)
    batch_to(path, 1)
    assert unfinished(path, quarantine) is None


def test_what_a_quarantine_took_from_a_run_that_was_paused_does_not_count_once_another_made_its_batch(
    tmp_path,
):
    path, quarantine = tmp_path / "t", tmp_path / "q"
    batch_to(path, 0)
    batch_to(path, 2)
    batch_to(path, 3)
    commit_to(quarantine, {"run_id": "old"})
    for version in (1, 2):
        # The other run came to 2 in one batch, or made the very same batch.
        half = Transaction(app_id(KEY, 0), version, {"run_id": "paused"}, before=0).of_quarantine
        commit_to(quarantine, half.commit_metadata)
        assert unfinished(path, quarantine)[1:] == (version, 0, "paused")
        with pytest.raises(LateCommit, match="run paused, which was paused and lost this table's lease"):
            version_before(path, quarantine, "r")
        commit_to(quarantine, {"run_id": "r", ROLLED_BACK: half.commit_metadata[PENDING]})
        assert version_before(path, quarantine, "r") == 2 * version


def test_what_a_quarantine_took_counts_whoever_wrote_the_batches_after_it(tmp_path):
    path, quarantine = tmp_path / "t", tmp_path / "q"
    half = Transaction(app_id(KEY, 0), 1, {"run_id": "r"}).of_quarantine
    commit_to(quarantine, half.commit_metadata)
    batch_to(path, 1)
    assert unfinished(path, quarantine) is None
    batch_to(path, 2, run_id="other", before=0)
    assert unfinished(path, quarantine) is None
    for number in range(3, 6):
        batch_to(path, number, run_id=str(number), before=0)
        commit_to(path, None, operation="OPTIMIZE")
    assert unfinished(path, quarantine) is None


@pytest.mark.parametrize(
    ("committed", "planned", "position", "goes", "repeats"),
    [(3, 3, 3, True, True), (3, 4, 3, False, True), (3, 4, 4, False, True), (2, 2, 3, False, False),
     (4, 4, 3, False, False), (2, 3, 5, False, False)],
)  # fmt: skip
def test_a_checkpoint_is_used_only_at_the_tables_own_position(
    tmp_path, committed, planned, position, goes, repeats
):
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for number, version in enumerate(sorted({committed, planned})):
        offset = {"reservoirVersion": version + 1, "index": -1}
        (tmp_path / f"offsets/{number}").write_text(f"v1\n{json.dumps(offset)}\n")
    (tmp_path / "commits/0").write_text("v1\n{}")
    assert (goes_on(tmp_path, position), agrees(tmp_path, position)) == (goes, repeats)


def test_a_lake_of_another_format_or_of_none_is_refused_by_name(tmp_path):
    check_format(tmp_path / "new")
    check_format(tmp_path / "new")
    (tmp_path / "new" / FILE).write_text('{"format": 99}')
    with pytest.raises(LakeFormatUnknown, match=r"new has tables and is of format 99, .* format 2; nothing"):
        check_format(tmp_path / "new")
    commit_to(tmp_path / "old/shop/bronze/orders", {"run_id": "r"})
    with pytest.raises(LakeFormatUnknown, match=r"the lake at .*/old has tables and says no format"):
        check_format(tmp_path / "old")


@pytest.mark.spark
def test_a_batch_is_not_committed_beside_what_a_paused_run_put_into_the_quarantine(
    drop, refreshed, lake, spark, rows_of, monkeypatch
):
    orders, sales, _ = chain(bronze_rules=())
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -1)))
    refreshed(orders, sales)
    drop("shop/orders", "b.json", json_lines(order(3, 5), order(4, -1)))
    refreshed(orders)
    quarantine = lake.quarantine(sales)

    def late(verdict, counts, table, path, transaction):
        stale = replace(transaction, commit_metadata={"run_id": "paused"}).of_quarantine
        commit_to(quarantine, stale.commit_metadata)
        append_refused(verdict, counts, table, path, transaction)

    with monkeypatch.context() as patch:
        patch.setattr(write, "append_refused", late)
        with pytest.raises(RefreshFailed, match="run paused, which was paused and lost"):
            refresh(sales, lake, lambda: spark)
    refreshed(sales)
    assert [row["id"] for row in rows_of(sales.key, "SELECT id FROM t ORDER BY id")] == [1, 3]
    assert log.row_count(quarantine) == 2


@pytest.mark.spark
def test_a_corrected_file_loads_after_a_replay_in_append_mode(drop, refreshed, lake, spark, rows_of):
    orders, *_ = chain(bronze_rules=(), allow_overwrites="append", settle_seconds=0)
    broken = '{"id": 2, "total": -7, "at"\n'
    drop("shop/orders", "a.json", json_lines(order(1, 5)) + broken)
    refreshed(orders)
    assert replay(orders, lake, spark, QuarantineFilter(), """row = '{"id": 2, "total": 7}'""").written == 1
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(3, 6)))
    refreshed(orders)
    found = rows_of("shop/bronze/orders", "SELECT id FROM t ORDER BY id")
    assert [row["id"] for row in found] == [1, 1, 2, 3]


@pytest.mark.spark
def test_a_table_goes_on_below_foreign_commits_with_nothing_beside_it(drop, refreshed, rows_of, lake):
    tables = orders_and_sales()
    drop("shop/orders", "a.json", totals_file(1, 2))
    refreshed(*tables)
    for table in tables:
        for _ in range(60):
            commit_to(lake.path(table), None, operation="OPTIMIZE")
        shutil.rmtree(lake.state(table, "."))
    drop("shop/orders", "b.json", totals_file(3, start=10))
    refreshed(*tables)
    for key in ("shop/bronze/orders", "shop/silver/sales"):
        assert [r["total"] for r in rows_of(key, "SELECT total FROM t ORDER BY id")] == [1, 2, 3]


@pytest.mark.spark
@pytest.mark.parametrize("died_at", [1, seldom(2), 3, seldom(4)])
def test_a_batch_that_died_is_taken_again_whole_also_by_other_rules_and_without_a_sidecar(
    lakehouse_here, lake, drop, rows_of, died_at
):
    house = lakehouse_here
    tables = chain(landing_rules())
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -7)) + "{broken\n")
    house.run(*tables)
    drop("shop/orders", "b.json", json_lines(order(3, 6), order(4, -8)) + "{broken too\n")
    with house.crash_at(died_at):
        house.run(*tables)
    shutil.rmtree(lake.root / "shop/_state")
    tables = chain(landing_rules("total > -8"))
    house.run(*tables)
    house.assert_conserved(*tables)
    found = rows_of("shop/silver/sales", "SELECT id FROM t ORDER BY id")
    held = rows_of("shop/quarantine/sales", "SELECT row FROM t")
    ids = [r["id"] for r in found] + [json.loads(h["row"])["id"] for h in held]
    assert sorted(ids) == [1, 2, 3, 4]
    assert rows_of("shop/quarantine/orders", "SELECT count(*) AS n FROM t") == [{"n": 2}]


def landing_rules(predicate="total > 0"):
    from medallion_assets.declare import expect

    return (expect("above", predicate),)


@pytest.mark.spark
@pytest.mark.thorough
def test_an_older_copy_of_everything_beside_a_stateful_table_changes_no_row(drop, refreshed, rows_of, lake):
    tables = chain(gold="complete")
    drop("shop/orders", "a.json", json_lines(order(1, 5)))
    refreshed(*tables)
    states = lake.root / "shop/_state"
    shutil.copytree(states, lake.root / "older")
    drop("shop/orders", "b.json", json_lines(order(2, 6)))
    refreshed(*tables)
    shutil.rmtree(states)
    shutil.copytree(lake.root / "older", states)
    drop("shop/orders", "c.json", json_lines(order(3, 7)))
    refreshed(*tables)
    assert rows_of("shop/gold/totals", "SELECT total, sales FROM t") == [{"total": 18, "sales": 3}]


@pytest.mark.spark
@pytest.mark.thorough
def test_an_undo_puts_rows_back_and_later_rows_still_arrive(drop, refreshed, do, rows_of):
    tables = chain(landing_rules())
    drop("shop/orders", "a.json", json_lines(order(1, 5), order(2, -7)))
    refreshed(*tables)
    changed = chain(landing_rules("total > -100"))
    assert do("full_refresh", changed[1]).well
    assert len(rows_of("shop/silver/sales")) == 2
    assert do("undo", tables[1]).well
    drop("shop/orders", "b.json", json_lines(order(3, 6)))
    refreshed(*tables)
    found = rows_of("shop/silver/sales", "SELECT id FROM t ORDER BY id")
    assert [row["id"] for row in found] == [1, 3]
    assert rows_of("shop/quarantine/sales", "SELECT count(*) AS n FROM t") == [{"n": 1}]
    assert rows_of("shop/gold/totals", "SELECT total FROM t") == [{"total": 11}]


@pytest.mark.spark
@pytest.mark.parametrize("seed", [3])
def test_lost_and_aged_state_changes_no_row_of_a_history(lakehouse, medallion_spark, seed):
    live_disturbed(lakehouse, medallion_spark, seed, 6)


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 130))
def test_lost_and_aged_state_changes_no_row_of_a_long_history(lakehouse, medallion_spark, seed):
    live_disturbed(lakehouse, medallion_spark, seed, 25)


def live_disturbed(lakehouse, spark, seed, length):
    shop, done = Shop(lakehouse, spark, seed), []
    try:
        for step in steps_of(seed, length, disturbed=True):
            done.append(tuple(step))
            shop.do(step)
        shop.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}, {shop.model.mode}, after {done}: {error}") from error
