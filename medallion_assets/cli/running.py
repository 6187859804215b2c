"""Commands that load what is new, and the one that begins a project of a person's own."""

import keyword
import re
import signal
import threading
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from jinja2 import Environment, StrictUndefined

from medallion_assets.cli.app import Names, app, declared_or, refuse, tables_of, the_lake
from medallion_assets.cli.verbs import do_to_each
from medallion_assets.declare.errors import DeclarationError, UnknownTable
from medallion_assets.declare.table import Table
from medallion_assets.declare.triggers import Timing, timings_of
from medallion_assets.lake.paths import Lake
from medallion_assets.operations import VerbRequest
from medallion_assets.reports import show
from medallion_assets.runs.run import run_tables
from medallion_assets.settings import current_settings, project_folder

Triggers = Annotated[
    list[str] | None,
    typer.Option(
        "--trigger", help="availableNow, once, or a processing time as 10s; TABLE=TRIGGER for one table."
    ),
]


@app.command()
def run(names: Names = None, trigger: Triggers = None) -> None:
    """Load what is new into these tables, upstream first; exit 1 where a table or a blocking check failed."""
    tables = tables_of(names or [])
    timings = _timings(tables, trigger)
    timed = [t for t in trigger or [] if t.rpartition("=")[2] not in ("availableNow", "once")]
    if timed:
        refuse(f"{', '.join(timed)} is for `medallion stream`: a run takes what is there, and ends")
    _run(tables, the_lake(), timings)


def _timings(tables: list[Table], asked: list[str] | None) -> Mapping[str, Timing]:
    """Return each table's trigger; one that cannot be read ends the command."""
    try:
        return timings_of(tables, asked or [])
    except (DeclarationError, UnknownTable) as error:
        refuse(str(error))


@app.command()
def refresh(
    names: Names = None,
    full: Annotated[bool, typer.Option("--full", help="Rebuild silver and gold from upstream.")] = False,
) -> None:
    """Load what is new into these tables; with --full rebuild them from all of upstream."""
    tables = tables_of(names or [])
    if not full:
        _run(tables, the_lake(), timings_of(tables))
    bronze = [table.key for table in tables if table.source]
    if bronze and names:
        refuse(
            f"{', '.join(bronze)}: bronze is not recomputed, since its landing files may be gone. "
            "Name the silver and gold tables to rebuild; nothing was changed."
        )
    do_to_each("full_refresh", [table.key for table in tables if not table.source], VerbRequest())


@app.command()
def stream(
    names: Names = None,
    every: Annotated[
        str, typer.Option(help="Processing time between micro-batches: 10s, 1m, 500ms.")
    ] = "10s",
    trigger: Triggers = None,
) -> None:
    """Keep these tables up to date in one warm session, until stopped with Ctrl-C or SIGTERM."""
    from medallion_assets.orchestration.events import announced
    from medallion_assets.runs.streaming import stream_tables
    from medallion_assets.session import start_session
    from medallion_assets.sources.errors import seconds_of

    lake, stop = the_lake(), threading.Event()
    tables = tables_of(names or [])
    timings = _timings(tables, trigger)
    try:
        wait = seconds_of(every)
    except ValueError as error:
        refuse(str(error))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    typer.echo(f"{len(tables)} tables, every {every}; Ctrl-C stops after the micro-batch under way")
    session = partial(start_session, lake.settings, stays=True)
    for moment in stream_tables(tables, lake, session, wait, stop, timings):
        show.moment(moment)
        announced(moment.outcome, lake, moment.latency_seconds)
    typer.echo("stopped; files that are not loaded yet wait for the next start")


@app.command()
def watch(
    table: str,
    quarantine: Annotated[bool, typer.Option("--quarantine", help="Its quarantine instead.")] = False,
    from_start: Annotated[bool, typer.Option("--from-start", help="The rows it has first.")] = False,
    for_: Annotated[float | None, typer.Option("--for", help="Seconds; until Ctrl-C without it.")] = None,
    limit: Annotated[int, typer.Option(help="Rows shown of each micro-batch at most.")] = 20,
) -> None:
    """Show a table's new rows and its query's progress as they come; writes nothing, holds no run up."""
    from pyspark.errors import StreamingQueryException

    from medallion_assets.reports.watch import watch as shown
    from medallion_assets.sources.errors import SourceError

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        seen = shown(
            declared_or(table),
            quarantine=quarantine,
            from_start=from_start,
            limit=limit,
            seconds=for_,
            until=lambda _: stop.is_set(),
        )
    except (DeclarationError, SourceError, StreamingQueryException) as error:
        refuse(str(error))
    typer.echo(f"stopped after {seen.rows:,} rows in {seen.batches:,} micro-batches")


@app.command()
def stop(
    names: Names = None,
    wait: Annotated[str, typer.Option(help="How long to wait for them to end.")] = "10m",
) -> None:
    """Stop every stream that keeps one of these tables up, and name it; exit 1 where one did not end."""
    from medallion_assets.runs.streaming import running_streams, stop_streams
    from medallion_assets.sources.errors import seconds_of

    lake, wanted = the_lake(), {table.key for table in tables_of(names or [])}
    found = [stream for stream in running_streams(lake) if wanted & {*stream.tables} or not names]
    if not found:
        typer.echo("no stream is running")
        return
    left = stop_streams(lake, found, seconds_of(wait))
    words = ("still in a micro-batch", "stopped")
    rows = [asdict(s) | {"tables": ", ".join(s.tables), "": words[s not in left]} for s in found]
    show.table("Streams", rows)
    raise typer.Exit(1 if left else 0)


def _run(tables: list[Table], lake: Lake, timings: Mapping[str, Timing]) -> None:
    from medallion_assets.orchestration.events import announced
    from medallion_assets.session import start_session

    outcomes = []
    for outcome in run_tables(tables, lake, lambda: start_session(lake.settings), timings=timings):
        outcomes.append(outcome)
        show.outcome(outcome)
        announced(outcome, lake)
    show.summary(outcomes)
    raise typer.Exit(0 if all(o.is_well for o in outcomes) else 1)


new = typer.Typer(no_args_is_help=True, help="Begin something new.")
app.add_typer(new, name="new")

PROJECT = {
    "pyproject.toml": "pyproject.toml",
    "Makefile": "Makefile",
    "README.md": "README.md",
    "workspace.yaml": "workspace.yaml",
    "gitignore": ".gitignore",
    "package/__init__.py": "{name}/__init__.py",
    "package/pipeline.py": "{name}/pipeline.py",
    "package/bronze.py": "{name}/bronze.py",
    "package/silver.py": "{name}/silver.py",
    "package/gold.py": "{name}/gold.py",
    "package/definitions.py": "{name}/definitions.py",
    "tests/test_project.py": "tests/test_{name}.py",
    "sample/orders-1.json": "landing/{name}/orders/orders-1.json",
}
"""Templates below ``templates/project``, and the file each becomes."""

DEPLOY = {
    "compose.yaml": "compose.yaml",
    "Dockerfile": "Dockerfile",
    "dockerignore": "Dockerfile.dockerignore",
    "Caddyfile": "Caddyfile",
    "env": "env.example",
    "gitignore": ".gitignore",
    "workspace.yaml": "workspace.yaml",
    "values.yaml": "values.yaml",
}
"""Templates below ``templates/deploy``, and the file each becomes."""


@new.command()
def project(
    name: str,
    folder: Annotated[Path | None, typer.Option(help="Where to; ./NAME without it.")] = None,
) -> None:
    """Write a Dagster project with a pipeline of its own, sample files, tests and a Makefile."""
    target = folder or Path(name)
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name) or keyword.iskeyword(name):
        refuse(f"{name!r} is no name for a project: it becomes a Python package; use a-z, 0-9 and _ only")
    if find_spec(name) is not None:
        refuse(f"{name!r} is the name of a module that is installed already; choose another")
    if target.exists() and any(target.iterdir()):
        refuse(f"{target} exists and is not empty; nothing was written")
    _write(target, "project", PROJECT, {"name": name, **_versions()})
    (target / "dagster.yaml").write_text(_instance(), "utf-8")
    typer.echo(f"{target} is a project now; `make demo` in it fills its tables, `make test` passes its tests")


@new.command()
def deployment() -> None:
    """Write deploy/ into this project: Dagster for a team, by Docker Compose or in Kubernetes."""
    package, root = current_settings().pipelines.partition(".")[0], project_folder()
    if not package or root is None:
        refuse("this is no project: run it where `medallion new project NAME` wrote one")
    target = root / "deploy"
    if target.exists():
        refuse(f"{target} exists; nothing was written")
    words = {"name": package, "module": f"{package}.definitions", **_versions()}
    _write(target, "deploy", DEPLOY, words)
    storage = _rendered("deploy", "storage.yaml", words)
    (target / "dagster.yaml").write_text(_instance() + storage, "utf-8")
    typer.echo(f"{target} is written; docs/team.md of medallion-assets says how to start it")


def _write(target: Path, folder: str, templates: Mapping[str, str], words: Mapping[str, str]) -> None:
    """Write the file each template becomes."""
    for template, path in templates.items():
        file = target / path.format(**words)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_rendered(folder, template, words), "utf-8")


def _rendered(folder: str, template: str, words: Mapping[str, str]) -> str:
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    text = (files("medallion_assets") / "templates" / folder / f"{template}.jinja").read_text("utf-8")
    return environment.from_string(text).render(words)


def _instance() -> str:
    """Return the ``dagster.yaml`` of every project."""
    return (files("medallion_assets") / "templates" / "dagster.yaml").read_text("utf-8")


def _versions() -> dict[str, str]:
    """Return the versions of this package that a project of today works with."""
    major, minor, *_ = version("medallion-assets").split(".")
    first, beyond = f"{major}.{minor}", f"{major}.{int(minor) + 1}"
    return {"version": first, "next_version": beyond, "versions": f">={first},<{beyond}"}
