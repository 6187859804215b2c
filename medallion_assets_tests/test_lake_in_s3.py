"""A lake in S3 behaves as one on a disk: the same rows after deaths, one writer, and refusals by name."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from medallion_assets.cli import app
from medallion_assets.delta import few_rows, log
from medallion_assets.delta.errors import DamagedTable, UnfitStore
from medallion_assets.delta.rollback import check_format
from medallion_assets.lake import paths
from medallion_assets.lake.paths import Lake
from medallion_assets.runs.run import refresh
from medallion_assets.session.object_store import s3_options
from medallion_assets.settings import current_settings
from medallion_assets.simulators import land
from medallion_assets.storage import (
    ObjectPath,
    StorageUnreachable,
    objects,
    path_of,
    relative,
    remove_tree,
    resolved,
)
from medallion_assets.storage.lease import LeaseLost, TableBusy, held
from medallion_assets.storage.objects import ObjectStorage
from medallion_assets_tests.crash.s3_proxy import watched_store
from medallion_assets_tests.dagster_home import daemon_up, until
from medallion_assets_tests.in_s3 import needs_jars
from medallion_assets_tests.shop import chain


@pytest.fixture
def lake(s3, tmp_path, monkeypatch):
    """A lake and landing zones in S3."""
    monkeypatch.setenv("MEDALLION_LAKE", f"{s3}/{tmp_path.name}/lake")
    monkeypatch.setenv("MEDALLION_LANDING", f"{s3}/{tmp_path.name}/landing")
    return Lake(current_settings())


def compared(s3, folder, work):
    """Return, by step, the tables of a chain in S3 that differ from those on a disk."""
    command = [sys.executable, "-m", "medallion_assets_tests.in_s3", f"{s3}/{work}", str(folder), work]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.spark
@needs_jars
def test_a_chain_in_s3_has_the_rows_of_one_on_a_disk_after_deaths_and_lost_checkpoints(s3, tmp_path):
    assert compared(s3, tmp_path, "deaths") == {
        "first load": [],
        "checkpoints lost half way, and deaths between two commits": [],
    }


@pytest.mark.spark
@pytest.mark.thorough
@needs_jars
def test_a_full_refresh_and_a_replay_in_s3_give_the_rows_they_give_on_a_disk(s3, tmp_path):
    assert compared(s3, tmp_path, "verbs") == {"first load": [], "full refresh and replay": []}


@pytest.mark.spark
@pytest.mark.thorough
@needs_jars
def test_lake_and_landing_zones_each_in_a_place_of_its_own_give_the_rows_of_a_disk(s3, tmp_path):
    assert compared(s3, tmp_path, "placements") == {
        "first load": [],
        "lake in S3, landing in a folder": [],
        "lake in a folder, landing in S3": [],
        "lake in S3, landing in another bucket": [],
    }


@pytest.mark.spark
@pytest.mark.thorough
@needs_jars
def test_a_file_dropped_into_s3_reaches_gold_there_by_the_daemon(tmp_path):
    pytest.importorskip("moto.server", reason="moto[s3] and flask are not installed")
    with watched_store(tmp_path / "store"):
        lake, landing = path_of("s3://bucket/lake"), path_of("s3://bucket/landing")
        land("health", landing, 1)
        gold = lake / "health/gold/daily_patient_avg"
        with daemon_up(tmp_path / "dagster_home", lake, landing) as said:
            assert until(lambda: log.row_count(gold) > 0, 400), said.read_text()[-3000:]
            assert until(lambda: "RUN_SUCCESS" in said.read_text(), 100)
        assert said.read_text().count('Started execution of run for "health_chain"') == 1


@pytest.mark.parametrize("is_new", [True, False])
def test_rows_are_not_appended_to_a_table_that_another_process_wrote_meanwhile(tmp_path, monkeypatch, is_new):
    pytest.importorskip("moto.server", reason="moto[s3] and flask are not installed")
    rows = [pa.table({"id": [number]}) for number in range(3)]
    with watched_store(tmp_path):
        path = path_of("s3://bucket/lake/t")
        if not is_new:
            write_deltalake(str(path), rows[0])
        # Between the look at the lease and the commit, this process is paused for long.
        monkeypatch.setattr(few_rows, "check_held", lambda: taken_over(path, rows[1]))
        with pytest.raises(LeaseLost):
            few_rows.append_next(path, rows[2])
        assert [row["id"] for row in log.rows(path, "SELECT id FROM t ORDER BY id")] == [0, 1][is_new:]


def taken_over(path, rows):
    """Commit as the process that took over, the first time; then say that it did."""
    if not log.exists(path) or [row["id"] for row in log.rows(path, "SELECT id FROM t")] == [0]:
        write_deltalake(str(path), rows, mode="append")
        return
    raise LeaseLost


def test_a_second_writer_of_a_table_in_s3_is_told_who_has_it_and_reads_nothing(lake, no_spark, monkeypatch):
    orders, *_ = chain()
    monkeypatch.setattr(paths, "held", partial(held, wait_seconds=0))
    with (
        held(lake.state(orders, "lease"), orders.key),
        pytest.raises(TableBusy, match=r"shop/bronze/orders is being written by process \d+ since"),
    ):
        refresh(orders, lake, no_spark)
    assert refresh(orders, lake, no_spark).skipped


def test_what_only_looks_reads_a_lake_in_s3_without_spark(lake, s3, monkeypatch):
    run = CliRunner()
    landed = run.invoke(app, ["land", "school"])
    assert landed.exit_code == 0
    assert f"landed {lake.settings.landing}/school/enrollments/enrollments_0001.json" in landed.output
    for command in (["status", "school"], ["doctor", "school"], ["plan", "school"], ["resources"]):
        assert run.invoke(app, command).exit_code == 0, command


def test_cleanup_of_a_lake_in_s3_is_refused_by_name_and_nothing_is_removed(lake):
    orders, *_ = chain()
    kept = lake.state(orders, "note.json")
    kept.write_text("{}")
    refused = CliRunner().invoke(app, ["cleanup", "--yes"])
    assert refused.exit_code == 1
    assert f"cleanup cannot remove files of the lake {lake.root}" in " ".join(refused.output.split())
    assert kept.exists()


def test_a_store_that_overwrites_what_it_was_asked_to_create_is_refused(lake, monkeypatch):
    monkeypatch.setattr(ObjectStorage, "create", lambda self, path, content: self.put(path, content) or True)
    with pytest.raises(UnfitStore, match=r"If-None-Match.*use a store that does"):
        check_format(lake.root)
    assert not list(lake.root.iterdir())
    monkeypatch.undo()
    check_format(lake.root)
    check_format(lake.root)


def test_an_address_is_a_path_whose_files_the_store_has(lake):
    root = lake.root
    (root / "shop/_state/bronze/orders/schemas/0.json").write_text("{}")
    (root / "shop/_state/bronze/orders/schemas/1.json").write_bytes(b"{}")
    (root / "shop/bronze/orders/_delta_log/0.json").write_text("x")
    assert str(root / "shop") == f"{root}/shop"
    assert [p.name for p in root.glob("*/_state/*/*/schemas/*.json")] == ["0.json", "1.json"]
    assert [str(p.parent) for p in root.glob("*/bronze/*/_delta_log")] == [f"{root}/shop/bronze/orders"]
    assert [p.name for p in (root / "shop").glob("**/1.json")] == ["1.json"]
    assert sorted(p.name for p in root.rglob("*.json")) == ["0.json", "0.json", "1.json"]
    assert (root / "shop").is_dir()
    assert not (root / "shop").is_file()
    assert (root / "shop/bronze/orders/_delta_log/0.json").stat().st_size == 1
    remove_tree(root / "shop/_state")
    assert not (root / "shop/_state").exists()
    assert (root / "shop/bronze/orders/_delta_log/0.json").read_text() == "x"


def test_what_an_object_store_cannot_do_is_an_error_and_no_file_of_this_machine(lake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for wrong in (
        lambda: (lake.root / "a").rename(lake.root / "b"),
        lambda: (lake.root / "a").open("w"),
        lambda: open(lake.root / "a", "w"),  # noqa: PTH123, SIM115
        lambda: (lake.root / "a").touch(),
    ):
        with pytest.raises(TypeError, match="s3://"):
            wrong()
    assert not list(tmp_path.iterdir())


def test_paths_are_recorded_as_seen_from_a_folder_of_the_same_store_so_that_both_can_move():
    ledger, moved = (
        path_of("s3://old/lake/shop/_ledger/orders"),
        path_of("s3://new/x/lake/shop/_ledger/orders"),
    )
    recorded = relative("s3://old/landing/shop/orders", ledger)
    assert resolved(moved, recorded) == "s3://new/x/landing/shop/orders"
    assert relative("/landing/orders", ledger) == "/landing/orders"
    assert resolved(ledger, "/landing/orders") == "/landing/orders"
    assert relative("s3://other/orders", ledger) == resolved(ledger, "s3://other/orders")


@pytest.mark.parametrize("written", ["s3://bucket/lake/", "s3a://bucket/lake"])
def test_a_setting_names_a_lake_in_s3_by_the_one_address_that_every_reader_knows(written, monkeypatch):
    monkeypatch.setenv("MEDALLION_LAKE", written)
    monkeypatch.setenv("MEDALLION_USER_SCHEMA", "ada")
    lake = current_settings().lake
    assert isinstance(lake, ObjectPath)
    assert str(lake) == "s3://bucket/lake/_users/ada"


def test_a_project_may_name_lake_and_landing_zones_in_s3(tmp_path, monkeypatch):
    text = '[tool.medallion]\nlake = "s3://bucket/lake"\nlanding = "landing"\n'
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    settings = current_settings()
    assert str(settings.lake) == "s3://bucket/lake"
    assert settings.landing == tmp_path / "landing"


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({"AWS_REGION": "eu-central-1"}, {"endpoint.region": "eu-central-1"}),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"},
            {
                "endpoint": "http://127.0.0.1:9000",
                "connection.ssl.enabled": "false",
                "path.style.access": "true",
            },
        ),
        (
            {"AWS_ENDPOINT_URL": "https://s3.example", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"},
            {
                "endpoint": "https://s3.example",
                "connection.ssl.enabled": "true",
                "path.style.access": "false",
            },
        ),
        (
            {"AWS_SKIP_SIGNATURE": "true"},
            {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
        ),
    ],
)
def test_spark_is_given_the_store_of_the_environment_and_no_credentials(environment, options):
    secret = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    found = s3_options(environment | secret)
    assert {f"spark.hadoop.fs.s3a.{name}": value for name, value in options.items()}.items() <= found.items()
    assert not {"id", "secret"} & {*found.values()}


def test_a_store_that_does_not_answer_is_told_as_that_and_not_as_a_damaged_table(lake, monkeypatch):
    path = lake.root / "shop/bronze/orders"
    (path / "_delta_log/00000000000000000000.json").write_text("{}")
    with pytest.raises(DamagedTable, match="cannot be opened"):
        log.opened(path)

    def silent(*_):
        raise StorageUnreachable("s3://... could not be reached")

    monkeypatch.setattr(ObjectStorage, "stat", silent)
    with pytest.raises(StorageUnreachable):
        log.opened(path)


def test_a_command_says_in_one_paragraph_that_a_plain_address_has_to_be_allowed(lake, monkeypatch):
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    objects._object_storage.cache_clear()
    done = CliRunner().invoke(app, ["status"])
    assert done.exit_code == 1
    assert "set AWS_ALLOW_HTTP=true for a store at an http:// address, and run again" in done.output
    assert "Traceback" not in done.output
    objects._object_storage.cache_clear()
