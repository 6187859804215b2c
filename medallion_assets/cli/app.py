"""The command line's root, and the lake and tables a command works on."""

from typing import Annotated

import typer

from medallion_assets.declare.errors import DeclarationError, UnknownTable
from medallion_assets.declare.order import chosen
from medallion_assets.declare.table import Table
from medallion_assets.lake.paths import Lake
from medallion_assets.project import NoPipelines, project_pipelines
from medallion_assets.settings import current_settings
from medallion_assets.sources.errors import SourceError

app = typer.Typer(no_args_is_help=True, add_completion=False, help="An open medallion lakehouse.")
USAGE_ERROR = 2
Names = Annotated[list[str] | None, typer.Argument(metavar="[PIPELINE | TABLE]...")]


def the_lake() -> Lake:
    """Return the lake the environment names."""
    return Lake(current_settings())


def tables_of(names: list[str]) -> list[Table]:
    """Return the tables of these pipelines and keys, upstream first; an unknown name ends the command."""
    try:
        return chosen(project_pipelines(), names)
    except (UnknownTable, NoPipelines, DeclarationError, SourceError) as error:
        refuse(" ".join(str(error).split()))
        raise


def table_of(name: str) -> Table:
    """Return the table with this key; the name of a pipeline ends the command."""
    found = tables_of([name])
    if len(found) != 1:
        refuse(f"{name!r} is a pipeline; name one of its tables: {', '.join(t.key for t in found)}")
    return found[0]


def refuse(why: str) -> None:
    """End the command with exit code 2, for a usage error."""
    typer.echo(why, err=True)
    raise typer.Exit(USAGE_ERROR)
