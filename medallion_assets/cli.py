"""The command line; what only reads metadata starts no Spark."""

import json
from typing import Annotated, Any

import typer

from medallion_assets.reports import (
    SHOWN,
    files_of,
    history_of,
    quarantine_counts,
    quarantine_rows,
    result_row,
    show,
    statuses,
)
from medallion_assets.settings import current_settings
from medallion_assets.tables.errors import UnknownTable
from medallion_assets.tables.lake import Lake
from medallion_assets.tables.order import chosen
from medallion_assets.tables.table import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, help="An open medallion lakehouse.")
quarantine = typer.Typer(no_args_is_help=True, help="What could not be a row, and why.")
app.add_typer(quarantine, name="quarantine")
USAGE_ERROR = 2


@app.command()
def land(
    pipeline: str,
    files: Annotated[int, typer.Option(help="How many more files.")] = 1,
    all_: Annotated[bool, typer.Option("--all", help="All that are left of the set.")] = False,
    continuous: Annotated[bool, typer.Option(help="One more file every few seconds, until stopped.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between files with --continuous.")] = 5.0,
    faults: Annotated[bool, typer.Option(help="Broken records among the good ones.")] = False,
    seed: int = 0,
) -> None:
    """Let simulated files arrive in a pipeline's landing zones."""
    from medallion_assets.simulators import SIMULATORS
    from medallion_assets.simulators.arrivals import land as land_files
    from medallion_assets.simulators.arrivals import land_forever

    if pipeline not in SIMULATORS:
        _refuse(f"no simulator for {pipeline!r}; there are: {', '.join(SIMULATORS)}")
    landing = current_settings().landing
    if continuous:
        batches = land_forever(pipeline, landing, every, seed, faults)
    else:
        batches = iter([land_files(pipeline, landing, None if all_ else files, seed, faults)])
    try:
        for landed in batches:
            for path in landed:
                typer.echo(f"landed {path}")
    except KeyboardInterrupt:
        typer.echo("stopped")


@app.command()
def run(names: Annotated[list[str] | None, typer.Argument(metavar="[PIPELINE | TABLE]...")] = None) -> None:
    """Take what is new through these tables, upstream first; exit 1 where a run or check failed."""
    from medallion_assets.run import run_tables
    from medallion_assets.session import start_session

    lake = _lake()
    outcomes = []
    for outcome in run_tables(_tables(names or []), lake, lambda: start_session(lake.settings)):
        outcomes.append(outcome)
        show.outcome(outcome)
    show.summary(outcomes)
    raise typer.Exit(0 if all(o.is_well for o in outcomes) else 1)


@app.command()
def status(
    names: Annotated[list[str] | None, typer.Argument(metavar="[PIPELINE | TABLE]...")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Every table: its version, rows, quarantine, last run and checks."""
    found = statuses(_tables(names or []), _lake())
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show.table("Tables", [_brief(s) for s in found])


@app.command()
def history(table: str, limit: int = 20) -> None:
    """A table's commits, newest first."""
    show.table(f"History of {table}", history_of(_table(table), _lake(), limit))


@app.command()
def files(pipeline: str, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """A pipeline's file ledger: every file seen, and what became of it."""
    found = [row for table in _tables([pipeline]) if table.source for row in files_of(table, _lake())]
    if as_json:
        typer.echo(json.dumps(found, indent=2, default=str))
    else:
        show.table(f"Files of {pipeline}", [{k: row[k] for k in ("table", *SHOWN)} for row in found])


@app.command("copy-into")
def copy_into_table(
    table: str,
    source: str,
    source_format: str,
    files: Annotated[list[str] | None, typer.Option(help="Names below the source (FILES).")] = None,
    pattern: Annotated[str, typer.Option(help="A glob for file names (PATTERN).")] = "",
    force: Annotated[bool, typer.Option(help="Append files again that were loaded before.")] = False,
    merge_schema: Annotated[bool, typer.Option(help="New columns join the table.")] = False,
    select: Annotated[list[str] | None, typer.Option(help="A column as SQL; repeat for more.")] = None,
    validate: Annotated[str, typer.Option(help="A number of rows, or ALL: judge, write nothing.")] = "",
    option: Annotated[list[str] | None, typer.Option(help="key=value for reader or source.")] = None,
) -> None:
    """Append a source's files to a table, each once; what is malformed goes to its quarantine."""
    from medallion_assets.ingestion import copy_into

    told = dict(pair.partition("=")[::2] for pair in option or [])
    try:
        result = copy_into(table, source, source_format, files=files or (), pattern=pattern, force=force,
                           merge_schema=merge_schema, select=select or (), validate=validate or 0,
                           format_options=told)  # fmt: skip
    except ValueError as error:
        _refuse(str(error))
        raise
    except RuntimeError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    show.table(f"COPY INTO {table}", [result_row(result)])


@quarantine.command("list")
def quarantine_list(
    names: Annotated[list[str] | None, typer.Argument(metavar="[PIPELINE | TABLE]...")] = None,
) -> None:
    """Quarantined rows by table and rule."""
    lake = _lake()
    counts = [row for t in _tables(names or []) for row in quarantine_counts(t, lake)]
    show.table("Quarantine", counts)


@quarantine.command("show")
def quarantine_show(table: str, limit: int = 20, rule: str = "") -> None:
    """A table's quarantined rows, newest first."""
    show.table(f"Quarantine of {table}", quarantine_rows(_table(table), _lake(), limit, rule))


def _brief(status: dict[str, Any]) -> dict[str, Any]:
    key = f"{status['pipeline']}/{status['layer']}/{status['table']}"
    kept = ("version", "rows", "quarantined", "last_run", "checks")
    return {"table": key} | {name: status[name] for name in kept}


def _lake() -> Lake:
    return Lake(current_settings())


def _tables(names: list[str]) -> list[Table]:
    from medallion_assets.pipelines import PIPELINES

    try:
        return chosen(PIPELINES, names)
    except UnknownTable as error:
        _refuse(str(error))
        raise


def _table(name: str) -> Table:
    found = _tables([name])
    if len(found) != 1:
        _refuse(f"{name!r} is a pipeline; name one of its tables: {', '.join(t.key for t in found)}")
    return found[0]


def _refuse(why: str) -> None:
    typer.echo(why, err=True)
    raise typer.Exit(USAGE_ERROR)
