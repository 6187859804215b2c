"""Several people in one lake folder: what each one has, and a cleanup that takes nothing else."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import dagster as dg
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from medallion_assets import autoload_to_table, bad_records, cleanup, create_table_as, resources
from medallion_assets.cli import app
from medallion_assets.declare.pipeline import chosen
from medallion_assets.definitions import defs
from medallion_assets.lake.paths import Lake, sole_writer
from medallion_assets.pipelines import PIPELINES
from medallion_assets.quality.verdicts import verdicts
from medallion_assets.reports.show import console
from medallion_assets.runs.run import refresh, run_tables
from medallion_assets.runs.streaming import running_streams, stream_tables
from medallion_assets.settings import current_settings
from medallion_assets.simulators import land
from medallion_assets.sources.errors import SourceError
from medallion_assets.storage.lease import TableBusy, open_to_writers

COURSES = PIPELINES["school"].tables["school/bronze/courses"]


@pytest.fixture
def as_user(lake, monkeypatch):
    """Return a function that makes this process a user's, and gives their lake."""

    def become(name):
        monkeypatch.setenv("MEDALLION_USER_SCHEMA", name)
        return Lake(current_settings())

    return become


@pytest.fixture
def medallion(lake, monkeypatch, no_spark):
    monkeypatch.setattr("medallion_assets.session.start_session", lambda settings: no_spark())
    monkeypatch.setattr(console, "width", 300)
    return lambda *words: CliRunner().invoke(app, words)


def everything(folder):
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


def kinds(found):
    return {each.kind for each in found}


def test_a_user_has_a_lake_and_landing_zones_of_their_own_and_the_shared_ones_stay(lake, as_user, tmp_path):
    anna, ben = as_user("Anna_1"), as_user("ben")
    assert anna.root == tmp_path / "lake/_users/anna_1"
    assert ben.settings.landing == tmp_path / "landing/_users/ben"
    assert ben.settings.resolved() == ben.settings
    assert as_user("").root == lake.root


@pytest.mark.parametrize("name", ["../ben", "a/b", "..", ".", "_users", "a b", "a.b", "ann\n", "ä", "x" * 65])
def test_a_name_that_could_leave_its_folder_is_refused(as_user, medallion, name):
    with pytest.raises(ValidationError, match="cannot be a user's schema"):
        as_user(name)
    done = medallion("cleanup", "--yes")
    assert (done.exit_code, "letters, digits and _" in done.output) == (2, True)


def test_pyproject_may_name_the_user_and_the_environment_wins(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.medallion]\nuser_schema = "carla"\n')
    monkeypatch.chdir(tmp_path)
    assert current_settings().lake == tmp_path / "lake/_users/carla"
    monkeypatch.setenv("MEDALLION_USER_SCHEMA", "dora")
    assert current_settings().lake == tmp_path / "lake/_users/dora"


def test_status_and_doctor_say_whose_tables_they_speak_of(as_user, medallion):
    as_user("anna")
    assert "Tables of anna" in medallion("status").output
    assert {row["user_schema"] for row in json.loads(medallion("status", "--json").output)} == {"anna"}
    assert "doctor of anna" in medallion("doctor", "school").output
    told = json.loads(medallion("doctor", "school/bronze/courses", "--json").output)
    assert told[0]["found"]["user_schema"] == "anna"


@pytest.mark.spark
def test_two_users_work_side_by_side_and_a_cleanup_takes_one_users_work_alone(
    as_user, spark, tmp_path, lake, medallion
):
    shared, bad = tmp_path / "shared", tmp_path / "bad"
    shared.mkdir()
    (shared / "a.json").write_text('{"id": 1}\n{"id": \n')
    made = {}
    for user, files in (("anna", 1), ("ben", 2)):
        place = as_user(user)
        land("school", place.settings.landing, files, seed=files)
        refresh(COURSES, place, lambda: spark)
        load = autoload_to_table(shared, "json", "web.bronze.t", tmp_path / "checkpoints" / user,
                                 spark=spark, bad_records_path=str(bad))  # fmt: skip
        assert (load.rows_loaded, load.rows_quarantined) == (1, 1)
        made[user] = place
    assert bad_records(bad, spark).select("batch").distinct().count() == 2
    anna, ben = made["anna"], made["ben"]
    (anna.root / "notes.txt").write_text("mine")
    (anna.root / "school/bronze/courses/notes.txt").write_text("mine")
    (anna.root / "linked").symlink_to(tmp_path / "bens")
    (tmp_path / "bens").symlink_to(ben.root)
    (tmp_path / "checkpoints/anna/notes.txt").write_text("mine")
    # As a load leaves them whose bad_records_path is relative, and a batch that dies.
    for batch in bad.iterdir():
        shutil.copytree(batch, anna.root / "web/rejects" / batch.name)
    for staged in (anna.root / "web/_staging/bronze_t/1", tmp_path / "checkpoints/anna/staging/1"):
        staged.mkdir(parents=True)
        (staged / "rows.parquet").write_bytes(b"PAR1")
    (tmp_path / "checkpoints/anna/ahead").symlink_to(tmp_path / "checkpoints/ben")
    (anna.settings.landing / "school/courses/mine.csv").write_text("course_id\nC99\n")
    before = everything(ben.root), everything(ben.settings.landing), everything(tmp_path / "checkpoints/ben")
    as_user("anna")

    shown = medallion("resources").output
    assert "Resources of anna" in shown
    assert all(w in shown for w in ("web/bronze/t", "checkpoints/anna", "notes.txt", "not of this lake"))
    rows = {each.name: each.rows for each in resources() if each.kind in ("table", "quarantine")}
    assert (rows["school/bronze/courses"], rows["web/bronze/t"], rows["web/quarantine/t"]) == (15, 1, 1)
    bad_ones = [each for each in resources() if each.kind == "bad records"]
    assert [Path(each.path).parent for each in bad_ones] == [bad, anna.root / "web/rejects"]
    assert {each.rows for each in bad_ones} == {1}
    assert [(each.name, each.files) for each in resources() if each.kind == "staging"] == [
        ("web/bronze_t", 1)
    ]
    (checkpoint,) = (each for each in resources() if each.path == str(tmp_path / "checkpoints/anna"))
    assert str(tmp_path / "checkpoints/anna/staging/1/rows.parquet") in checkpoint.paths

    listed = medallion("cleanup", "--landing").output
    assert "Would be removed" in listed
    assert anna.path(COURSES).exists()
    done = medallion("cleanup", "--yes", "--landing")
    assert (done.exit_code, "Removed of anna" in done.output) == (0, True)

    assert (
        everything(ben.root),
        everything(ben.settings.landing),
        everything(tmp_path / "checkpoints/ben"),
    ) == before
    assert bad_records(bad, spark).select("batch").distinct().count() == 1
    left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file() and "anna" in p.parts}
    bens = {name for name in left if "/web/rejects/" in name}
    assert bens
    assert all("-ben.web.bronze.t-" in name for name in bens), "of another user's load, wherever they lie"
    assert left - bens == {
        "lake/_users/anna/notes.txt", "lake/_users/anna/school/bronze/courses/notes.txt",
        "checkpoints/anna/notes.txt", "landing/_users/anna/school/courses/mine.csv",
    }  # fmt: skip
    assert (anna.root / "linked").is_symlink()
    assert kinds(resources()) == {"landing", "not of this lake"}

    # The same session goes on in the place of what was removed.
    refresh(COURSES, anna, lambda: spark)
    assert spark.read.format("delta").load(str(anna.path(COURSES))).count() == 1
    assert all(verdict.passed for verdict in verdicts(COURSES, anna))
    assert refresh(COURSES, ben, lambda: spark).skipped


@pytest.mark.spark
def test_dagster_refreshes_and_looks_at_the_users_lake(as_user, spark):
    anna = as_user("anna")
    land("school", anna.settings.landing, 1)
    with dg.DagsterInstance.ephemeral() as instance:
        job = defs.resolve_job_def("school_chain")
        only = [dg.AssetKey(COURSES.key.split("/"))]
        done = job.execute_in_process(instance=instance, asset_selection=only)
        shown = done.get_asset_materialization_events()[0].materialization.metadata
    assert shown["dagster/row_count"].value == 15
    assert str(anna.root) in str(shown)
    assert [each.name for each in resources() if each.kind == "table"] == [COURSES.key]
    assert not as_user("ben").root.exists()


@pytest.mark.spark
def test_a_table_made_by_a_query_is_removed_and_one_that_somebody_else_wrote_is_not(lake, spark):
    create_table_as("web.gold.mine", "SELECT 1 AS one", spark=spark)
    foreign = lake.root / "web/gold/foreign"
    spark.range(3).write.format("delta").save(str(foreign))
    create_table_as("web.other.mine", "SELECT 1 AS one", spark=spark)
    removed = [each.name for each in cleanup(yes=True) if each.kind == "table"]
    assert removed == ["web/gold/mine", "web/other/mine"]
    assert spark.read.format("delta").load(str(foreign)).count() == 3
    assert not (lake.root / "web/gold/mine").exists()
    # The lake is still one of this format.
    assert create_table_as("web.gold.mine", "SELECT 2 AS one", spark=spark) == 0


@pytest.mark.spark
def test_a_landing_file_that_two_users_read_is_moved_only_once_both_have_it(as_user, spark, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()

    def load(user, **options):
        as_user(user)
        checkpoint = tmp_path / "checkpoints" / user
        autoload_to_table(shared, "json", "web.bronze.t", checkpoint, spark=spark, **options)
        return sorted(path.name for path in shared.iterdir())

    cleans = {"clean_source": "MOVE", "clean_source_retention_days": 0,
              "clean_source_move_destination": str(tmp_path / "taken")}  # fmt: skip
    (shared / "a.json").write_text('{"id": 1}\n')
    load("ben")
    (shared / "b.json").write_text('{"id": 2}\n')
    assert load("anna", **cleans) == ["b.json"]
    load("ben")
    assert load("anna", **cleans) == []


@pytest.mark.parametrize("name", ["_users.bronze.t", "_events.bronze.t", "shop._state.t", "_streams.a.b"])
def test_no_table_has_the_name_of_a_folder_of_the_lakes_own(lake, name):
    with pytest.raises(SourceError, match="begins with _"):
        create_table_as(name, "SELECT 1 AS one")


def test_the_shared_lakes_cleanup_leaves_every_users_lake(lake, as_user, no_spark):
    anna = as_user("anna")
    for place in (lake, anna):
        refresh(COURSES, place, no_spark)
        land("school", place.settings.landing)
    before = everything(anna.root), everything(anna.settings.landing)
    assert kinds(cleanup(lake, yes=True, landing=True)) >= {"checkpoint", "simulated landing"}
    assert (everything(anna.root), everything(anna.settings.landing)) == before
    assert [p.name for p in lake.root.iterdir()] == ["_users"]


def test_landing_files_stay_without_the_flag_and_a_changed_one_with_it(lake, no_spark):
    refresh(COURSES, lake, no_spark)
    landed = land("school", lake.settings.landing)
    cleanup(lake, yes=True)
    assert not lake.root.exists()
    assert all(path.exists() for path in landed)
    changed = next(path for path in landed if path.suffix == ".csv")
    changed.write_text("course_id\nC1\n")
    assert kinds(cleanup(lake, yes=True, landing=True)) == {"simulated landing"}
    assert [path for path in landed if path.exists()] == [changed]
    assert [(each.kind, each.files) for each in resources(lake)] == [("landing", 1)]


def test_a_cleanup_is_refused_while_a_run_holds_the_lake_or_a_table_of_it(lake, no_spark, medallion):
    running = run_tables([COURSES], lake, no_spark)
    next(running)
    with pytest.raises(TableBusy, match="a run is at work"):
        cleanup(lake, yes=True)
    assert medallion("cleanup", "--yes").exit_code == 1
    assert list(running) == []
    script = (
        "import time; from pathlib import Path; from medallion_assets.storage.lease import held\n"
        f"with held(Path({str(lake.state(COURSES, 'lease'))!r}), 't'):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=os.environ)
    try:
        assert other.stdout.readline()
        with pytest.raises(TableBusy, match="Nothing was removed"):
            cleanup(lake, yes=True)
    finally:
        other.kill()
        other.communicate()
    assert cleanup(lake, yes=True)
    assert not lake.root.exists()


def test_a_cleanup_is_refused_while_a_stream_is_up_and_another_users_stream_does_not_matter(
    lake, as_user, no_spark
):
    anna = as_user("anna")
    refresh(COURSES, lake, no_spark)
    stop = threading.Event()
    thread = threading.Thread(target=list, args=(stream_tables([COURSES], anna, no_spark, 60, stop),))
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not running_streams(anna) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert cleanup(lake, yes=True)
        with pytest.raises(TableBusy):
            cleanup(anna, yes=True)
    finally:
        stop.set()
        thread.join(30)
    cleanup(anna, yes=True)
    assert not anna.root.exists()


def test_a_run_that_begins_during_a_cleanup_waits_for_it(lake):
    entered = threading.Event()

    def write():
        with sole_writer(COURSES, lake):
            entered.set()

    with open_to_writers(lake.root, alone=True):
        thread = threading.Thread(target=write)
        thread.start()
        assert not entered.wait(0.5)
    assert entered.wait(10)
    thread.join()


def test_every_pipelines_folder_may_be_a_link_that_is_not_followed(lake, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "_state/bronze/courses").mkdir(parents=True)
    (elsewhere / "_state/bronze/courses/looked.json").write_text("{}")
    lake.root.mkdir()
    (lake.root / "school").symlink_to(elsewhere)
    assert cleanup(lake, yes=True) == []
    assert (elsewhere / "_state/bronze/courses/looked.json").exists()
    assert [Path(each.path).name for each in resources(lake)] == ["school"]
    assert chosen(PIPELINES, ["school"])
