"""The command line's root, and the commands that show tables and files or land simulated ones."""

import json
from typing import Annotated, Any, NoReturn

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from medallion_assets.declare.errors import DeclarationError, UnknownTable
from medallion_assets.declare.pipeline import chosen
from medallion_assets.declare.table import Table
from medallion_assets.delta.errors import UnfitStore
from medallion_assets.lake.loaded import loaded_tables
from medallion_assets.lake.paths import Lake
from medallion_assets.lake.resources import Resource, resources_of
from medallion_assets.project import NoPipelines, project_pipelines
from medallion_assets.reports import (
    SHOWN,
    files_of,
    history_of,
    show,
    statuses,
)
from medallion_assets.settings import current_settings
from medallion_assets.sources.errors import SourceError
from medallion_assets.sources.load_target import NamedTable
from medallion_assets.storage import StorageUnreachable, path_of, storage_of


class Commands(TyperGroup):
    """The commands: a store that does not answer, or cannot hold a lake, ends each with its message."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except (StorageUnreachable, UnfitStore) as error:
            typer.secho(str(error), err=True, fg="red")
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, help="An open medallion lakehouse."
)
USAGE_ERROR = 2
Names = Annotated[list[str] | None, typer.Argument(metavar="[PIPELINE | TABLE]...")]


def the_lake() -> Lake:
    """Return the lake the environment names; a setting that cannot work ends the command."""
    try:
        return Lake(current_settings())
    except ValidationError as error:
        refuse("; ".join(each["msg"] for each in error.errors()))
        raise


def titled(title: str) -> str:
    """Return the title of a list, with the user whose lake it is of."""
    user = current_settings().user_schema
    return f"{title} of {user}" if user else title


def tables_of(names: list[str]) -> list[Table]:
    """Return the tables of these pipelines and keys, upstream first; an unknown name ends the command."""
    try:
        return chosen(project_pipelines(), names)
    except (UnknownTable, NoPipelines, DeclarationError, SourceError) as error:
        refuse(" ".join(str(error).split()))


def tables_at(names: list[str], every: bool = False) -> list[tuple[Table, Lake]]:
    """Return ``tables_of``, each with its lake; a name may be that of a table a notebook's load fills.

    Args:
        names: Pipelines and tables.
        every: No name means the tables that loads fill as well, also where no pipeline is declared.
    """
    asks = bool(names) or every
    loaded = {table.key: (table, lake) for table, lake in loaded_tables(the_lake())} if asks else {}
    found = {name: _key_of(name) for name in names} or {key: key for key in loaded}
    keys = {name: key for name, key in found.items() if key in loaded and not _is_declared(name, key)}
    others = [name for name in names if name not in keys]
    declared = tables_of(others) if others or not (names or (keys and _is_no_project())) else []
    return [
        *((table, the_lake()) for table in declared),
        *(loaded[key] for key in dict.fromkeys(keys.values())),
    ]


def _key_of(name: str) -> str:
    """Return the key of a table by its name in the lake, bare or whole, or by its path; empty for none."""
    path, lake = path_of(name), the_lake().root
    named = path.relative_to(lake).as_posix() if path.is_relative_to(lake) else name
    try:
        return NamedTable.of(named.replace("/", ".")).key
    except SourceError:
        return ""


def declared_or(name: str) -> Table | str:
    """Return the declared table with this key, or the name where no pipeline declares it."""
    try:
        found = chosen(project_pipelines(), [name])
    except (UnknownTable, NoPipelines):
        return name
    return found[0] if [t.key for t in found] == [name.replace(".", "/")] else name


def _is_no_project() -> bool:
    try:
        return not project_pipelines()
    except NoPipelines:
        return True


def _is_declared(name: str, key: str) -> bool:
    try:
        pipelines = project_pipelines()
        return name in pipelines or any(key in pipeline.tables for pipeline in pipelines.values())
    except NoPipelines:
        return False


def table_at(name: str) -> tuple[Table, Lake]:
    """Return the table with this key, and its lake; the name of a pipeline ends the command."""
    found = tables_at([name])
    if len(found) != 1:
        refuse(f"{name!r} is a pipeline; name one of its tables: {', '.join(t.key for t, _ in found)}")
    return found[0]


def refuse(why: str) -> NoReturn:
    """End the command with exit code 2, for a usage error."""
    typer.echo(why, err=True)
    raise typer.Exit(USAGE_ERROR)


@app.command()
def status(
    names: Names = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show every table: its version, rows, quarantine, last run and checks."""
    found = [one for table, lake in tables_at(names or [], True) for one in statuses([table], lake)]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        show.table(titled("Tables"), [_brief(s) for s in found])


@app.command()
def metrics(
    file: Annotated[str, typer.Option(help="A file to write in one step; shown where there is none.")] = "",
) -> None:
    """Show what the event log tells of each table as metrics, in Prometheus's text format."""
    from medallion_assets.reports.metrics import NoPrometheus
    from medallion_assets.reports.metrics import metrics as metrics_of

    try:
        text = metrics_of(the_lake().root)
    except NoPrometheus as error:
        refuse(str(error))
    if file:
        path = str(path_of(file).absolute())
        storage_of(path).put(path, text.encode())
    else:
        typer.echo(text, nl=False)


@app.command()
def history(table: str, limit: int = 20) -> None:
    """Show a table's commits, newest first."""
    show.table(f"History of {table}", history_of(*table_at(table), limit))


@app.command()
def files(pipeline: str, as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """Show the landing files of a pipeline or a table, each with its status and counts."""
    tables = [one for one in tables_at([pipeline]) if one[0].source]
    found = [row for table, lake in tables for row in files_of(table, lake)]
    if as_json:
        typer.echo(json.dumps(found, indent=2, default=str))
    else:
        show.table(f"Files of {pipeline}", [{k: row[k] for k in ("table", *SHOWN)} for row in found])


@app.command()
def resources(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show what exists: tables and quarantines with rows, landing files, checkpoints, bad records ..."""
    show_resources("Resources", resources_of(the_lake()), as_json)


def show_resources(title: str, found: list[Resource], as_json: bool = False) -> None:
    """Print resources, each as a row."""
    rows = [{n: getattr(r, n) for n in ("kind", "name", "rows", "files", "path")} for r in found]
    typer.echo(json.dumps(rows, indent=2)) if as_json else show.table(titled(title), rows)


def _brief(status: dict[str, Any]) -> dict[str, Any]:
    key = f"{status['pipeline']}/{status['layer']}/{status['table']}"
    kept = ("version", "rows", "quarantined", "last_run", "checks")
    return {"table": key} | {name: status[name] for name in kept}


@app.command()
def land(
    pipeline: str,
    files: Annotated[int, typer.Option(help="How many more files.")] = 1,
    all_: Annotated[bool, typer.Option("--all", help="All remaining files of the set.")] = False,
    continuous: Annotated[
        bool, typer.Option(help="One more file every few seconds, to the end of the set or until stopped.")
    ] = False,
    every: Annotated[float, typer.Option(help="Seconds between files with --continuous.")] = 5.0,
    faults: Annotated[bool, typer.Option(help="Broken records among the good ones.")] = False,
    seed: int = 0,
) -> None:
    """Let simulated files arrive in a pipeline's landing zones."""
    from medallion_assets.simulators import SIMULATORS
    from medallion_assets.simulators.arrivals import land as land_files
    from medallion_assets.simulators.arrivals import land_in_turn

    if pipeline not in SIMULATORS:
        refuse(f"no simulator for {pipeline!r}; there are: {', '.join(SIMULATORS)}")
    landing = the_lake().settings.landing
    if continuous:
        batches = land_in_turn(pipeline, landing, every, seed, faults)
    else:
        batches = iter([land_files(pipeline, landing, None if all_ else files, seed, faults)])
    try:
        for landed in batches:
            for path in landed:
                typer.echo(f"landed {path}")
    except KeyboardInterrupt:
        typer.echo("stopped; the files that are left land when `medallion land` is called again")
