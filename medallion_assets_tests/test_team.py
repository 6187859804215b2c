"""Dagster for a team: what ``medallion new deployment`` writes, run as processes on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from dagster._cli import cli as dagster_cli
from dagster._core.instance.ref import InstanceRef
from dagster._daemon.cli import cli as daemon_cli
from dagster_webserver.cli import dagster_webserver
from typer.testing import CliRunner

from medallion_assets.cli import app
from medallion_assets.delta import log
from medallion_assets_tests.dagster_home import until
from medallion_assets_tests.s3_server import free_ports
from medallion_assets_tests.team import Team, post, postgres, program

PROGRAMS = {"dagster": dagster_cli, "dagster-daemon": daemon_cli, "dagster-webserver": dagster_webserver}
LAUNCH = """
mutation Launch($job: String!) {
  launchRun(executionParams: {selector: {
    repositoryLocationName: "bookshop", repositoryName: "__repository__", jobName: $job
  }, runConfigData: {}, mode: "default"}) { __typename ... on PythonError { message } }
}
"""
FRESH = """
{ assetNodes {
    assetKey { path }
    freshnessStatusInfo { freshnessStatus }
    internalFreshnessPolicy { ... on TimeWindowFreshnessPolicy { failWindowSeconds } }
} }
"""
POOL = "other__bronze__orders"
CLAIM = f"""
import sys
from dagster import DagsterInstance, DagsterRun
from dagster._core.execution.plan.instance_concurrency_context import InstanceConcurrencyContext
with DagsterInstance.get() as instance:
    with InstanceConcurrencyContext(instance, DagsterRun("chain", run_id=sys.argv[1])) as pools:
        print(pools.claim({POOL!r}, "step"))
"""


def written(folder):
    """Return a project of its own, with what a team needs, in this folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert CliRunner().invoke(app, ["new", "project", "bookshop"]).exit_code == 0
        os.chdir("bookshop/bookshop")
        done = CliRunner().invoke(app, ["new", "deployment"], env={"MEDALLION_PIPELINES": None})
        assert done.exit_code == 0, done.output
    finally:
        os.chdir(before)
    gold = folder / "bookshop/bookshop/gold.py"
    gold.write_text(
        gold.read_text().replace(
            'row_count_column="orders"', 'row_count_column="orders", fresh_within="1 day"'
        )
    )
    return folder / "bookshop"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("MEDALLION_PIPELINES")
    return written(tmp_path)


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """Postgres, code location, a read-only web server and one that launches."""
    pytest.importorskip("dagster_postgres", reason="dagster-postgres is not installed")
    folder = tmp_path_factory.mktemp("team")
    with postgres() as database, pytest.MonkeyPatch.context() as patch:
        patch.delenv("MEDALLION_PIPELINES", raising=False)
        team = Team(written(folder), folder / "home", database)
        with team.stack:
            for service in ("code", "viewer", "operator"):
                team.start(service)
            yield team


def test_every_command_of_the_compose_file_is_one_that_exists(project):
    services = yaml.safe_load((project / "deploy/compose.yaml").read_text())["services"]
    seen = []
    for service in services.values():
        checks = [service.get("command"), service.get("healthcheck", {}).get("test", [])[1:]]
        for words in (list(map(str, words)) for words in checks if words and words[0] in PROGRAMS):
            command, rest = PROGRAMS[words[0]], words[1:]
            while isinstance(command, click.Group):
                command = command.get_command(click.Context(command), rest.pop(0))
                assert command is not None, words
            # An option that does not exist is an error of the parser.
            _, left, _ = command.make_parser(click.Context(command)).parse_args(rest)
            assert left == [], words
            seen.append(words[0])
    assert sorted(seen) == ["dagster"] * 2 + ["dagster-daemon"] * 2 + ["dagster-webserver"] * 2


def test_only_the_proxy_is_reached_from_outside_and_only_the_viewer_is_read_only(project):
    services = yaml.safe_load((project / "deploy/compose.yaml").read_text())["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert [name for name, s in services.items() if "--read-only" in s.get("command", ())] == ["viewer"]
    assert all(service["mem_limit"] for service in services.values())
    assert all(service["logging"]["options"]["max-size"] for service in services.values())


def test_what_the_compose_file_asks_for_is_in_the_sample_of_its_settings(project):
    text = (project / "deploy/compose.yaml").read_text()
    named = {word.split("}")[0].split(":")[0] for word in text.split("${")[1:]}
    sample = (project / "deploy/env.example").read_text()
    assert named - {"LANDING"} == {line.split("=")[0] for line in sample.splitlines() if line[:1] not in "#"}
    assert (project / "deploy/.gitignore").read_text().split() == [".env"]


def test_the_instance_of_a_team_has_its_storage_in_postgres_and_is_else_the_projects(project, monkeypatch):
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "postgresql://dagster@127.0.0.1:1/dagster")
    ref = InstanceRef.from_dir(str(project / "deploy"))
    assert ref.storage_data.class_name == "DagsterPostgresStorage"
    ours, teams = (yaml.safe_load((project / f"{f}dagster.yaml").read_text()) for f in ("", "deploy/"))
    assert teams.pop("storage")
    assert teams == ours


def test_the_values_for_kubernetes_say_of_pools_and_retention_what_the_instance_says(project):
    values = yaml.safe_load((project / "deploy/values.yaml").read_text())
    instance = yaml.safe_load((project / "deploy/dagster.yaml").read_text())
    pools, retention = values["concurrency"]["pools"], values["retention"]
    assert {"default_limit": pools["defaultLimit"], "granularity": pools["granularity"]} == instance[
        "concurrency"
    ]["pools"]
    kept = {"sensor": "sensor", "schedule": "schedule", "autoMaterialize": "auto_materialize"}
    for theirs, name in kept.items():
        assert retention[theirs]["purgeAfterDays"] == instance["retention"][name]["purge_after_days"]
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    assert deployment["dagsterApiGrpcArgs"] == ["--module-name", "bookshop.definitions"]
    assert deployment["includeConfigInLaunchedRuns"]["enabled"]
    assert values["runLauncher"]["type"] == "K8sRunLauncher"


def test_a_deployment_is_not_written_twice_nor_outside_of_a_project(project, monkeypatch, tmp_path):
    monkeypatch.chdir(project)
    again = CliRunner().invoke(app, ["new", "deployment"])
    assert (again.exit_code, "nothing was written" in again.output) == (2, True)
    monkeypatch.chdir(tmp_path)
    outside = CliRunner().invoke(app, ["new", "deployment"])
    assert (outside.exit_code, "medallion new project" in outside.output) == (2, True)


def test_a_read_only_server_shows_and_refuses_to_launch(team):
    nodes = team.ask("viewer", "{ assetNodes { assetKey { path } } }")["data"]["assetNodes"]
    assert ["bookshop", "bronze", "orders"] in [node["assetKey"]["path"] for node in nodes]
    answer = team.ask("viewer", LAUNCH, job="plan")
    assert answer["data"]["launchRun"]["__typename"] == "UnauthorizedError"


def test_the_server_of_operators_launches_a_run_in_the_code_location(team):
    answer = team.ask("operator", LAUNCH, "/operate", job="plan")
    assert answer["data"]["launchRun"]["__typename"] == "LaunchRunSuccess"
    with team.instance() as instance:
        assert until(lambda: [run.status.value for run in instance.get_runs()] != [], 10)


def test_how_fresh_a_table_has_to_be_is_shown(team):
    windows = freshness(team, "internalFreshnessPolicy")
    assert windows["bookshop/gold/sales_by_customer"] == {"failWindowSeconds": 86400}
    assert windows["bookshop/bronze/orders"] is None


def test_a_pool_holds_between_processes_with_nothing_in_common_but_postgres(team, tmp_path):
    def claimed(machine, run):
        home = tmp_path / machine
        home.mkdir()
        (home / "dagster.yaml").write_text((team.project / "deploy/dagster.yaml").read_text())
        command = [sys.executable, "-c", CLAIM, run]
        environment = team.environment | {"DAGSTER_HOME": str(home)}
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert claimed("first", "run-1") == "True"
    assert claimed("second", "run-2") == "False"
    with team.instance() as instance:
        instance.event_log_storage.free_concurrency_slots_for_run("run-1")
    assert claimed("third", "run-2") == "True"


def test_the_proxy_lets_a_viewer_see_and_an_operator_launch_and_nobody_else_in(team):
    caddy = program("caddy")
    if not caddy:
        pytest.skip("Caddy is not installed")
    (port,) = free_ports(1)
    hashed = {
        f"{who.upper()}_HASH": subprocess.run(
            [caddy, "hash-password", "--plaintext", who], capture_output=True, text=True, check=True
        ).stdout.strip()
        for who in ("viewer", "operator")
    }
    servers = {f"{who.upper()}_SERVER": f"127.0.0.1:{team.ports[who]}" for who in ("viewer", "operator")}
    own = {
        "SITE": f"http://127.0.0.1:{port}",
        "XDG_DATA_HOME": str(team.home),
        "XDG_CONFIG_HOME": str(team.home),
    }
    team.ports["proxy"] = port
    command = [caddy, "run", "--config", str(team.project / "deploy/Caddyfile"), "--adapter", "caddyfile"]
    team.run("proxy", command, team.environment | hashed | servers | own)
    asked = {"query": LAUNCH, "variables": {"job": "plan"}}

    def answer(path, login=None):
        status, text = post(f"http://127.0.0.1:{port}{path}/graphql", asked, login)
        return status if status != 200 else text.split('"__typename":"')[1].split('"')[0]

    viewer, operator = ("viewer", "viewer"), ("operator", "operator")
    assert answer("") == answer("/operate") == 401
    assert answer("", ("viewer", "wrong")) == 401
    assert answer("", viewer) == answer("", operator) == "UnauthorizedError"
    assert answer("/operate", viewer) == 401
    assert answer("/operate", operator) == "LaunchRunSuccess"


@pytest.mark.spark
@pytest.mark.thorough
def test_a_dropped_file_reaches_gold_in_processes_that_share_postgres_alone(team):
    team.start("daemon")
    gold = team.project / "lake/bookshop/gold/sales_by_customer"
    assert until(lambda: log.exists(gold) and log.row_count(gold) > 0, 300), (
        team.home / "daemon.log"
    ).read_text()
    with team.instance() as instance:
        assert until(lambda: any(run.is_success for run in runs(instance)), 120)
        (run,) = runs(instance)
        assert run.tags["medallion/arrived"] == "1 new in bookshop/orders"
        # The process that ran it is the code location's.
        assert str(team.ports["code"]) in run.tags[".dagster/grpc_info"]
    assert not (team.home / "history").exists()
    fresh = {"freshnessStatus": "HEALTHY"}
    name = "bookshop/gold/sales_by_customer"
    assert until(lambda: freshness(team, "freshnessStatusInfo")[name] == fresh, 120)
    team.ask("operator", LAUNCH, "/operate", job="retention")
    with team.instance() as instance:
        assert until(lambda: [r.is_success for r in runs(instance, "retention")] == [True], 120)


def freshness(team, field):
    """Return what the web server shows of each table's freshness."""
    nodes = team.ask("viewer", FRESH)["data"]["assetNodes"]
    return {"/".join(n["assetKey"]["path"]): n[field] for n in nodes}


def runs(instance, job="bookshop_chain"):
    return [run for run in instance.get_runs() if run.job_name == job]
