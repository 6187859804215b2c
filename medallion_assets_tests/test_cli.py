"""The command line as a person uses it: words, exit codes, and no Spark for what only reads."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from medallion_assets import run
from medallion_assets.cli import app
from medallion_assets.declare.errors import DeclarationError, RefreshFailed
from medallion_assets.declare.pipeline import chosen
from medallion_assets.declare.triggers import Timing
from medallion_assets.definitions import defs
from medallion_assets.pipelines import PIPELINES
from medallion_assets.reports.show import console
from medallion_assets.runs import streaming
from medallion_assets.runs.streaming import running_streams, stream_tables
from medallion_assets.simulators import arrivals


@pytest.fixture
def medallion(lake, monkeypatch, no_spark):
    monkeypatch.setattr("medallion_assets.session.start_session", lambda settings: no_spark())
    # The console was made as its module was imported: a variable set now may come too late.
    monkeypatch.setattr(console, "width", 200)
    return lambda *words: CliRunner().invoke(app, words)


def test_an_unknown_table_is_a_usage_error_that_lists_the_known_ones(medallion):
    done = medallion("run", "school/gold/nothing")
    assert done.exit_code == 2
    assert "school/gold/daily_student_courses" in done.output


def test_land_puts_as_many_files_as_asked_and_its_references(medallion, lake):
    assert medallion("land", "school", "--files", "2").exit_code == 0
    assert len(list(lake.settings.landing.rglob("[!.]*.*"))) == 4


def test_landing_is_the_same_for_the_same_seed(medallion, lake):
    medallion("land", "health", "--seed", "5")
    first = (lake.settings.landing / "health/recordings/recordings_2020_01.json").read_text()
    (lake.settings.landing / "health/recordings/recordings_2020_01.json").unlink()
    medallion("land", "health", "--seed", "5")
    assert (lake.settings.landing / "health/recordings/recordings_2020_01.json").read_text() == first


def test_a_run_with_nothing_landed_starts_no_spark_and_says_so(medallion):
    done = medallion("run", "school")
    assert done.exit_code == 0
    assert "Spark was not started" in done.output


def test_a_run_that_cannot_start_spark_exits_1_and_names_the_tables(medallion):
    medallion("land", "school")
    done = medallion("run", "school")
    assert done.exit_code == 1
    assert "tables failed" in done.output
    assert "not run: school/bronze/students failed" in done.output


def test_a_run_from_a_notebook_prints_what_the_command_does_and_raises_where_a_table_failed(
    medallion, no_spark, monkeypatch, capsys
):
    monkeypatch.setattr("medallion_assets.reports.notebook.start_session", lambda settings: no_spark())
    school = PIPELINES["school"]
    assert all(outcome.refresh.skipped for outcome in run(school))
    assert "Spark was not started" in capsys.readouterr().out
    medallion("land", "school")
    with pytest.raises(RefreshFailed, match="school/bronze/courses"):
        run(school.tables["school/bronze/courses"], trigger="once")
    assert "1 of 1 table failed" in capsys.readouterr().out
    with pytest.raises(DeclarationError, match="medallion stream"):
        run(school, trigger="10s")


def test_status_as_json_has_its_public_keys(medallion):
    found = json.loads(medallion("status", "--json").output)
    assert len(found) == 23
    assert set(found[0]) == {
        "user_schema",
        "pipeline",
        "layer",
        "table",
        "path",
        "version",
        "rows",
        "quarantined",
        "last_run",
        "checks",
    }


READING = [
    "history school.silver.enrollments",
    "files school",
    "quarantine list",
    "quarantine show school/silver/students",
]


@pytest.mark.parametrize("words", READING)
def test_reading_an_empty_lake_says_that_nothing_is_there(medallion, words):
    done = medallion(*words.split())
    assert done.exit_code == 0
    assert "nothing there" in done.output


def test_files_that_landed_are_listed_before_a_run_has_looked_at_them(medallion, lake):
    medallion("land", "school", "--files", "2")
    (lake.settings.landing / "school/enrollments/more.tmp").write_text("")
    told = json.loads(medallion("files", "school/bronze/enrollments", "--json").output)
    landed = [(f"enrollments_000{number}.json", "landed") for number in (1, 2)]
    assert [(file["path"], file["status"]) for file in told] == [*landed, ("more.tmp", "ignored")]
    assert all(file["size"] and file["create_time"] for file in told[:2])
    assert "enrollments_0001.json" in medallion("files", "school").output


def test_a_table_that_is_piped_is_not_folded_at_a_terminals_width(lake):
    told = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    ours = {"MEDALLION_LAKE": str(lake.root), "MEDALLION_LANDING": str(lake.settings.landing)}
    command = [sys.executable, "-c", "from medallion_assets.cli import app; app()", "status", "school"]
    done = subprocess.run(command, env=told | ours, capture_output=True, text=True, check=True)
    head = next(line for line in done.stdout.splitlines() if "version" in line)
    assert all(name in head for name in ("table", "rows", "quarantined", "last_run", "checks"))


@pytest.fixture
def students(lake):
    """Three rows in a bronze table, two in the silver one made from it, written without Spark."""
    for layer, count in (("bronze", 3), ("silver", 2)):
        rows = pa.table({"student_id": [str(number) for number in range(count)]})
        write_deltalake(lake.root / f"school/{layer}/students", rows)


def test_quarantine_show_draws_what_a_row_is_mended_by_and_all_columns_when_asked(medallion, lake):
    entry = {"entry_id": "7f", "rules": ["above_zero"], "row": '{"id": 2}', "status": "open", "run_id": "r9"}
    empty, now = pa.array([None], pa.string()), pa.array([datetime.now(timezone.utc)])
    noted = {name: [value] for name, value in entry.items()} | {"note": empty, "quarantined_at": now}
    write_deltalake(lake.quarantine(PIPELINES["school"].tables["school/silver/students"]), pa.table(noted))
    usual = medallion("quarantine", "show", "school/silver/students").output
    assert all(value in usual for value in ("7f", "above_zero", '{"id": 2}', "open"))
    assert not {"r9", "run_id", "note"} & {*usual.replace("│", " ").replace("┃", " ").split()}
    assert "r9" in medallion("quarantine", "show", "school/silver/students", "--all-columns").output


def test_status_and_history_show_what_a_table_holds(medallion, students):
    (row,) = json.loads(medallion("status", "school/bronze/students", "--json").output)
    assert (row["rows"], row["version"], row["quarantined"]) == (3, 0, 0)
    assert "not run yet" not in row["checks"].values()
    shown = medallion("status", "school").output
    assert "school/bronze/students" in shown
    assert "not run yet" in shown, "of the tables beside it"
    assert all(word in medallion("history", "school/bronze/students").output for word in ("WRITE", "version"))


NUMBERS = {
    "taken_up_to", "upstream_at", "days_left", "quarantined", "log_bytes", "watermark", "open_windows",
    "rows_in_open_windows", "state_bytes", "checkpoint_bytes",
}  # fmt: skip


def test_doctor_prints_its_numbers_as_words_as_json_and_in_the_launchpad(medallion, students):
    told = medallion("doctor", "school/silver/students", "--json")
    (found,) = json.loads(told.output)
    assert set(found["found"]) == NUMBERS
    assert (found["found"]["upstream_at"], found["found"]["days_left"]) == (0, 30.0)
    assert all(
        name in medallion("doctor", "school/silver/students").output for name in ("upstream_at", "30.0")
    )
    config = {"ops": {"do_doctor": {"config": {"tables": ["school/silver/students"]}}}}
    done = defs.resolve_job_def("doctor").execute_in_process(run_config=config, raise_on_error=False)
    (told,) = [e for e in done.all_events if e.event_type_value == "ASSET_OBSERVATION"]
    observed = told.asset_observation_data.asset_observation.metadata["numbers"].value
    assert observed["school/silver/students"] == found["found"]


def test_a_reset_lists_what_it_would_delete_and_with_yes_deletes_it_and_no_landing_file(
    medallion, students, lake
):
    medallion("land", "school")
    landed = sorted(lake.settings.landing.rglob("*.*"))
    listed = medallion("reset", "school/bronze/students")
    assert (listed.exit_code, (lake.root / "school/silver/students").exists()) == (0, True)
    assert "would be deleted" in listed.output
    done = medallion("reset", "school/bronze/students", "--yes")
    assert done.exit_code == 0, done.output
    assert not list((lake.root / "school").rglob("*.parquet"))
    assert sorted(lake.settings.landing.rglob("*.*")) == landed


def test_all_files_of_a_set_land_at_once(medallion, lake):
    assert medallion("land", "commerce", "--all").exit_code == 0
    assert len(list(lake.settings.landing.glob("commerce/orders/*.json"))) == 20
    assert "landed" not in medallion("land", "commerce", "--all").output


def test_files_that_land_one_by_one_end_with_the_year(medallion, lake):
    for _ in range(2):
        done = medallion("land", "health", "--continuous", "--every", "0")
        assert done.exit_code == 0, done.output
        assert len(list(lake.settings.landing.glob("health/recordings/*.json"))) == 12
    assert "landed" not in done.output


def test_the_twenty_landings_of_commerce_come_as_many_seconds_apart_as_asked(medallion, lake, monkeypatch):
    pauses = []
    monkeypatch.setattr(arrivals, "time", SimpleNamespace(sleep=pauses.append))
    done = medallion("land", "commerce", "--continuous", "--every", "4")
    assert done.exit_code == 0, done.output
    assert (
        done.output.count("orders_") == len(list(lake.settings.landing.glob("commerce/orders/*.json"))) == 20
    )
    assert pauses == [4.0] * 19, "between two of them, and not after the last"


def test_a_landing_that_is_interrupted_says_so_and_what_remains_lands_later(medallion, lake, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(arrivals, "time", SimpleNamespace(sleep=interrupted))
    done = medallion("land", "health", "--continuous")
    landed = sorted(lake.settings.landing.glob("health/recordings/*"))
    assert (done.exit_code, len(landed)) == (0, 1)
    assert done.output.endswith(
        "stopped; the files that are left land when `medallion land` is called again\n"
    )
    assert medallion("land", "health", "--all").output.count("recordings_2020_") == 11


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run school --trigger often", "neither availableNow nor once"),
        ("run school --trigger continuous", "cannot write Delta tables"),
        ("run school --trigger 10s", "is for `medallion stream`"),
        ("run school --trigger school/gold/nothing=once", "no table of these is called"),
        ("stream school --trigger school.bronze.students=often", "neither availableNow nor once"),
    ],
)
def test_a_trigger_that_cannot_be_is_a_usage_error_that_says_why(medallion, words, told):
    done = medallion(*words.split())
    assert done.exit_code == 2
    assert told in done.output


def test_stop_ends_every_stream_of_these_tables_and_names_it(medallion, lake, no_spark):
    assert "no stream is running" in medallion("stop").output
    running = [
        threading.Thread(
            target=list, args=(stream_tables(tables, lake, no_spark, 60, threading.Event()),), daemon=True
        )
        for tables in (chosen(PIPELINES, ["school"]), chosen(PIPELINES, ["health"]))
    ]
    for thread in running:
        thread.start()
    deadline = time.monotonic() + 30
    while len(running_streams(lake)) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    done = medallion("stop", "school", "--wait", "30s")
    running[0].join(30)
    assert (done.exit_code, [thread.is_alive() for thread in running]) == (0, [False, True])
    assert all(word in done.output for word in ("school/gold", "stopped", str(os.getpid())))
    assert "health/gold" not in done.output
    assert "health/gold" in medallion("stop").output
    running[1].join(30)
    assert running_streams(lake) == []


def test_stream_takes_its_interval_and_triggers_as_asked_and_a_signal_stops_it(medallion, monkeypatch):
    asked, handlers, signals = [], {}, [signal.SIGTERM, signal.SIGINT]
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)

    def streamed(tables, lake, spark, every_seconds, stop, timings):
        asked.append((every_seconds, timings["school/bronze/courses"], timings["school/bronze/students"]))
        assert not stop.is_set()
        handlers[signals.pop()](0, None)
        assert stop.is_set()
        return iter(())

    monkeypatch.setattr(streaming, "stream_tables", streamed)
    done = medallion("stream", "school", "--every", "5m", "--trigger", "school/bronze/courses=1s")
    assert "every 5m" in done.output
    assert "stopped" in medallion("stream", "school", "--trigger", "once").output
    one, others, once = Timing(every_seconds=1), Timing(), Timing("once")
    assert asked == [(300, one, others), (10, once, once)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_stream_that_waits_at_once_and_leaves_no_record_of_it(lake, how):
    told = {"MEDALLION_LAKE": str(lake.root), "MEDALLION_LANDING": str(lake.settings.landing)}
    command = [sys.executable, "-m", "medallion_assets.cli", "stream", "school", "--every", "10m"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | told) as process:
        assert "7 tables, every 10m" in process.stdout.readline()
        deadline = time.monotonic() + 30
        while not running_streams(lake) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [stream.process for stream in running_streams(lake)] == [process.pid]
        process.send_signal(how)
        rest, _ = process.communicate(timeout=60)
    assert (process.returncode, rest) == (
        0,
        "stopped; files that are not loaded yet wait for the next start\n",
    )
    assert running_streams(lake) == []


def test_a_refresh_with_nothing_new_starts_no_spark_and_bronze_is_not_rebuilt(medallion):
    assert "Spark was not started" in medallion("refresh", "school").output
    refused = medallion("refresh", "school/bronze/students", "--full")
    assert refused.exit_code == 2
    assert "nothing was changed" in refused.output
